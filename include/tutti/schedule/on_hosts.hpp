// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/block_set.hpp>
#include <tutti/core/host_map.hpp>
#include <tutti/core/place.hpp>
#include <tutti/schedule/group.hpp>
#include <tutti/schedule/schedule.hpp>

#include <algorithm>
#include <type_traits>

namespace tutti::detail {

/// A place among its hosts. Where they are not known all ranks are on one.
class on_hosts {
 public:
  constexpr explicit on_hosts(place at) : at_{at} {}

  constexpr int ranks() const { return at_.size; }
  constexpr int hosts() const { return known() ? at_.hosts->hosts() : 1; }
  constexpr bool even() const { return !known() || at_.hosts->even(); }
  constexpr bool neighbours() const { return !known() || at_.hosts->neighbours(); }
  constexpr int ranks_on(int host) const { return known() ? at_.hosts->ranks_on(host) : at_.size; }
  constexpr int rank(int host, int index) const { return known() ? at_.hosts->rank(host, index) : index; }
  constexpr int different_sizes() const { return known() ? at_.hosts->different_sizes() : 1; }
  constexpr int size(int i) const { return known() ? at_.hosts->size(i) : at_.size; }

  /// Of this place, or of another rank.
  constexpr int host() const { return host(at_.rank); }
  constexpr int index() const { return index(at_.rank); }
  constexpr int host(int rank) const { return known() ? at_.hosts->host(rank) : 0; }
  constexpr int index(int rank) const { return known() ? at_.hosts->index(rank) : rank; }
  /// This place among the ranks of its host, and its host among the hosts.
  constexpr place within() const { return {index(), ranks_on(host())}; }
  constexpr place between() const { return {host(), hosts()}; }

 private:
  constexpr bool known() const { return at_.hosts != nullptr; }

  place at_;
};

/// The most that `measure(size)` is for the ranks of a host.
template <class Measure>
constexpr int most_on_hosts(const on_hosts& here, const Measure& measure) {
  int most = measure(here.size(0));
  for (int i = 1; i < here.different_sizes(); ++i) most = std::max(most, measure(here.size(i)));
  return most;
}

// What the blocks of a schedule that some of the ranks run are in the vector of all. `map(set, visit)` calls `visit`
// with the sets that such a set comes to, in order.

/// The schedule divides `width` of `blocks` blocks, from `first` on, into `parts` runs as even as can be.
struct block_runs {
  int blocks;
  int parts;
  int first;
  int width;

  template <class Visit>
  constexpr void operator()(block_set set, Visit visit) const {
    if (parts == 1) return visit(block_set{first, 1, width});
    set_builder sets{blocks, visit};
    for (int i = 0; i < set.count; ++i) {
      const int part = set.at(i, parts);
      for (int b = begin(part); b < begin(part + 1); ++b) sets.add(b);
    }
    sets.finish();
  }

 private:
  constexpr int begin(int part) const { return first + static_cast<int>(static_cast<long long>(part) * width / parts); }
};

/// The same for all blocks.
constexpr block_runs runs_of_all(int blocks, int parts) { return {blocks, parts, 0, blocks}; }

/// Each of the schedule's `parts` blocks is several: `each(part, add)` calls `add(block)` for them.
template <class Each>
struct block_lists {
  int blocks;
  int parts;
  Each each;

  template <class Visit>
  constexpr void operator()(block_set set, Visit visit) const {
    set_builder sets{blocks, visit};
    for (int i = 0; i < set.count; ++i) each(set.at(i, parts), [&](int block) { sets.add(block); });
    sets.finish();
  }
};

/// Each rank has one block. The blocks of the ranks of one host, one by one.
constexpr auto blocks_within(on_hosts here, int host) {
  const auto each = [here, host](int index, auto add) { add(here.rank(host, index)); };
  return block_lists<decltype(each)>{here.ranks(), here.ranks_on(host), each};
}
/// All blocks of a host at a time.
constexpr auto blocks_of_hosts(on_hosts here) {
  const auto each = [here](int host, auto add) {
    for (int index = 0; index < here.ranks_on(host); ++index) add(here.rank(host, index));
  };
  return block_lists<decltype(each)>{here.ranks(), here.hosts(), each};
}
/// The blocks of all ranks with one index at a time. Even hosts.
constexpr auto blocks_of_indices(on_hosts here) {
  const auto each = [here](int index, auto add) {
    for (int host = 0; host < here.hosts(); ++host) add(here.rank(host, index));
  };
  return block_lists<decltype(each)>{here.ranks(), here.ranks_on(0), each};
}
/// The blocks of the ranks with that index, one by one. Even hosts.
constexpr auto blocks_across(on_hosts here, int index) {
  const auto each = [here, index](int host, auto add) { add(here.rank(host, index)); };
  return block_lists<decltype(each)>{here.ranks(), here.hosts(), each};
}

/// In how many segments a schedule goes: 1 if it was not made with any.
template <class S>
constexpr int segments_made_with(const S& s) {
  if constexpr (requires { s.segments; }) {
    return s.segments;
  } else {
    return 1;
  }
}

/// Rounds in which ranks run `S` in groups, each rank in one or none: `among` is its place there, `peer(i)` the i-th
/// rank of its group.
template <schedule S, class Peer, class Blocks>
struct level {
  static_assert(vectors<S> == 1, "a level works on one vector");

  S part;
  place among;
  bool takes_part;
  int rounds;  // the most of any group, so that the rounds of all go side by side
  Peer peer;
  Blocks blocks;

  /// Does round k if it is one of these; else k becomes its number among those that follow.
  template <class Emit>
  constexpr bool play(int& k, Emit& emit) const {
    if (k >= rounds) {
      k -= rounds;
      return false;
    }
    if (!takes_part || k >= part.rounds(among)) return true;
    part.round(among, k, [&](const auto& step) {
      using step_type = std::remove_cvref_t<decltype(step)>;
      if constexpr (!is_local<step_type>) {
        blocks(step.what, [&](block_set what) {
          step_type moved = step;
          moved.peer = peer(step.peer);
          moved.what = what;
          emit(moved);
        });
      }
    });
    return true;
  }
};

/// The ranks of each host among themselves. `root` is the index of the root on this rank's host.
template <schedule S, class Blocks>
constexpr auto level_within(on_hosts here, int root, int segments, const Blocks& blocks) {
  const S part = make_schedule<S>(root, segments);
  const auto peer = [here](int index) { return here.rank(here.host(), index); };
  const int rounds = most_on_hosts(here, [&](int size) { return make_schedule<S>(0, segments).rounds({0, size}); });
  return level<S, decltype(peer), Blocks>{part, here.within(), true, std::max(rounds, part.rounds(here.within())),
                                          peer, blocks};
}

/// One rank of each host: `leader(host)` is its index there. `root` is the root's host.
template <schedule S, class Leader, class Blocks>
constexpr auto level_between(on_hosts here, int root, int segments, const Leader& leader, const Blocks& blocks) {
  const S part = make_schedule<S>(root, segments);
  const auto peer = [here, leader](int host) { return here.rank(host, leader(host)); };
  return level<S, decltype(peer), Blocks>{
      part, here.between(), leader(here.host()) == here.index(), part.rounds(here.between()), peer, blocks};
}

/// The ranks of equal index, one of each host. Even hosts.
template <schedule S, class Blocks>
constexpr auto level_across(on_hosts here, int segments, const Blocks& blocks) {
  const auto same = [index = here.index()](int) { return index; };
  return level_between<S>(here, 0, segments, same, blocks);
}

/// A schedule of levels: `levels(at, f)` calls `f(level...)`.
template <class Levels>
constexpr int rounds_of_levels(const Levels& s, place at) {
  int sum = 0;
  s.levels(at, [&](const auto&... each) { sum = (each.rounds + ... + 0); });
  return sum;
}
template <class Levels, class Emit>
constexpr void round_of_levels(const Levels& s, place at, int k, Emit& emit) {
  s.levels(at, [&](const auto&... each) { static_cast<void>((each.play(k, emit) || ...)); });
}

/// Calls `f` with the levels of what goes inwards, from first to last, or, of what goes outwards, from last to first.
template <bool Outward, class F, class First, class Last, class... Between>
constexpr void in_order(F& f, const First& first, const Last& last, const Between&... between) {
  static_assert(sizeof...(Between) <= 1);
  if constexpr (Outward) {
    f(last, between..., first);
  } else {
    f(first, between..., last);
  }
}

/// Whether ranks that come one host after the other are folded in order: by `Inner` on each host, whose root has the
/// index `leader(host)`, and by `Outer` among the hosts, whose root is host `root`.
template <schedule Inner, schedule Outer, class Leader>
constexpr bool ordered_on_hosts(on_hosts here, int root, const Leader& leader) {
  if (!here.neighbours() || !rank_ordered<Outer>({root, here.hosts()})) return false;
  for (int host = 0; host < here.hosts(); ++host) {
    if (!rank_ordered<Inner>({leader(host), here.ranks_on(host)})) return false;
  }
  return true;
}

}  // namespace tutti::detail
