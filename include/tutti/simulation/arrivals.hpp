// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/simulation/rank_clock.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tutti::detail {

/// The messages that a rank waits for in a round with several of them.
class arrival_group {
 public:
  void expect(int peer, double folding) {
    sorted_ = sorted_ && (awaited_.empty() || awaited_.back().peer <= peer);
    awaited_.push_back({0, folding, peer, false});
  }

  /// All have been named: now they can be found.
  void close() {
    if (sorted_) return;
    const auto by_peer = [](const awaited& a, const awaited& b) { return a.peer < b.peer; };
    if (awaited_.size() > 16) {
      std::stable_sort(awaited_.begin(), awaited_.end(), by_peer);
    } else {  // the same, but it allocates nothing
      for (auto a = awaited_.begin(); a != awaited_.end(); ++a) {
        std::rotate(std::upper_bound(awaited_.begin(), a, *a, by_peer), a, a + 1);
      }
    }
    sorted_ = true;
  }

  /// A message from `peer` has come in at `end`; false if none is awaited any more.
  bool arrive(int peer, double end) {
    auto a = std::lower_bound(awaited_.begin(), awaited_.end(), peer,
                              [](const awaited& x, int wanted) { return x.peer < wanted; });
    while (a != awaited_.end() && a->peer == peer && a->here) ++a;
    if (a == awaited_.end() || a->peer != peer) return false;
    a->here = true;
    a->end = end;
    return true;
  }

  /// All are here: the processor takes them in, one after the other as they came. Nothing is left.
  void take_in(const network& net, rank_clock& clock) {
    // By what it takes where two came at the same time, so that it does not matter who was simulated first.
    std::sort(awaited_.begin(), awaited_.end(), [](const awaited& a, const awaited& b) {
      return a.end != b.end ? a.end < b.end : a.folding < b.folding;
    });
    for (const awaited& a : awaited_) clock.take_in(net, a.end, a.folding);
    awaited_.clear();
    sorted_ = true;
  }

  /// One that is still awaited. Requires that there is one.
  int missing() const {
    return std::find_if(awaited_.begin(), awaited_.end(), [](const awaited& a) { return !a.here; })->peer;
  }

 private:
  struct awaited {
    double end;
    double folding;
    int peer;
    bool here;
  };
  std::vector<awaited> awaited_;
  bool sorted_ = true;
};

/// Messages that came in before their receiver's round did: a queue for each rank, all in one pool.
class early_arrivals {
 public:
  static constexpr int none = -1;

  bool empty() const { return count_ == 0; }

  /// Appends to the queue whose last entry is `last`.
  void push(int& last, int from, double end) {
    int fresh = free_;
    if (fresh == none) {
      fresh = static_cast<int>(pool_.size());
      pool_.push_back({});
    } else {
      free_ = at(fresh).next;
    }
    at(fresh) = {end, from, fresh};
    if (last != none) {
      at(fresh).next = at(last).next;
      at(last).next = fresh;
    }
    last = fresh;
    ++count_;
  }

  /// Offers the queue's entries from the first on to `take(from, end)`, which tells whether it takes them out, until
  /// `enough()`.
  template <class Take, class Enough>
  void offer(int& last, Take take, Enough enough) {
    if (last == none) return;
    int before = last;
    for (bool more = true; more && !enough();) {
      const int entry = at(before).next;
      more = entry != last;
      if (!take(at(entry).from, at(entry).end)) {
        before = entry;
        continue;
      }
      --count_;
      at(before).next = at(entry).next;
      if (entry == last) last = before == entry ? none : before;
      at(entry).next = free_;
      free_ = entry;
    }
  }

  /// Who sent the first of a queue that is not empty.
  int first_from(int last) const {
    return pool_[static_cast<std::size_t>(pool_[static_cast<std::size_t>(last)].next)].from;
  }

 private:
  struct node {
    double end;
    int from;
    int next;  // the last entry's is the first
  };
  node& at(int i) { return pool_[static_cast<std::size_t>(i)]; }

  std::vector<node> pool_;
  int free_ = none;
  long long count_ = 0;
};

}  // namespace tutti::detail
