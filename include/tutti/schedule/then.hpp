// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/schedule.hpp>

#include <concepts>

namespace tutti {

namespace detail {

/// What a schedule is made with.
template <bool Rooted, bool Segmented>
struct parameters {};
template <>
struct parameters<true, false> {
  int root;
};
template <>
struct parameters<false, true> {
  int segments = 1;
};
template <>
struct parameters<true, true> {
  int root;
  int segments = 1;
};

/// The part `S` of a schedule composed of several, made with the same root and segments.
template <class S, class Composed>
constexpr S part_of(const Composed& composed) {
  int root = 0;
  int segments = 1;
  if constexpr (rooted<S>) root = composed.root;
  if constexpr (segmented<S>) segments = composed.segments;
  return make_schedule<S>(root, segments);
}

}  // namespace detail

/// The schedule `S` with the root given in its type.
template <schedule S, int Root>
requires rooted<S>
struct rooted_at : detail::parameters<false, segmented<S>> {
  static constexpr bool rank_ordered = S::rank_ordered;
  static constexpr bool overlapping = S::overlapping;
  static constexpr bool whole_vector = tutti::whole_vector<S>;
  static constexpr auto folding = tutti::folding<S>;

  static constexpr bool rank_ordered_at(place at) { return tutti::rank_ordered<S>({Root, at.size, at.hosts}); }
  static constexpr bool canonical(int size) { return tutti::canonical<S>(size); }

  constexpr int rounds(place at) const { return original().rounds(at); }
  constexpr int blocks(int size) const { return original().blocks(size); }
  constexpr int blocks(place at) const { return blocks_of(original(), at); }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    original().round(at, k, emit);
  }
  constexpr bool shared(place at, int k) const { return shared_round(original(), at, k); }
  constexpr int next_round(place at, int k) const { return tutti::next_round(original(), at, k); }

 private:
  constexpr S original() const {
    if constexpr (segmented<S>) {
      return S{Root, this->segments};
    } else {
      return S{Root};
    }
  }
};

/// The rounds of `A`, then those of `B`, which must divide vectors into the same blocks. Rooted if one of them is, both
/// with the same root. Keeps rank order if both do, and the canonical tree if one folds along it and the other only
/// moves.
template <schedule A, schedule B>
struct then : detail::parameters<rooted<A> || rooted<B>, segmented<A> || segmented<B>> {
  static constexpr bool rank_ordered = A::rank_ordered && B::rank_ordered;
  static constexpr bool whole_vector = tutti::whole_vector<A> && tutti::whole_vector<B>;
  static constexpr bool overlapping = A::overlapping || B::overlapping;
  static constexpr auto folding = tutti::folding<B> == folds::nothing ? tutti::folding<A> : folds::repeatedly;

  static constexpr bool rank_ordered_at(place at) { return tutti::rank_ordered<A>(at) && tutti::rank_ordered<B>(at); }
  static constexpr bool canonical(int size) { return tutti::canonical<A>(size) || tutti::canonical<B>(size); }

  constexpr int rounds(place at) const { return first().rounds(at) + second().rounds(at); }
  constexpr int blocks(int size) const { return first().blocks(size); }
  constexpr int blocks(place at) const { return blocks_of(first(), at); }
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
  constexpr int next_round(place at, int k) const {
    const int before = first().rounds(at);
    if (k < before) k = tutti::next_round(first(), at, k);
    return k < before ? k : before + tutti::next_round(second(), at, k - before);
  }

 private:
  constexpr A first() const { return detail::part_of<A>(*this); }
  constexpr B second() const { return detail::part_of<B>(*this); }
};

/// `S` backwards: rounds in reverse, every message turned round, arriving values stored instead of folded. The dual of
/// a reduce is a broadcast, of a reduce_scatter an allgather, of a scatter a gather. Nothing is folded, so it keeps
/// order.
template <schedule S>
struct dual : detail::parameters<rooted<S>, segmented<S>> {
  static constexpr bool rank_ordered = true;
  static constexpr bool overlapping = S::overlapping;
  static constexpr bool whole_vector = tutti::whole_vector<S>;
  static constexpr auto folding = folds::nothing;

  constexpr int rounds(place at) const { return original().rounds(at); }
  constexpr int blocks(int size) const { return original().blocks(size); }
  constexpr int blocks(place at) const { return blocks_of(original(), at); }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    original().round(at, rounds(at) - 1 - k, [&](auto step) {
      if constexpr (is_send<decltype(step)>) {
        emit(recv_from{step.peer, step.what});
      } else if constexpr (is_recv<decltype(step)> || is_combine<decltype(step)>) {
        emit(send_to{step.peer, step.what});
      }
    });
  }
  constexpr bool shared(place at, int k) const { return shared_round(original(), at, rounds(at) - 1 - k); }
  constexpr int next_round(place at, int k) const requires requires(const S& s) { s.previous_round(at, k); }
  {
    const int last = rounds(at) - 1;
    return last - original().previous_round(at, last - k);
  }
  constexpr int previous_round(place at, int k) const requires requires(const S& s) { s.next_round(at, k); }
  {
    const int last = rounds(at) - 1;
    return last - original().next_round(at, last - k);
  }

 private:
  constexpr S original() const { return detail::part_of<S>(*this); }
};

}  // namespace tutti
