// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/place.hpp>
#include <tutti/schedule/group.hpp>
#include <tutti/schedule/proof_buffer.hpp>

#include <concepts>
#include <string_view>
#include <utility>

namespace tutti {

/// One message of a route: rank `x` sends the blocks `x * what` to rank `x * by`. Where one set does not hold them,
/// hops by the same element in a row are one message.
struct hop {
  int by;
  block_set what;
};

namespace detail {

template <class R>
concept single_port_route = requires(int n) {
  { R::entry(n, n) } -> std::same_as<hop>;
};
template <class R>
concept multi_port_route = requires(int n) {
  { R::entry(n, n, n) } -> std::same_as<hop>;
  { R::ports(n, n) } -> std::same_as<int>;
};

}  // namespace detail

/// A route is a list of rounds; one rank's view, moved about by a group, is everybody's. A tag type with
///
/// - `R::name`: what users read in messages and tables;
/// - `R::rounds(size)`: number of rounds, 0 for one rank;
/// - `R::entry(size, k)`: the hop of round k; or, for several messages in a round, `R::ports(size, k)` and
///   `R::entry(size, k, port)`, where an empty `what` means no message.
///
/// Optional: `R::group_type` (default `cyclic`), `R::supports(size)` (default every size), `R::rank_ordered` (default
/// false; true: lower ranks are folded as left operands and that keeps rank order), `R::canonical(size)` (default
/// false; true: and it folds along the canonical tree). Semantics: `valid_route`.
template <class R>
concept route = (detail::single_port_route<R> || detail::multi_port_route<R>)&&requires(int n) {
  { R::name } -> std::convertible_to<std::string_view>;
  { R::rounds(n) } -> std::same_as<int>;
};

/// Whether the algorithm works among `size` ranks.
template <class A>
constexpr bool supports(int size) {
  if constexpr (requires { A::supports(size); }) {
    return A::supports(size);
  } else {
    return true;
  }
}

/// Whether it works on the ranks of such a place, where it tells hosts apart.
template <class A>
constexpr bool supports(place at) {
  if constexpr (requires { A::supports(at); }) {
    return A::supports(at);
  } else {
    return supports<A>(at.size);
  }
}

namespace detail {

template <class R>
struct route_group {
  using type = cyclic;
};
template <class R>
requires requires { typename R::group_type; }
struct route_group<R> {
  using type = typename R::group_type;
  static_assert(group<type>, "a route's group_type must be a group");
};

/// A route with every optional member filled in and every number brought into range.
template <route R>
struct route_view {
  using group_type = typename route_group<R>::type;

  static constexpr bool rank_ordered = [] {
    if constexpr (requires { R::rank_ordered; }) {
      return R::rank_ordered;
    } else {
      return false;
    }
  }();
  static constexpr bool canonical(int size) {
    if constexpr (requires { R::canonical(size); }) {
      return R::canonical(size);
    } else {
      return false;
    }
  }
  static constexpr int rounds(int size) { return R::rounds(size); }
  static constexpr int ports(int size, int k) {
    if constexpr (multi_port_route<R>) {
      return R::ports(size, k);
    } else {
      return 1;
    }
  }
  static constexpr hop entry(int size, int k, int port) {
    hop h{};
    if constexpr (multi_port_route<R>) {
      h = R::entry(size, k, port);
    } else {
      h = R::entry(size, k);
    }
    return {wrapped(h.by, size), {wrapped(h.what.first, size), h.what.stride, h.what.count}};
  }
};

}  // namespace detail

/// Whether the route is correct among `size` ranks, and with it everything derived from it: the block sets partition
/// the group without its identity, and every h that round k sends by g leaves `g^-1 * h`, which is the identity or is
/// sent in a later round. The combines of one round must fold into equal or disjoint sets, so that they can be folded
/// in one pass. Cost: O(size). Source: the generalised circulant reduce-scatter of Traff, arXiv 2410.14234, for any
/// finite group.
template <route R>
constexpr bool valid_route(int size) {
  using view = detail::route_view<R>;
  if (size < 1 || !supports<R>(size)) return false;
  const typename view::group_type g{size};
  const int rounds = view::rounds(size);
  if (rounds < 0 || (size == 1 && rounds != 0)) return false;

  constexpr int never = -1;
  detail::proof_buffer<int> sent_in(size, never);
  for (int k = 0; k < rounds; ++k) {
    for (int port = 0; port < view::ports(size, k); ++port) {
      const auto [by, what] = view::entry(size, k, port);
      if (what.count == 0) continue;
      if (by == 0 || what.count < 0 || what.count >= size || !g.translatable(what)) return false;
      for (int i = 0; i < what.count; ++i) {
        int& round = sent_in[what.at(i, size)];
        if (round != never) return false;
        round = k;
      }
    }
  }
  if (sent_in[0] != never) return false;
  for (int h = 1; h < size; ++h) {
    if (sent_in[h] == never) return false;
  }

  // Per remainder: the message of this round that folds into it first, counted over the whole route.
  detail::proof_buffer<int> folded_by(size, never);
  int message = 0;
  for (int k = 0; k < rounds; ++k) {
    const int first_of_round = message;
    const auto remainders = [&](int port) {
      const auto [by, what] = view::entry(size, k, port);
      return what.count == 0 ? what : g.translate(g.inverse(by), what);
    };
    for (int port = 0; port < view::ports(size, k); ++port, ++message) {
      const block_set rest = remainders(port);
      block_set shared{};  // with an earlier message of the round
      for (int i = 0; i < rest.count; ++i) {
        const int h = rest.at(i, size);
        if (h != 0 && sent_in[h] <= k) return false;
        if (i == 0 && folded_by[h] >= first_of_round) shared = remainders(folded_by[h] - first_of_round);
        if (shared.count == 0 && folded_by[h] >= first_of_round && folded_by[h] != message) return false;
        if (shared.count == 0) folded_by[h] = message;
        if (shared.count != 0 && (shared.count != rest.count || shared.at(i, size) != h)) return false;
      }
    }
  }
  return true;
}

namespace detail {

// A variable for each size: compilers count the steps of one constant expression, not of all of them. Few ranks take
// few steps, and every program proves the library's routes among them: these sizes are one constant expression.
inline constexpr int proved_together = 8;

template <class R, int First, int Last>
inline constexpr bool proved_among = [] {
  for (int size = First; size <= Last; ++size) {
    if (supports<R>(size) && !valid_route<R>(size)) return false;
  }
  return true;
}();

template <class R, int First, int... I>
constexpr bool proved_each(std::integer_sequence<int, I...>) {
  return (proved_among<R, First + I, First + I> && ...);
}

}  // namespace detail

/// The route is correct for each size in `[First, Last]` that it supports.
template <route R, int First, int Last>
inline constexpr bool proved = [] {
  constexpr int together = Last < detail::proved_together ? Last : detail::proved_together;
  constexpr int next = First > together ? First : together + 1;
  constexpr int others = Last >= next ? Last - next + 1 : 0;
  return detail::proved_among<R, First, together> &&
         detail::proved_each<R, next>(std::make_integer_sequence<int, others>{});
}();

}  // namespace tutti
