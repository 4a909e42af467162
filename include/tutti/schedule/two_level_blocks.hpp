// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/algorithm.hpp>
#include <tutti/schedule/on_hosts.hpp>

namespace tutti::detail {

/// Reduce_scatter. Where hosts have equally many ranks, within each host every rank gets the blocks of all ranks of its
/// index, and those of equal index divide them among each other. Else the lowest rank of each host sums for all, the
/// leaders divide the blocks of whole hosts among each other, and scatter them.
template <class Inner, class Outer>
struct two_level_reduce_scatter : parameters<false, segmented<schedule_for<collective::reduce, Inner>>> {
 private:
  using inner = schedule_for<collective::reduce_scatter, Inner>;
  using outer = schedule_for<collective::reduce_scatter, Outer>;
  using reduce = schedule_for<collective::reduce, Inner>;
  using scatter = schedule_for<collective::scatter, Inner>;

 public:
  static constexpr bool rank_ordered = false;
  static constexpr bool overlapping =
      inner::overlapping || outer::overlapping || reduce::overlapping || scatter::overlapping;

  static constexpr bool rank_ordered_at(place at) {
    const on_hosts here(at);
    const auto lowest = [](int) { return 0; };
    return here.even() ? ordered_on_hosts<inner, outer>(here, 0, lowest)
                       : ordered_on_hosts<reduce, outer>(here, 0, lowest);
  }

  constexpr int rounds(place at) const { return rounds_of_levels(*this, at); }
  constexpr int blocks(int size) const { return size; }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    round_of_levels(*this, at, k, emit);
  }

  template <class F>
  constexpr void levels(place at, F f) const {
    const on_hosts here(at);
    if (here.even()) {
      f(level_within<inner>(here, 0, 1, blocks_of_indices(here)),
        level_across<outer>(here, 1, blocks_across(here, here.index())));
      return;
    }
    const auto lowest = [](int) { return 0; };
    const int pieces = segments_made_with(*this);
    const int up = make_schedule<reduce>(0, pieces).blocks(here.ranks_on(here.host()));
    f(level_within<reduce>(here, 0, pieces, runs_of_all(at.size, up)),
      level_between<outer>(here, 0, 1, lowest, blocks_of_hosts(here)),
      level_within<scatter>(here, 0, 1, blocks_within(here, here.host())));
  }
};

/// Allgather, the other way round: what is divided last there is put together first here.
template <class Inner, class Outer>
struct two_level_allgather : parameters<false, segmented<schedule_for<collective::broadcast, Inner>>> {
 private:
  using inner = schedule_for<collective::allgather, Inner>;
  using outer = schedule_for<collective::allgather, Outer>;
  using gather = schedule_for<collective::gather, Inner>;
  using broadcast = schedule_for<collective::broadcast, Inner>;

 public:
  static constexpr bool rank_ordered = true;
  static constexpr bool overlapping =
      inner::overlapping || outer::overlapping || gather::overlapping || broadcast::overlapping;
  static constexpr auto folding = folds::nothing;

  constexpr int rounds(place at) const { return rounds_of_levels(*this, at); }
  constexpr int blocks(int size) const { return size; }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    round_of_levels(*this, at, k, emit);
  }

  template <class F>
  constexpr void levels(place at, F f) const {
    const on_hosts here(at);
    if (here.even()) {
      f(level_across<outer>(here, 1, blocks_across(here, here.index())),
        level_within<inner>(here, 0, 1, blocks_of_indices(here)));
      return;
    }
    const auto lowest = [](int) { return 0; };
    const int pieces = segments_made_with(*this);
    const int down = make_schedule<broadcast>(0, pieces).blocks(here.ranks_on(here.host()));
    f(level_within<gather>(here, 0, 1, blocks_within(here, here.host())),
      level_between<outer>(here, 0, 1, lowest, blocks_of_hosts(here)),
      level_within<broadcast>(here, 0, pieces, runs_of_all(at.size, down)));
  }
};

}  // namespace tutti::detail
