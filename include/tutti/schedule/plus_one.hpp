// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/derive.hpp>

#include <algorithm>

namespace tutti {

/// A route that does not support every number of ranks made an algorithm for one rank more: where `R` supports p, it is
/// `R`; where it supports only p-1, those run `R` and exchange single blocks with the one left over meanwhile, each in
/// one of the rounds. As many rounds as `R` has among p-1 ranks, n(p-1)/p bytes per rank. In rooted collectives ranks
/// count from the root, so that the one left over is the root's previous rank, which talks to the root alone. All
/// collectives but all-to-all. Does not keep rank order. Source: Swing, arXiv 2401.09356, section 3.2.
template <route R>
struct plus_one {
  static constexpr bool supports(int size) { return !left_over(size) || tutti::supports<R>(size - 1); }

  /// Rank `last` is the one left over. What it sends to a rank folds into that rank's own block, which is a set of its
  /// own in that round therefore.
  struct reduce_scatter {
    static constexpr bool rank_ordered = false;
    static constexpr bool overlapping = false;

    constexpr int rounds(place at) const { return rounds_of(at.size); }
    constexpr int blocks(int size) const { return size; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      if (!left_over(at.size)) return reduce_scatter_of<R>{}.round(at, k, emit);
      const int last = at.size - 1;
      const int in_all = rounds(at);
      if (at.rank == last) {
        for (int peer = k; peer < last; peer += in_all) emit(send_to{peer, one_block(peer)});
        for (int peer = k; peer < last; peer += in_all) emit(combine{peer, one_block(last), side::right});
        return;
      }
      with_others(at, k, emit);
    }

   private:
    /// What the route does among the others: all blocks but the receiver's own where that is apart, then that; and the
    /// exchange with the one left over behind it.
    template <class Emit>
    static constexpr void with_others(place at, int k, Emit& emit) {
      constexpr int nobody = -1;
      const place among{at.rank, at.size - 1};
      const int last = at.size - 1;
      const int in_all = rounds_of(at.size);
      const bool exchanges = at.rank % in_all == k;
      bool sending = true;
      int held = nobody;  // the peer whose message still lacks the receiver's own block
      side operand = side::right;
      const auto complete = [&] {
        if (held != nobody && sending) emit(send_to{held, one_block(held)});
        if (held != nobody && !sending) emit(combine{held, one_block(at.rank), operand});
        held = nobody;
      };
      const auto end_sends = [&] {
        if (!sending) return;
        complete();
        if (exchanges) emit(send_to{last, one_block(last)});
        sending = false;
      };
      const auto pass_on = [&](auto step) {
        if constexpr (!is_send<decltype(step)>) end_sends();
        if (held != step.peer) complete();
        if constexpr (!is_send<decltype(step)>) operand = step.operand;
        const int own = sending ? step.peer : at.rank;
        const bool apart = own % in_all == k;
        const block_set what = step.what;
        const auto emit_set = [&](block_set set) {
          step.what = set;
          emit(step);
        };
        each_run(what, among.size, [&](block_set run) {
          const int before = apart ? steps_to(own, run) : run.count;
          if (before < run.count) held = step.peer;
          if (before > 0) emit_set({run.first, run.stride, before});
          const int after = run.count - before - 1;
          if (after > 0) emit_set({run.first + (before + 1) * run.stride, run.stride, after});
        });
      };
      if (among.size > 1) reduce_scatter_of<R>{}.round(among, k, pass_on);
      end_sends();
      complete();
      if (exchanges) emit(combine{last, one_block(at.rank), side::right});
    }
  };

  using allgather = dual<reduce_scatter>;
  using allreduce = then<reduce_scatter, allgather>;
  using barrier = allgather;

  struct reduce {
    static constexpr bool rank_ordered = false;
    static constexpr bool overlapping = false;
    static constexpr bool whole_vector = true;

    int root;

    constexpr int rounds(place at) const { return rounds_of(at.size); }
    constexpr int blocks(int) const { return 1; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      if (!left_over(at.size)) return reduce_of<R>{root}.round(at, k, emit);
      const from_root view{at, root};
      if (!view.is_left_over()) {
        reduce_of<R>{0}.round(view.among(), k, [&](auto step) {
          step.peer = view.rank_of(step.peer);
          emit(step);
        });
      }
      if (k != 0) return;
      if (view.is_left_over()) emit(send_to{root, one_block(0)});
      if (at.rank == root) emit(combine{view.left_over(), one_block(0), side::right});
    }
  };

  using broadcast = dual<reduce>;

  struct scatter {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = false;

    int root;

    constexpr int rounds(place at) const { return rounds_of(at.size); }
    constexpr int blocks(int size) const { return size; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      if (!left_over(at.size)) return scatter_of<R>{root}.round(at, k, emit);
      const from_root view{at, root};
      if (!view.is_left_over()) {
        scatter_of<R>{0}.round(view.among(), k, [&](auto step) {
          step.peer = view.rank_of(step.peer);
          const block_set what = step.what;
          each_run(what, view.among().size, [&](block_set run) {
            step.what = {view.rank_of(run.first), run.stride, run.count};
            emit(step);
          });
        });
      }
      if (k != 0) return;
      if (at.rank == root) emit(send_to{view.left_over(), one_block(view.left_over())});
      if (view.is_left_over()) emit(recv_from{root, one_block(at.rank)});
    }
  };

  using gather = dual<scatter>;

 private:
  /// The set among `blocks` in runs that do not go past the last block or the first, in order, so that they are sets
  /// among one block more too.
  template <class Visit>
  static constexpr void each_run(block_set set, int blocks, Visit visit) {
    const int step = set.stride < 0 ? -set.stride : set.stride;
    for (int i = 0; i < set.count;) {
      const int first = set.at(i, blocks);
      const int way = set.stride < 0 ? first : blocks - 1 - first;
      const int run = set.count == 1 ? 1 : std::min(set.count - i, way / step + 1);
      visit(block_set{first, set.stride, run});
      i += run;
    }
  }
  /// How many blocks of the run come before `block`; all where it is not there.
  static constexpr int steps_to(int block, block_set run) {
    if (run.count == 1) return block == run.first ? 0 : 1;
    const int steps = (block - run.first) / run.stride;
    return steps >= 0 && steps < run.count && run.first + steps * run.stride == block ? steps : run.count;
  }

  static constexpr bool left_over(int size) { return size > 1 && !tutti::supports<R>(size); }
  static constexpr int rounds_of(int size) {
    if (!left_over(size)) return R::rounds(size);
    const int rounds = R::rounds(size - 1);
    return rounds == 0 ? 1 : rounds;
  }

  /// Ranks counted from the root on.
  struct from_root {
    place at;
    int root;

    constexpr int number() const { return detail::wrapped(at.rank - root, at.size); }
    constexpr int rank_of(int number) const { return detail::wrapped(root + number, at.size); }
    constexpr bool is_left_over() const { return number() == at.size - 1; }
    constexpr int left_over() const { return rank_of(at.size - 1); }
    constexpr place among() const { return {number(), at.size - 1}; }
  };
};

}  // namespace tutti
