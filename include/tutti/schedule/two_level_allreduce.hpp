// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/algorithm.hpp>
#include <tutti/schedule/on_hosts.hpp>

#include <algorithm>

namespace tutti::detail {

/// Allreduce. Where hosts have equally many ranks, each rank of a host gets a part of the sum over the host
/// (reduce_scatter), sums it with those of equal index on the other hosts (allreduce), and the ranks of a host tell
/// each other (allgather): all take a share of what goes between hosts. Else, or if `Inner` does not divide vectors,
/// one rank of each host does all of that: reduce, allreduce, broadcast.
template <class Inner, class Outer>
struct two_level_allreduce : parameters<false, segmented<schedule_for<collective::reduce, Inner>> ||
                                                   segmented<schedule_for<collective::allreduce, Outer>> ||
                                                   segmented<schedule_for<collective::broadcast, Inner>>> {
 private:
  using outer = schedule_for<collective::allreduce, Outer>;
  using reduce = schedule_for<collective::reduce, Inner>;
  using broadcast = schedule_for<collective::broadcast, Inner>;
  static constexpr bool shares =
      implements<Inner, collective::reduce_scatter> && implements<Inner, collective::allgather>;
  static constexpr bool parts_overlap = [] {
    if constexpr (shares) {
      return schedule_for<collective::reduce_scatter, Inner>::overlapping ||
             schedule_for<collective::allgather, Inner>::overlapping;
    } else {
      return false;
    }
  }();

 public:
  static constexpr bool rank_ordered = false;
  static constexpr bool overlapping =
      outer::overlapping || reduce::overlapping || broadcast::overlapping || parts_overlap;
  static constexpr bool whole_vector =
      !shares && tutti::whole_vector<outer> && tutti::whole_vector<reduce> && tutti::whole_vector<broadcast>;
  static constexpr bool uniform = tutti::uniform<outer>;

  static constexpr bool rank_ordered_at(place at) {
    const on_hosts here(at);
    const auto lowest = [](int) { return 0; };
    if constexpr (shares) {
      if (here.even()) return ordered_on_hosts<schedule_for<collective::reduce_scatter, Inner>, outer>(here, 0, lowest);
    }
    return ordered_on_hosts<reduce, outer>(here, 0, lowest);
  }

  constexpr int rounds(place at) const { return rounds_of_levels(*this, at); }
  constexpr int blocks(int size) const { return blocks(place{0, size}); }
  constexpr int blocks(place at) const {
    const on_hosts here(at);
    const int pieces = segments_made_with(*this);
    const int between = make_schedule<outer>(0, pieces).blocks(here.hosts());
    if (shares && here.even()) return between * here.ranks_on(0);
    return between * most_on_hosts(here, [&](int size) {
             return std::max(make_schedule<reduce>(0, pieces).blocks(size),
                             make_schedule<broadcast>(0, pieces).blocks(size));
           });
  }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    round_of_levels(*this, at, k, emit);
  }

  template <class F>
  constexpr void levels(place at, F f) const {
    const on_hosts here(at);
    const int pieces = segments_made_with(*this);
    const int all = blocks(at);
    const int between = make_schedule<outer>(0, pieces).blocks(here.hosts());
    const int ranks = here.ranks_on(here.host());
    if constexpr (shares) {
      if (here.even()) {
        using first = schedule_for<collective::reduce_scatter, Inner>;
        using last = schedule_for<collective::allgather, Inner>;
        const block_runs part{all, between, here.index() * between, between};
        f(level_within<first>(here, 0, pieces, runs_of_all(all, ranks)), level_across<outer>(here, pieces, part),
          level_within<last>(here, 0, pieces, runs_of_all(all, ranks)));
        return;
      }
    }
    const auto lowest = [](int) { return 0; };
    const int up = make_schedule<reduce>(0, pieces).blocks(ranks);
    const int down = make_schedule<broadcast>(0, pieces).blocks(ranks);
    f(level_within<reduce>(here, 0, pieces, runs_of_all(all, up)),
      level_between<outer>(here, 0, pieces, lowest, runs_of_all(all, between)),
      level_within<broadcast>(here, 0, pieces, runs_of_all(all, down)));
  }
};

}  // namespace tutti::detail
