// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/algorithm.hpp>
#include <tutti/schedule/on_hosts.hpp>

namespace tutti::detail {

/// Reduce_scatter, and allgather the other way round. Where hosts have equally many ranks, within each host every rank
/// gets the blocks of all ranks of its index, and those of equal index divide them among each other. Else the lowest
/// rank of each host sums for all, the leaders divide the blocks of whole hosts among each other, and scatter them.
/// What is divided last there is put together first in an allgather; it is made of the allgathers of its parts, which
/// need not be the duals of their reduce_scatters.
template <collective C, class Inner, class Outer>
struct two_level_blocks
    : parameters<
          false,
          segmented<schedule_for<C == collective::allgather ? collective::broadcast : collective::reduce, Inner>>> {
 private:
  static constexpr bool outward = C == collective::allgather;
  using inner = schedule_for<C, Inner>;
  using outer = schedule_for<C, Outer>;
  using whole = schedule_for<outward ? collective::broadcast : collective::reduce, Inner>;
  using each = schedule_for<outward ? collective::gather : collective::scatter, Inner>;

 public:
  static constexpr bool rank_ordered = outward;
  static constexpr bool overlapping =
      inner::overlapping || outer::overlapping || whole::overlapping || each::overlapping;
  static constexpr auto folding = outward ? folds::nothing : folds::repeatedly;

  static constexpr bool rank_ordered_at(place at) {
    const on_hosts here(at);
    const auto lowest = [](int) { return 0; };
    return here.even() ? ordered_on_hosts<inner, outer>(here, 0, lowest)
                       : ordered_on_hosts<whole, outer>(here, 0, lowest);
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
      in_order<outward>(f, level_within<inner>(here, 0, 1, blocks_of_indices(here)),
                        level_across<outer>(here, 1, blocks_across(here, here.index())));
      return;
    }
    const auto lowest = [](int) { return 0; };
    const int pieces = segments_made_with(*this);
    const int all = make_schedule<whole>(0, pieces).blocks(here.ranks_on(here.host()));
    in_order<outward>(f, level_within<whole>(here, 0, pieces, runs_of_all(at.size, all)),
                      level_within<each>(here, 0, 1, blocks_within(here, here.host())),
                      level_between<outer>(here, 0, 1, lowest, blocks_of_hosts(here)));
  }
};

}  // namespace tutti::detail
