// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/algorithm.hpp>
#include <tutti/schedule/expression.hpp>

#include <utility>
#include <vector>

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
  ranks_differ         ///< allreduce: ranks fold in different ways, so rounding differs
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
class symbolic_run {
 public:
  constexpr symbolic_run(const S& s, int size, int root)
      : s_{s}, size_{size}, root_{root}, blocks_{s.blocks(size)}, values_{size, C} {}

  constexpr verdict operator()() {
    if (begin() && run() && settle()) finish();
    return verdict_;
  }

 private:
  static constexpr int absent = -1;
  static constexpr bool folds =
      C == collective::reduce || C == collective::reduce_scatter || C == collective::allreduce;
  enum class kind : unsigned char { send, recv, combine };
  struct posted {
    kind what;
    side operand;
    bool matched;
    int peer;
    block_set set;
    std::vector<int> values;  // of the blocks of the set: sent, or arrived
  };
  struct rank_state {
    int round = 0;
    int rounds = 0;
    int unmatched = 0;
    std::vector<posted> steps;
    std::vector<int> blocks;
  };

  constexpr bool fail(fault what, int rank) {
    if (verdict_) verdict_ = {what, rank};
    return false;
  }
  constexpr rank_state& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  constexpr int& value(int rank, int block) { return at(rank).blocks[static_cast<std::size_t>(block)]; }
  constexpr bool in_range(int rank) const { return rank >= 0 && rank < size_; }

  constexpr bool begin() {
    constexpr bool any_number =
        C == collective::broadcast || C == collective::reduce || C == collective::allreduce || C == collective::barrier;
    if (blocks_ < 1 || (!any_number && blocks_ != size_)) return fail(fault::wrong_blocks, absent);
    ranks_.resize(static_cast<std::size_t>(size_));
    for (int x = 0; x < size_; ++x) {
      at(x).rounds = s_.rounds({x, size_});
      at(x).blocks.assign(static_cast<std::size_t>(blocks_), absent);
      if constexpr (C == collective::alltoall) {
        if (!slots_are_bijections(x)) return fail(fault::wrong_slots, x);
      }
      for (int b = 0; b < blocks_; ++b) {
        if constexpr (folds || C == collective::barrier) {
          value(x, b) = x;
        } else if constexpr (C == collective::alltoall) {
          value(x, b) = x * size_ + s_.destination({x, size_}, b);
        } else if (C == collective::broadcast || C == collective::scatter ? x == root_ : x == b) {
          value(x, b) = b;
        }
      }
    }
    return true;
  }

  constexpr bool slots_are_bijections(int rank) {
    std::vector<int> seen(static_cast<std::size_t>(size_), 0);
    for (int slot = 0; slot < size_; ++slot) {
      const int to = s_.destination({rank, size_}, slot);
      const int from = s_.source({rank, size_}, slot);
      if (!in_range(to) || !in_range(from) || (to == rank) != (from == rank)) return false;
      seen[static_cast<std::size_t>(to)] |= 1;
      seen[static_cast<std::size_t>(from)] |= 2;
    }
    for (const int both : seen) {
      if (both != 3) return false;
    }
    return true;
  }

  constexpr bool run() {
    for (int x = 0; x < size_; ++x) {
      if (!post(x)) return false;
      ready_.push_back(x);
    }
    while (!ready_.empty()) {
      const int x = ready_.back();
      ready_.pop_back();
      while (at(x).round < at(x).rounds && at(x).unmatched == 0) {
        if (!complete(x) || !post(x)) return false;
      }
    }
    return true;
  }

  /// Posts the current round of a rank and matches what waits for it.
  constexpr bool post(int x) {
    rank_state& me = at(x);
    me.steps.clear();
    if (me.round >= me.rounds) return true;
    s_.round({x, size_}, me.round, [&](auto step) {
      using step_type = decltype(step);
      posted p{kind::recv, side::right, false, step.peer, step.what, {}};
      if constexpr (is_send<step_type>) p.what = kind::send;
      if constexpr (is_combine<step_type>) p.what = kind::combine, p.operand = step.operand;
      me.steps.push_back(p);
    });
    me.unmatched = static_cast<int>(me.steps.size());
    if (!check_sets(x)) return false;
    for (posted& step : me.steps) {
      if (step.what != kind::send) continue;
      for (int i = 0; i < step.set.count; ++i) {
        const int v = value(x, step.set.at(i, blocks_));
        if (v == absent) return fail(fault::absent_value, x);
        if (C == collective::alltoall && v % size_ == x) return fail(fault::wrong_slots, x);
        step.values.push_back(v);
      }
    }
    for (posted& mine : me.steps) {
      for (posted& theirs : at(mine.peer).steps) {
        const bool opposite = (mine.what == kind::send) != (theirs.what == kind::send);
        if (theirs.matched || theirs.peer != x || !opposite) continue;
        if (!match(mine, theirs, x)) return false;
        break;
      }
    }
    return true;
  }

  constexpr bool match(posted& mine, posted& theirs, int x) {
    if (!same(mine.set, theirs.set)) return fail(fault::unequal_sets, x);
    if (mine.what == kind::send) {
      theirs.values = mine.values;
    } else {
      mine.values = theirs.values;
    }
    mine.matched = theirs.matched = true;
    --at(x).unmatched;
    if (--at(mine.peer).unmatched == 0) ready_.push_back(mine.peer);
    return true;
  }

  constexpr bool same(block_set a, block_set b) const {
    if (a == b) return true;
    if (a.count != b.count) return false;
    for (int i = 0; i < a.count; ++i) {
      if (a.at(i, blocks_) != b.at(i, blocks_)) return false;
    }
    return true;
  }

  constexpr bool check_sets(int x) {
    constexpr int unused = -1;
    const std::vector<posted>& steps = at(x).steps;
    std::vector<int> named_by(static_cast<std::size_t>(blocks_), unused);
    std::vector<int> written_by(static_cast<std::size_t>(blocks_), unused);
    std::vector<bool> sent(static_cast<std::size_t>(blocks_), false);
    for (int n = 0; n < static_cast<int>(steps.size()); ++n) {
      const posted& step = steps[static_cast<std::size_t>(n)];
      if (!in_range(step.peer) || step.peer == x) return fail(fault::bad_peer, x);
      if (step.set.count < 1 || step.set.count > blocks_) return fail(fault::bad_set, x);
      for (int i = 0; i < step.set.count; ++i) {
        const auto block = static_cast<std::size_t>(step.set.at(i, blocks_));
        if (named_by[block] == n) return fail(fault::bad_set, x);
        named_by[block] = n;
        if (step.what == kind::send) {
          sent[block] = true;
        } else if (const int before = std::exchange(written_by[block], n); before != unused) {
          const posted& other = steps[static_cast<std::size_t>(before)];
          if (step.what != kind::combine || other.what != kind::combine || !same(step.set, other.set)) {
            return fail(fault::conflicting_writes, x);
          }
        }
      }
    }
    if constexpr (!S::overlapping) {
      for (std::size_t b = 0; b < sent.size(); ++b) {
        if (sent[b] && written_by[b] != unused) return fail(fault::undeclared_overlap, x);
      }
    }
    return true;
  }

  /// Applies what a completed round brought: arriving left operands, the own value, arriving right operands.
  constexpr bool complete(int x) {
    rank_state& me = at(x);
    ++me.round;
    if constexpr (C == collective::barrier) {
      int known = value(x, 0);
      for (const posted& step : me.steps) {
        if (step.what != kind::send) known = values_.join(known, step.values.front());
      }
      for (int& v : me.blocks) v = known;
      return true;
    }
    std::vector<int> lefts(static_cast<std::size_t>(blocks_), absent);
    const auto each = [&](auto visit) {
      for (const posted& step : me.steps) {
        for (int i = 0; i < step.set.count && step.what != kind::send; ++i) {
          if (!visit(step, step.set.at(i, blocks_), step.values[static_cast<std::size_t>(i)])) return false;
        }
      }
      return true;
    };
    return each([&](const posted& step, int block, int arrived) {
             int& left = lefts[static_cast<std::size_t>(block)];
             if (step.what == kind::recv) value(x, block) = arrived;
             if (step.what == kind::combine && value(x, block) == absent) return fail(fault::absent_value, x);
             if (step.what == kind::combine && step.operand == side::left) {
               left = left == absent ? arrived : fold(left, arrived, x);
             }
             return bool{verdict_};
           }) &&
           fold_lefts(x, lefts) && each([&](const posted& step, int block, int arrived) {
             if (step.what == kind::combine && step.operand == side::right) {
               value(x, block) = fold(value(x, block), arrived, x);
             }
             return bool{verdict_};
           });
  }

  constexpr bool fold_lefts(int x, const std::vector<int>& lefts) {
    for (int b = 0; b < blocks_; ++b) {
      if (const int left = lefts[static_cast<std::size_t>(b)]; left != absent) value(x, b) = fold(left, value(x, b), x);
    }
    return bool{verdict_};
  }

  constexpr int fold(int left, int right, int x) {
    if constexpr (!folds) {
      fail(fault::wrong_result, x);
      return left;
    } else {
      if (values_.overlap(left, right)) {
        fail(fault::counted_twice, x);
        return left;
      }
      return values_.fold(left, right);
    }
  }

  /// Everybody has finished, or else why not.
  constexpr bool settle() {
    int stuck = absent;
    for (int x = 0; x < size_; ++x) {
      if (at(x).round >= at(x).rounds) continue;
      stuck = x;
      for (const posted& step : at(x).steps) {
        if (!step.matched && at(step.peer).round >= at(step.peer).rounds) return fail(fault::unmatched, x);
      }
    }
    return stuck == absent || fail(fault::deadlock, stuck);
  }

  constexpr void finish() {
    for (int x = 0; x < size_; ++x) {
      for (int b = 0; b < blocks_; ++b) {
        const int v = value(x, b);
        if constexpr (C == collective::alltoall) {
          if (v != s_.source({x, size_}, b) * size_ + x) fail(fault::wrong_result, x);
        } else if (C == collective::reduce || C == collective::gather            ? x != root_
                   : C == collective::reduce_scatter || C == collective::scatter ? x != b
                                                                                 : false) {
          continue;  // not part of the result
        } else if constexpr (folds || C == collective::barrier) {
          if (!values_.complete(v)) {
            fail(fault::wrong_result, x);
          } else if (folds && S::rank_ordered && !values_.ascending(v)) {
            fail(fault::out_of_order, x);
          } else if (C == collective::allreduce && v != value(0, b)) {
            fail(fault::ranks_differ, x);
          }
        } else {
          if (v != b) fail(fault::wrong_result, x);
        }
      }
    }
  }

  const S& s_;
  int size_;
  int root_;
  int blocks_;
  expressions values_;
  verdict verdict_{};
  std::vector<rank_state> ranks_;
  std::vector<int> ready_;
};

template <class S>
constexpr S with_root(int root) {
  if constexpr (rooted<S>) {
    return S{root};
  } else {
    return S{};
  }
}

template <collective C, class S, int Size, int Root>
inline constexpr bool proved_for_root = bool{symbolic_run<C, S>(with_root<S>(Root), Size, Root)()};

template <collective C, class S, int Size, int... Root>
constexpr bool proved_for_roots(std::integer_sequence<int, Root...>) {
  return (proved_for_root<C, S, Size, Root> && ...);
}

template <collective C, class A, int First, int... I>
constexpr bool proved_for_sizes(std::integer_sequence<int, I...>) {
  using S = schedule_for<C, A>;
  const auto proved_or_foreign = []<int Size>(std::integral_constant<int, Size>) {
    if constexpr (supports<A>(Size)) {
      return proved_for_roots<C, S, Size>(std::make_integer_sequence < int, rooted<S> ? Size : 1 > {});
    } else {
      return true;
    }
  };
  return (proved_or_foreign(std::integral_constant<int, First + I>{}) && ...);
}

}  // namespace detail

/// Executes `s` symbolically as collective `C` on all of `size` ranks: every contribution exactly once, every send
/// meets a receive of the same blocks, no deadlock, hazards declared, rank order where claimed, one expression on all
/// ranks of an allreduce. Schedules without a root ignore `root`. Cost: about the number of blocks sent, times size
/// / 64.
template <collective C, schedule S>
constexpr verdict verify(const S& s, int size, int root = 0) {
  return detail::symbolic_run<C, S>(s, size, root)();
}

/// `verify` for the schedule `S`, made with `root` if it has one.
template <collective C, schedule S>
constexpr verdict correct(int size, int root = 0) {
  return verify<C>(detail::with_root<S>(root), size, root);
}

/// Algorithm `A` does collective `C` correctly for each size in `[First, Last]` that it supports and every root.
template <collective C, class A, int First, int Last>
requires implements<A, C>
inline constexpr bool proved_schedule =
    detail::proved_for_sizes<C, A, First>(std::make_integer_sequence<int, Last - First + 1>{});

}  // namespace tutti
