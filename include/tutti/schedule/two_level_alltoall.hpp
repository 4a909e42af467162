// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/algorithm.hpp>
#include <tutti/schedule/flat.hpp>
#include <tutti/schedule/on_hosts.hpp>

namespace tutti::detail {

/// All-to-all. Where hosts have equally many ranks, a: the ranks of a host exchange first, so that each has what is for
/// ranks of its own index, for each host a blocks, which those of equal index exchange then; slot `i + a * j` is slot i
/// of `Inner` and slot j of `Outer`. Else there are not slots enough to pass on what others send, and every block goes
/// straight to its rank, as in `flat`: as few bytes between hosts, but more messages.
template <class Inner, class Outer>
struct two_level_alltoall {
 private:
  using inner = schedule_for<collective::alltoall, Inner>;
  using outer = schedule_for<collective::alltoall, Outer>;
  using straight = flat::alltoall;

 public:
  static constexpr bool rank_ordered = true;
  static constexpr bool overlapping = true;
  static constexpr auto folding = folds::nothing;

  constexpr int rounds(place at) const { return rounds_of_levels(*this, at); }
  constexpr int blocks(int size) const { return size; }
  constexpr int destination(place at, int slot) const {
    const on_hosts here(at);
    if (!here.even()) return straight{}.destination(at, slot);
    const int ranks = here.ranks_on(0);
    return here.rank(outer{}.destination(here.between(), slot / ranks),
                     inner{}.destination(here.within(), slot % ranks));
  }
  constexpr int source(place at, int slot) const {
    const on_hosts here(at);
    if (!here.even()) return straight{}.source(at, slot);
    const int ranks = here.ranks_on(0);
    return here.rank(outer{}.source(here.between(), slot / ranks), inner{}.source(here.within(), slot % ranks));
  }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    round_of_levels(*this, at, k, emit);
  }

  template <class F>
  constexpr void levels(place at, F f) const {
    const on_hosts here(at);
    if (!here.even()) {
      const auto peer = [](int rank) { return rank; };
      const block_runs blocks = runs_of_all(at.size, at.size);
      f(level<straight, decltype(peer), block_runs>{{}, at, true, straight{}.rounds(at), peer, blocks});
      return;
    }
    const int ranks = here.ranks_on(0);
    const int hosts = here.hosts();
    const auto of_inner = [=](int slot, auto add) {
      for (int j = 0; j < hosts; ++j) add(slot + ranks * j);
    };
    const block_lists<decltype(of_inner)> slots{at.size, ranks, of_inner};
    f(level_within<inner>(here, 0, 1, slots), level_across<outer>(here, 1, runs_of_all(at.size, hosts)));
  }
};

}  // namespace tutti::detail
