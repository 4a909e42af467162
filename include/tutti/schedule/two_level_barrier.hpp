// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/algorithm.hpp>
#include <tutti/schedule/on_hosts.hpp>

#include <algorithm>

namespace tutti::detail {

/// Barrier. The ranks of each host wait for each other; then those of equal index, where hosts have equally many ranks;
/// else one rank of each host for the others, and tells its host.
template <class Inner, class Outer>
struct two_level_barrier {
 private:
  using inner = schedule_for<collective::barrier, Inner>;
  using outer = schedule_for<collective::barrier, Outer>;
  using broadcast = schedule_for<collective::broadcast, Inner>;

 public:
  static constexpr bool rank_ordered = true;
  static constexpr bool overlapping = inner::overlapping || outer::overlapping || broadcast::overlapping;
  static constexpr auto folding = folds::nothing;

  constexpr int rounds(place at) const { return rounds_of_levels(*this, at); }
  constexpr int blocks(int size) const { return blocks(place{0, size}); }
  /// As many as the part that has most.
  constexpr int blocks(place at) const {
    const on_hosts here(at);
    return std::max(outer{}.blocks(here.hosts()), most_on_hosts(here, [](int size) {
                      return std::max(inner{}.blocks(size), make_schedule<broadcast>(0).blocks(size));
                    }));
  }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    round_of_levels(*this, at, k, emit);
  }

  template <class F>
  constexpr void levels(place at, F f) const {
    const on_hosts here(at);
    const int all = blocks(at);
    const int ranks = here.ranks_on(here.host());
    const block_runs among_hosts = runs_of_all(all, outer{}.blocks(here.hosts()));
    const auto first = level_within<inner>(here, 0, 1, runs_of_all(all, inner{}.blocks(ranks)));
    if (here.even()) {
      f(first, level_across<outer>(here, 1, among_hosts));
      return;
    }
    const auto lowest = [](int) { return 0; };
    f(first, level_between<outer>(here, 0, 1, lowest, among_hosts),
      level_within<broadcast>(here, 0, 1, runs_of_all(all, make_schedule<broadcast>(0).blocks(ranks))));
  }
};

}  // namespace tutti::detail
