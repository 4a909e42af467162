// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/algorithm.hpp>
#include <tutti/schedule/on_hosts.hpp>

namespace tutti::detail {

/// Broadcast, scatter, gather and reduce through leaders: one rank of each host, the root on its own. Where hosts have
/// equally many ranks the leaders are those of the root's index, elsewhere the lowest ranks. Each host but the root's
/// gets, or gives, what its ranks need once, if `Outer` sends nothing by way of other hosts.
template <collective C, class Inner, class Outer>
struct two_level_rooted : parameters<true, segmented<schedule_for<C, Inner>> || segmented<schedule_for<C, Outer>>> {
 private:
  using inner = schedule_for<C, Inner>;
  using outer = schedule_for<C, Outer>;
  static constexpr bool outward = C == collective::broadcast || C == collective::scatter;
  static constexpr bool block_for_each = C == collective::gather || C == collective::scatter;

 public:
  static constexpr bool rank_ordered = C != collective::reduce;
  static constexpr bool overlapping = inner::overlapping || outer::overlapping;
  static constexpr bool whole_vector = !block_for_each && tutti::whole_vector<inner> && tutti::whole_vector<outer>;
  static constexpr auto folding = C == collective::reduce ? folds::repeatedly : folds::nothing;

  static constexpr bool rank_ordered_at(place at) {
    const on_hosts here(at);
    return ordered_on_hosts<inner, outer>(here, here.host(), leaders{here, at.rank});
  }

  constexpr int rounds(place at) const { return rounds_of_levels(*this, at); }
  constexpr int blocks(int size) const { return blocks(place{0, size}); }
  constexpr int blocks(place at) const {
    if constexpr (block_for_each) {
      return at.size;
    } else if constexpr (whole_vector) {
      return 1;
    } else {
      const on_hosts here(at);
      const int pieces = segments_made_with(*this);
      return make_schedule<outer>(0, pieces).blocks(here.hosts()) *
             most_on_hosts(here, [&](int size) { return make_schedule<inner>(0, pieces).blocks(size); });
    }
  }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    round_of_levels(*this, at, k, emit);
  }

  template <class F>
  constexpr void levels(place at, F f) const {
    const on_hosts here(at);
    const leaders leader{here, this->root};
    const int host = here.host();
    const int pieces = segments_made_with(*this);
    if constexpr (block_for_each) {
      in_order<outward>(f, level_within<inner>(here, leader(host), pieces, blocks_within(here, host)),
                        level_between<outer>(here, here.host(this->root), pieces, leader, blocks_of_hosts(here)));
    } else {
      const int all = blocks(at);
      const int in_host = make_schedule<inner>(0, pieces).blocks(here.ranks_on(host));
      const int in_all = make_schedule<outer>(0, pieces).blocks(here.hosts());
      in_order<outward>(f, level_within<inner>(here, leader(host), pieces, runs_of_all(all, in_host)),
                        level_between<outer>(here, here.host(this->root), pieces, leader, runs_of_all(all, in_all)));
    }
  }

 private:
  struct leaders {
    on_hosts here;
    int root;
    constexpr int operator()(int host) const { return here.even() || host == here.host(root) ? here.index(root) : 0; }
  };
};

}  // namespace tutti::detail
