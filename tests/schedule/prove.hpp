// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/cost.hpp>
#include <tutti/schedule/proof.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace schedule_test {

using tutti::place;

/// Every root; without optimisation, which makes it ten times slower, of groups over 33 those at the edges and in the
/// middle.
template <class Visit>
void each_root(int size, Visit visit) {
#if defined(__OPTIMIZE__)
  constexpr int all_up_to = 64;
#else
  constexpr int all_up_to = 33;
#endif
  if (size <= all_up_to) {
    for (int root = 0; root < size; ++root) visit(root);
  } else {
    for (const int root : {0, 1, size / 2, size - 1}) visit(root);
  }
}

/// A schedule that says so has one block at every size.
template <class S>
bool whole_truthfully(const S& s, int size) {
  return !tutti::whole_vector<S> || s.blocks(size) == 1;
}

/// Where a schedule says that a round's messages may be read from their senders' vectors, all ranks say so of the same
/// rounds, and each message is a run of neighbouring blocks.
template <class S>
bool shares_truthfully(const S& s, int size) {
  if constexpr (requires(place at) { s.shared(at, 0); }) {
    const int rounds = s.rounds({0, size});
    for (int rank = 0; rank < size; ++rank) {
      const place at{rank, size};
      for (int k = 0; k < s.rounds(at); ++k) {
        if (k < rounds && s.shared(at, k) != s.shared({0, size}, k)) return false;
        if (!s.shared(at, k)) continue;
        bool runs = s.rounds(at) == rounds;
        s.round(at, k, [&](auto step) {
          const int first = tutti::modulo(step.what.first, s.blocks(size));
          runs &= step.what.count == 1 || (step.what.stride == 1 && first + step.what.count <= s.blocks(size));
        });
        if (!runs) return false;
      }
    }
  }
  return true;
}

/// Where a schedule says which round of a rank comes next, or came before, no round between has a step.
template <class S>
bool skips_truthfully(const S& s, int size) {
  if constexpr (
      requires { s.next_round(place{}, 0); } || requires { s.previous_round(place{}, 0); }) {
    for (int rank = 0; rank < size; ++rank) {
      const place at{rank, size};
      const int rounds = s.rounds(at);
      std::vector<int> busy_before{0};  // rounds that have a step
      for (int k = 0; k < rounds; ++k) {
        bool busy = false;
        s.round(at, k, [&](auto) { busy = true; });
        busy_before.push_back(busy_before.back() + (busy ? 1 : 0));
      }
      const auto busy_between = [&](int begin, int end) {
        return busy_before[static_cast<std::size_t>(end)] != busy_before[static_cast<std::size_t>(begin)];
      };
      for (int k = 0; k < rounds; ++k) {
        if constexpr (requires { s.next_round(at, k); }) {
          const int next = s.next_round(at, k);
          if (next < k || next > rounds || busy_between(k, next)) return false;
        }
        if constexpr (requires { s.previous_round(at, k); }) {
          const int previous = s.previous_round(at, k);
          if (previous > k || previous < -1 || busy_between(previous + 1, k + 1)) return false;
        }
      }
    }
  }
  return true;
}

/// Runs the symbolic proof of algorithm `A` doing collective `C` for each size up to 64 and each root.
template <class A, tutti::collective C>
void prove_one() {
  if constexpr (tutti::implements<A, C>) {
    using S = tutti::schedule_for<C, A>;
    int cases = 0;
    for (int size = 1; size <= 64; ++size) {
      if (!tutti::supports<A>(size)) continue;
      const auto prove_case = [&](int root, int segments) {
        const tutti::verdict v = tutti::correct<C, S>(size, root, segments);
        ++cases;
        const S s = tutti::detail::make_schedule<S>(root, segments);
        if (!shares_truthfully(s, size) || !whole_truthfully(s, size) || !skips_truthfully(s, size))
          FAIL_CHECK("a false hint, size " << size);
        if (!v) {
          FAIL_CHECK(std::string(tutti::name_of<A>())
                     << " " << std::string(tutti::name_of(C)) << ", size " << size << ", root " << root << ", "
                     << segments << " segments: fault " << static_cast<int>(v.what) << " at rank " << v.rank);
        }
      };
      const auto prove_root = [&](int root) {
        if constexpr (!tutti::segmented<S>) {
          prove_case(root, 1);
        } else if (const int most = size <= 8 ? 6 : 3; size <= 16) {
          for (int segments = 1; segments <= most; ++segments) prove_case(root, segments);
        } else {
          prove_case(root, 1 + (size + root) % 3);  // all of them would take too long
        }
      };
      if constexpr (tutti::rooted<S>) {
        each_root(size, prove_root);
      } else {
        prove_root(0);
      }
    }
    CHECK(cases > 0);
  }
}

/// The proof for each collective that `A` implements. Returns how many those are.
template <class A>
int prove() {
  using enum tutti::collective;
  prove_one<A, broadcast>();
  prove_one<A, scatter>();
  prove_one<A, gather>();
  prove_one<A, reduce>();
  prove_one<A, reduce_scatter>();
  prove_one<A, allgather>();
  prove_one<A, allreduce>();
  prove_one<A, alltoall>();
  prove_one<A, barrier>();
  prove_one<A, scan>();
  prove_one<A, exscan>();
  return tutti::implements<A, broadcast> + tutti::implements<A, scatter> + tutti::implements<A, gather> +
         tutti::implements<A, reduce> + tutti::implements<A, reduce_scatter> + tutti::implements<A, allgather> +
         tutti::implements<A, allreduce> + tutti::implements<A, alltoall> + tutti::implements<A, barrier> +
         tutti::implements<A, scan> + tutti::implements<A, exscan>;
}

/// The route in static_assert to 64, which proves all that is derived from it; that is executed as well, at few sizes,
/// or the compiler would spend all its time here.
template <class R>
constexpr bool route_is_proved() {
  using enum tutti::collective;
  static_assert(tutti::proved<R, 1, 64>);
  static_assert(tutti::proved_schedule<reduce_scatter, R, 1, 8>);
  static_assert(tutti::proved_schedule<allgather, R, 1, 8>);
  static_assert(tutti::proved_schedule<allreduce, R, 1, 8>);
  static_assert(tutti::proved_schedule<alltoall, R, 1, 8>);
  static_assert(tutti::proved_schedule<barrier, R, 1, 8>);
  static_assert(tutti::proved_schedule<reduce, R, 1, 5>);
  static_assert(tutti::proved_schedule<broadcast, R, 1, 5>);
  static_assert(tutti::proved_schedule<scatter, R, 1, 5>);
  static_assert(tutti::proved_schedule<gather, R, 1, 5>);
  return true;
}

template <class R>
void check_route(int up_to) {
  for (int size = 1; size <= up_to; ++size) {
    if (tutti::supports<R>(size) && !tutti::valid_route<R>(size)) FAIL_CHECK("size " << size);
  }
}

template <tutti::collective C, class A>
tutti::schedule_cost cost(int size) {
  return tutti::count(tutti::detail::make_schedule<tutti::schedule_for<C, A>>(0), size);
}

inline int ceil_log2(int size) {
  int q = 0;
  while ((1 << q) < size) ++q;
  return q;
}

inline int floor_log2(int size) {
  int f = 0;
  while ((2 << f) <= size) ++f;
  return f;
}

/// What every route costs: n(p-1)/p bytes each way, `rounds` rounds, one message a round, or else at most `fan_in` in a
/// round and `messages` in all.
template <class R>
void check_route_costs(int size, int rounds, int fan_in, int messages) {
  using enum tutti::collective;
  CAPTURE(size);
  const long long others = size - 1;
  using view = tutti::detail::route_view<R>;
  long long largest = 0;  // message
  for (int k = 0; k < rounds; ++k) {
    std::map<int, long long> to;
    for (int port = 0; port < view::ports(size, k); ++port) {
      const auto [by, what] = view::entry(size, k, port);
      largest = std::max(largest, to[by] += what.count);
    }
  }
  const tutti::schedule_cost scattered{.rounds = rounds,
                                       .fan_in = fan_in,
                                       .messages = static_cast<long long>(size) * messages,
                                       .busiest = messages,
                                       .volume = size * others,
                                       .sent = others,
                                       .received = others,
                                       .folds = others,
                                       .scratch = largest};
  tutti::schedule_cost gathered = scattered;
  gathered.folds = 0;
  gathered.scratch = 0;
  const tutti::schedule_cost both{.rounds = 2 * rounds,
                                  .fan_in = fan_in,
                                  .messages = 2 * scattered.messages,
                                  .busiest = 2 * messages,
                                  .volume = 2 * size * others,
                                  .sent = 2 * others,
                                  .received = 2 * others,
                                  .folds = others,
                                  .scratch = largest};
  CHECK(cost<reduce_scatter, R>(size) == scattered);
  CHECK(cost<allgather, R>(size) == gathered);
  CHECK(cost<allreduce, R>(size) == both);
  // Restricted to one root every other rank sends its partial result, or gets the whole vector, once.
  CHECK(cost<reduce, R>(size).volume == others);
  CHECK(cost<broadcast, R>(size).volume == others);
  CHECK(cost<reduce, R>(size).rounds == rounds);
  CHECK(cost<gather, R>(size).received == others);
  CHECK(cost<scatter, R>(size).sent == others);
}
template <class R>
void check_route_costs(int size, int rounds) {
  check_route_costs<R>(size, rounds, 1, rounds);
}

/// The rounds of a route, as which displacements are sent by which element: what it does, however its sets are written.
template <class R>
std::vector<std::map<int, std::set<int>>> rounds_of(int size) {
  using view = tutti::detail::route_view<R>;
  std::vector<std::map<int, std::set<int>>> rounds;
  for (int k = 0; k < R::rounds(size); ++k) {
    rounds.emplace_back();
    for (int port = 0; port < view::ports(size, k); ++port) {
      const auto [by, what] = view::entry(size, k, port);
      for (int i = 0; i < what.count; ++i) rounds.back()[by].insert(what.at(i, size));
    }
  }
  return rounds;
}

}  // namespace schedule_test
