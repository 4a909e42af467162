// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/round_arrivals.hpp>
#include <tutti/collective/round_sends.hpp>
#include <tutti/core/inline.hpp>

#include <cstddef>
#include <utility>

namespace tutti::detail {

/// One round of a collective on one rank: where its blocks lie, what it has sent, and what has arrived.
///
/// `wait()` is called where nothing can go on until something has arrived: it returns true when it has waited and one
/// should look again, or false if one may not wait; then the round returns false and is taken up later where it
/// stopped.
///
/// All is inlined into the verb. What is not gets copies of these members, never their address: then the compiler keeps
/// them in registers and leaves out those that a schedule does not need.
template <class Storage, class Op>
class open_round {
 public:
  TUTTI_ALWAYS_INLINE open_round(const Storage& storage, Op& op, arena& scratch, const policy& how, bool overlapping)
      : storage_(storage), op_(&op), scratch_(&scratch), policy_(how), overlapping_(overlapping) {}

  TUTTI_ALWAYS_INLINE void begin(bool last, bool shared) {
    last_ = last;
    shared_ = shared;
    opened_ = false;
    group_ = 0;
    sends_.begin();
    arrivals_.clear();
  }
  TUTTI_ALWAYS_INLINE void add(const send& step) { sends_.add(step, *scratch_); }
  template <class Step>
  TUTTI_ALWAYS_INLINE void add(const Step& step) {
    const block_set& what = step.what;
    arrivals_.push_back({{step.peer, what.first, what.stride, what.count}, kind_of(step), nullptr}, *scratch_);
  }

  /// Takes in what has arrived; true when the round is over.
  template <class L, class Wait>
  TUTTI_ALWAYS_INLINE bool advance(L& lane, Wait& wait) {
    if (!opened_) {
      if (!open(lane, wait)) return false;
      opened_ = true;
    }
    if (!receive(lane, wait)) return false;
    if constexpr (sharing_lane<L>) {
      if (shared_) {
        lane.end_shared();
        shared_ = false;
      }
    }
    if (sends_.must_settle()) {
      while (!lane.settled())
        if (!wait()) return false;
      sends_.settled();
    }
    return true;
  }
  TUTTI_ALWAYS_INLINE void finish() { storage_.finish(policy_.streaming); }

 private:
  using T = typename Storage::value_type;

  template <class L, class Wait>
  TUTTI_ALWAYS_INLINE bool open(L& lane, Wait& wait) {
    if constexpr (sharing_lane<L>) {
      if (shared_) {
        for (std::size_t i = 0; i < arrivals_.size(); ++i) {
          // Where there is one sender only, what it publishes may be for others too.
          const std::size_t n = arrivals_.size() == 1 ? storage_.count() : storage_.elements(blocks_of(arrivals_, i));
          lane.expect(arrivals_.template get<&arrival::peer>(i), n * sizeof(T));
        }
        while (!sends_.publish(lane, storage_, *scratch_, policy_, overlapping_))
          if (!wait()) return false;
        return true;
      }
    }
    sends_.post(lane, storage_, *scratch_, policy_, overlapping_);
    return true;
  }

  /// Arrivals that fold into the same blocks are one group and one pass over memory; groups are done in listed order.
  template <class L, class Wait>
  TUTTI_ALWAYS_INLINE bool receive(L& lane, Wait& wait) {
    using takes = intake<Storage, Op, L>;
    const takes take{lane, *scratch_, policy_, shared_, policy_.streaming && last_, *op_};
    typename takes::progress progress{message_, viewed_, landing_};
    bool waiting = false;
    while (group_ < arrivals_.size()) {
      const block_set what = blocks_of(arrivals_, group_);
      const arrival_kind how = arrivals_.template get<&arrival::how>(group_);
      std::size_t end = group_ + 1;
      if (how != arrival_kind::overwrite)
        while (end < arrivals_.size() && arrivals_.template get<&arrival::how>(end) != arrival_kind::overwrite &&
               blocks_of(arrivals_, end) == what)
          ++end;
      if (end == group_ + 1) {
        waiting = !take.take_one(storage_, progress, arrivals_.template get<&arrival::peer>(group_), what, how, wait);
      } else {
        Storage storage = storage_;
        auto at = progress;
        waiting = !takes::take_several(take, storage, at, arrivals_.entries() + group_, end - group_, wait);
        progress = at;
        storage_ = storage;
      }
      if (waiting) break;
      group_ = end;
    }
    message_ = progress.message;
    viewed_ = progress.viewed;
    landing_ = progress.landing;
    return !waiting;
  }

  Storage storage_;
  Op* op_;
  arena* scratch_;
  policy policy_;
  bool overlapping_;
  round_sends<Storage> sends_;
  bool last_ = false;    // the round's results are final: nobody reads them from here any more
  bool shared_ = false;  // ranks read where others have published
  bool opened_ = false;  // what is sent is on its way
  step_list<arrival> arrivals_;
  std::size_t group_ = 0;  // the first arrival that has not been taken in
  // How far it has got.
  int message_ = 0;
  std::size_t viewed_ = 0;
  std::byte* landing_ = nullptr;
};

}  // namespace tutti::detail
