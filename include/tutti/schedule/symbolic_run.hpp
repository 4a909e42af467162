// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/algorithm.hpp>
#include <tutti/schedule/expression.hpp>
#include <tutti/schedule/logarithm.hpp>
#include <tutti/schedule/proof_buffer.hpp>

#include <utility>

namespace tutti {

/// What is wrong with a schedule.
enum class fault : unsigned char {
  none,
  wrong_blocks,        ///< the collective needs as many blocks as ranks, or at least one
  wrong_slots,         ///< all-to-all: destinations or sources are no bijection, or a block at home is moved
  bad_peer,            ///< a step names its own rank or none
  bad_set,             ///< a set is empty or names a block twice
  conflicting_writes,  ///< two steps of a round write one block and are not combines of equal sets
  undeclared_overlap,  ///< a round writes a block that it sends, but `overlapping` is false
  absent_value,        ///< a block is sent, or folded into, where it never arrived
  counted_twice,       ///< a contribution is folded in twice
  unequal_sets,        ///< a message's sender and receiver name different blocks
  unmatched,           ///< a message is only sent or only received
  deadlock,            ///< ranks wait for each other in a circle
  wrong_result,        ///< something is missing from, or does not belong in, a result
  out_of_order,        ///< `rank_ordered` is claimed but a result is not folded in rank order
  ranks_differ,        ///< allreduce: ranks fold in different ways, so rounding differs
  not_canonical        ///< `canonical` is claimed but a result is not folded along the canonical tree
};

/// The outcome of a proof: no fault, or the first one found and the rank where it showed.
struct verdict {
  fault what = fault::none;
  int rank = -1;

  constexpr explicit operator bool() const { return what == fault::none; }
};

namespace detail {

/// Runs all ranks of a schedule with symbolic values: a send completes only when its receive is posted, messages
/// between two ranks match in the order posted. The order in which ranks advance does not matter to the outcome.
template <collective C, schedule S>
requires(C != collective::alltoall || slotted_schedule<S>) class symbolic_run {
 public:
  constexpr symbolic_run(const S& s, int size, int root, const host_map* hosts = nullptr)
      : s_{s},
        size_{size},
        root_{root},
        hosts_{hosts},
        blocks_{blocks_of(s, {root, size, hosts})},
        ordered_{rank_ordered<S>({root, size, hosts})},
        expressions_{size} {}

  constexpr verdict operator()() {
    if (begin() && run() && settle()) finish();
    return verdict_;
  }

 private:
  static constexpr int absent = -1;
  static constexpr bool prefixes = C == collective::scan || C == collective::exscan;
  static constexpr bool folds =
      C == collective::reduce || C == collective::reduce_scatter || C == collective::allreduce || prefixes;
  static constexpr int vectors = tutti::vectors<S>;
  enum class kind : unsigned char { send, recv, combine, local };
  struct posted {
    kind what = kind::send;
    side operand = side::right;
    bool matched = false;
    int peer = 0;
    int count = 0;
    int named = 0;   // where its block numbers begin in `arena_`
    int values = 0;  // where in `arena_` the values sent or arrived begin, or a local step's source's block numbers
  };
  struct rank_state {
    int round = 0;
    int rounds = 0;
    int unmatched = 0;
    proof_buffer<posted> steps;
  };
  /// What a round has done with a block so far; valid where `round` is the current one.
  struct block_use {
    int round = 0;
    int step = absent;
    int writer = absent;
    int left = absent;
    bool sent = false;
    bool local = false;  // written by a local step
  };

  constexpr bool fail(fault what, int rank) {
    if (verdict_) verdict_ = {what, rank};
    return false;
  }
  // Block b of vector v has the number v * blocks_ + b.
  constexpr int& value(int rank, int block) { return values_[rank * (vectors * blocks_) + block]; }
  constexpr place place_of(int rank) const { return {rank, size_, hosts_}; }
  constexpr bool in_range(int rank) const { return rank >= 0 && rank < size_; }
  constexpr block_use& use_of(int block) {
    block_use& use = uses_[block];
    if (use.round != round_number_) use = {round_number_, absent, absent, absent, false, false};
    return use;
  }

  constexpr bool begin() {
    constexpr bool any_number = C == collective::broadcast || C == collective::reduce || C == collective::allreduce ||
                                C == collective::barrier || prefixes;
    if (blocks_ < 1 || (!any_number && blocks_ != size_)) return fail(fault::wrong_blocks, absent);
    for (int x = 0; x < size_; ++x) {
      ranks_[x].rounds = s_.rounds(place_of(x));
      if constexpr (C == collective::alltoall) {
        if (!slots_are_bijections(x)) return fail(fault::wrong_slots, x);
      }
      for (int b = 0; b < blocks_; ++b) values_.push(initial(x, b));
      for (int b = blocks_; b < vectors * blocks_; ++b) values_.push(absent);
    }
    for (int b = 0; b < vectors * blocks_; ++b) uses_.push({});
    return true;
  }

  constexpr int initial(int x, int b) const {
    if constexpr (folds || C == collective::barrier) {
      return x;
    } else if constexpr (C == collective::alltoall) {
      return x * size_ + s_.destination(place_of(x), b);
    } else if constexpr (C == collective::broadcast || C == collective::scatter) {
      return x == root_ ? b : absent;
    } else {
      return x == b ? b : absent;
    }
  }

  constexpr bool slots_are_bijections(int rank) {
    proof_buffer<int> seen{size_};
    for (int slot = 0; slot < size_; ++slot) {
      const int to = s_.destination(place_of(rank), slot);
      const int from = s_.source(place_of(rank), slot);
      if (!in_range(to) || !in_range(from) || (to == rank) != (from == rank)) return false;
      seen[to] |= 1;
      seen[from] |= 2;
    }
    for (const int both : seen) {
      if (both != 3) return false;
    }
    return true;
  }

  constexpr bool run() {
    for (int x = 0; x < size_; ++x) {
      if (!post(x)) return false;
      ready_.push(x);
    }
    while (!ready_.empty()) {
      const int x = ready_.pop();
      while (ranks_[x].round < ranks_[x].rounds && ranks_[x].unmatched == 0) {
        if (!complete(x) || !post(x)) return false;
      }
    }
    return true;
  }

  /// Posts the current round of a rank and matches what waits for it.
  constexpr bool post(int x) {
    rank_state& me = ranks_[x];
    me.steps.clear();
    if (me.round >= me.rounds) return true;
    me.unmatched = 0;
    s_.round(place_of(x), me.round, [&](auto step) {
      posted p{kind::recv, side::right, false, absent, step.what.count, arena_.size(), absent};
      if (p.count > blocks_) p.count = 0;  // names a block twice: as bad as an empty set
      int vector = 0;
      if constexpr (is_local<decltype(step)>) {
        p.what = kind::local, p.operand = step.operand, p.matched = true;
        vector = step.into;
      } else {
        if constexpr (is_send<decltype(step)>) p.what = kind::send;
        if constexpr (is_combine<decltype(step)>) p.what = kind::combine, p.operand = step.operand;
        p.peer = step.peer;
        vector = step.vector;
        ++me.unmatched;
      }
      if (vector < 0 || vector >= vectors) p.count = 0;
      for (int i = 0; i < p.count; ++i) arena_.push(step.what.at(i, blocks_) + vector * blocks_);
      if constexpr (is_local<decltype(step)>) {
        if (step.from < 0 || step.from >= vectors || step.from == step.into) p.count = 0;
        p.values = arena_.size();
        for (int i = 0; i < p.count; ++i) arena_.push(step.what.at(i, blocks_) + step.from * blocks_);
      }
      me.steps.push(p);
    });
    ++round_number_;
    for (int n = 0; n < me.steps.size(); ++n) {
      if (!check_step(x, n)) return false;
    }
    for (posted& mine : me.steps) {
      if (mine.what == kind::local) continue;
      for (posted& theirs : ranks_[mine.peer].steps) {
        const bool opposite = (mine.what == kind::send) != (theirs.what == kind::send);
        if (theirs.what == kind::local || theirs.matched || theirs.peer != x || !opposite) continue;
        if (!match(mine, theirs, x)) return false;
        break;
      }
    }
    return true;
  }

  constexpr bool check_step(int x, int n) {
    posted& step = ranks_[x].steps[n];
    const bool local = step.what == kind::local;
    if (!local && (!in_range(step.peer) || step.peer == x)) return fail(fault::bad_peer, x);
    if (step.count < 1) return fail(fault::bad_set, x);
    if (step.what == kind::send) step.values = arena_.size();
    for (int i = 0; i < step.count; ++i) {
      const int block = arena_[step.named + i];
      block_use& use = use_of(block);
      if (use.step == n) return fail(fault::bad_set, x);
      use.step = n;
      if (step.what == kind::send) {
        const int v = value(x, block);
        if (v == absent) return fail(fault::absent_value, x);
        if (C == collective::alltoall && v % size_ == x) return fail(fault::wrong_slots, x);
        arena_.push(v);
        use.sent = true;
      } else if (local) {
        use.local = true;
      } else if (const int before = std::exchange(use.writer, n); before != absent) {
        const posted& other = ranks_[x].steps[before];
        if (step.what != kind::combine || other.what != kind::combine || !same_set(step, other)) {
          return fail(fault::conflicting_writes, x);
        }
      }
      if (!S::overlapping && use.sent && (use.local || use.writer != absent)) {
        return fail(fault::undeclared_overlap, x);
      }
    }
    return true;
  }

  constexpr bool same_set(const posted& a, const posted& b) const {
    if (a.count != b.count) return false;
    for (int i = 0; i < a.count; ++i) {
      if (arena_[a.named + i] != arena_[b.named + i]) return false;
    }
    return true;
  }

  /// The same blocks, of whichever vectors.
  constexpr bool same_blocks(const posted& a, const posted& b) const {
    if (vectors == 1) return same_set(a, b);
    if (a.count != b.count) return false;
    for (int i = 0; i < a.count; ++i) {
      if (arena_[a.named + i] % blocks_ != arena_[b.named + i] % blocks_) return false;
    }
    return true;
  }

  constexpr bool match(posted& mine, posted& theirs, int x) {
    if (!same_blocks(mine, theirs)) return fail(fault::unequal_sets, x);
    if (mine.what == kind::send) {
      theirs.values = mine.values;
    } else {
      mine.values = theirs.values;
    }
    mine.matched = theirs.matched = true;
    --ranks_[x].unmatched;
    if (--ranks_[mine.peer].unmatched == 0) ready_.push(mine.peer);
    return true;
  }

  /// Applies what a completed round brought: arriving left operands, the own value, arriving right operands.
  constexpr bool complete(int x) {
    rank_state& me = ranks_[x];
    ++me.round;
    ++round_number_;
    if constexpr (C == collective::barrier) {
      int known = value(x, 0);
      for (const posted& step : me.steps) {
        if (step.what != kind::send) known = expressions_.fold(known, arena_[step.values]);
      }
      for (int b = 0; b < blocks_; ++b) value(x, b) = known;
    } else {
      for (const posted& step : me.steps) {
        if (step.what == kind::send || step.what == kind::local) continue;
        if (step.what == kind::combine && step.operand == side::right) continue;
        for (int i = 0; i < step.count; ++i) {
          const int block = arena_[step.named + i];
          const int arrived = arena_[step.values + i];
          int& left = use_of(block).left;
          if (step.what == kind::recv) {
            value(x, block) = arrived;
          } else {
            left = left == absent ? arrived : fold(left, arrived, x);
          }
        }
      }
      for (const posted& step : me.steps) {
        for (int i = 0; i < step.count && step.what == kind::combine; ++i) {
          const int block = arena_[step.named + i];
          int& own = value(x, block);
          if (own == absent) return fail(fault::absent_value, x);
          if (int& left = use_of(block).left; left != absent) own = fold(std::exchange(left, absent), own, x);
          if (step.operand == side::right) own = fold(own, arena_[step.values + i], x);
        }
      }
      for (const posted& step : me.steps) {
        for (int i = 0; i < step.count && step.what == kind::local; ++i) {
          const int from = value(x, arena_[step.values + i]);
          int& own = value(x, arena_[step.named + i]);
          if (own == absent || from == absent) return fail(fault::absent_value, x);
          own = step.operand == side::left ? fold(from, own, x) : fold(own, from, x);
        }
      }
    }
    return bool{verdict_};
  }

  constexpr int fold(int left, int right, int x) {
    if (!folds || expressions_.overlap(left, right)) {
      fail(folds ? fault::counted_twice : fault::wrong_result, x);
      return left;
    }
    return expressions_.fold(left, right);
  }

  /// Everybody has finished, or else why not.
  constexpr bool settle() {
    int stuck = absent;
    for (int x = 0; x < size_; ++x) {
      if (ranks_[x].round >= ranks_[x].rounds) continue;
      stuck = x;
      for (const posted& step : ranks_[x].steps) {
        if (!step.matched && ranks_[step.peer].round >= ranks_[step.peer].rounds) return fail(fault::unmatched, x);
      }
    }
    return stuck == absent || fail(fault::deadlock, stuck);
  }

  constexpr void finish() {
    for (int x = 0; x < size_; ++x) {
      if ((C == collective::reduce || C == collective::gather) && x != root_) continue;
      constexpr bool own_block_only = C == collective::reduce_scatter || C == collective::scatter;
      const int first = own_block_only ? x : result_vector<S> * blocks_;
      for (int b = first; b < (own_block_only ? x + 1 : first + blocks_); ++b) check_result(x, b);
    }
  }

  constexpr void check_result(int x, int b) {
    const int v = value(x, b);
    if constexpr (C == collective::alltoall) {
      if (v != s_.source(place_of(x), b) * size_ + x) fail(fault::wrong_result, x);
    } else if constexpr (prefixes) {
      // The exclusive prefix of rank 0 is nothing, and nothing may have been written there.
      const int last = C == collective::scan ? x : x - 1;
      if (last < 0 ? v != absent : v == absent || !expressions_.covers(v, last)) {
        fail(fault::wrong_result, x);
      } else if (last >= 0 && ordered_ && !expressions_.ascending(v)) {
        fail(fault::out_of_order, x);
      }
    } else if constexpr (folds || C == collective::barrier) {
      if (v == absent || !expressions_.covers(v, size_ - 1)) {
        fail(fault::wrong_result, x);
      } else if (folds && ordered_ && !expressions_.ascending(v)) {
        fail(fault::out_of_order, x);
      } else if (C == collective::allreduce && uniform<S> && v != value(0, b)) {
        fail(fault::ranks_differ, x);
      } else if (folds && canonical<S>(size_) && v != expressions_.canonical_tree(0, detail::ceil_log2(size_))) {
        fail(fault::not_canonical, x);
      }
    } else {
      if (v != b) fail(fault::wrong_result, x);
    }
  }

  const S& s_;
  int size_;
  int root_;
  const host_map* hosts_;
  int blocks_;
  bool ordered_;
  int round_number_ = 0;  // counts posts and completions, so that block uses need no clearing
  verdict verdict_{};
  expressions expressions_;
  proof_buffer<rank_state> ranks_{size_};
  proof_buffer<int> values_;
  proof_buffer<block_use> uses_;
  proof_buffer<int> arena_;
  proof_buffer<int> ready_;
};

}  // namespace detail
}  // namespace tutti
