// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/schedule.hpp>

#include <concepts>

namespace tutti {

/// A schedule that has a root: an aggregate of it, made by `S{root}`.
template <class S>
concept rooted = requires(const S& s) {
  { s.root } -> std::convertible_to<int>;
};

namespace detail {

template <class S, class Composed>
constexpr S part_of(const Composed& composed) {
  if constexpr (rooted<S>) {
    return S{composed.root};
  } else {
    return S{};
  }
}

template <bool Rooted>
struct root_member {};
template <>
struct root_member<true> {
  int root;
};

}  // namespace detail

/// The schedule `S` with the root given in its type.
template <rooted S, int Root>
struct rooted_at {
  static constexpr bool rank_ordered = S::rank_ordered;
  static constexpr bool overlapping = S::overlapping;
  static constexpr bool whole_vector = tutti::whole_vector<S>;

  constexpr int rounds(place at) const { return S{Root}.rounds(at); }
  constexpr int blocks(int size) const { return S{Root}.blocks(size); }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    S{Root}.round(at, k, emit);
  }
  constexpr bool shared(place at, int k) const { return shared_round(S{Root}, at, k); }
};

/// The rounds of `A`, then those of `B`, which must divide vectors into the same blocks. Rooted if one of them is, both
/// with the same root. Keeps rank order if both do.
template <schedule A, schedule B>
struct then : detail::root_member<rooted<A> || rooted<B>> {
  static constexpr bool rank_ordered = A::rank_ordered && B::rank_ordered;
  static constexpr bool whole_vector = tutti::whole_vector<A> && tutti::whole_vector<B>;
  static constexpr bool overlapping = A::overlapping || B::overlapping;

  constexpr int rounds(place at) const { return first().rounds(at) + second().rounds(at); }
  constexpr int blocks(int size) const { return first().blocks(size); }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    if (const int before = first().rounds(at); k < before) {
      first().round(at, k, emit);
    } else {
      second().round(at, k - before, emit);
    }
  }
  constexpr bool shared(place at, int k) const {
    const int before = first().rounds(at);
    return k < before ? shared_round(first(), at, k) : shared_round(second(), at, k - before);
  }

 private:
  constexpr A first() const { return detail::part_of<A>(*this); }
  constexpr B second() const { return detail::part_of<B>(*this); }
};

/// `S` backwards: rounds in reverse, every message turned round, arriving values stored instead of folded. The dual of
/// a reduce is a broadcast, of a reduce_scatter an allgather, of a scatter a gather. Nothing is folded, so it keeps
/// order.
template <schedule S>
struct dual : detail::root_member<rooted<S>> {
  static constexpr bool rank_ordered = true;
  static constexpr bool overlapping = S::overlapping;
  static constexpr bool whole_vector = tutti::whole_vector<S>;

  constexpr int rounds(place at) const { return original().rounds(at); }
  constexpr int blocks(int size) const { return original().blocks(size); }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    const int turned = rounds(at) - 1 - k;
    original().round(at, turned, [&](auto step) {
      if constexpr (!is_send<decltype(step)>) emit(send{step.peer, step.what});
    });
    original().round(at, turned, [&](auto step) {
      if constexpr (is_send<decltype(step)>) emit(recv{step.peer, step.what});
    });
  }
  constexpr bool shared(place at, int k) const { return shared_round(original(), at, rounds(at) - 1 - k); }

 private:
  constexpr S original() const { return detail::part_of<S>(*this); }
};

}  // namespace tutti
