// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/round_arrivals.hpp>
#include <tutti/collective/round_locals.hpp>
#include <tutti/collective/round_sends.hpp>
#include <tutti/core/inline.hpp>

#include <cstddef>

namespace tutti::detail {

/// What a collective works on, on one rank: made where it stays.
template <class Storage, class Op>
struct round_memory {
  Storage& storage;
  Op& op;
  arena& scratch;
  policy how;
  bool overlapping;
  send_copies<typename Storage::value_type> copies = {};
};

/// One round of a collective on one rank: where its blocks lie, what it has sent, and what has arrived.
///
/// `wait()` is called where nothing can go on until something has arrived: it returns true when it has waited and one
/// should look again, or false if one may not wait; then the round returns false and is taken up later where it
/// stopped.
///
/// All that one message needs is inlined into the verb, as told in round_sends.hpp.
template <class Storage, class Op>
class open_round {
 public:
  using T = typename Storage::value_type;

  TUTTI_ALWAYS_INLINE explicit open_round(round_memory<Storage, Op>& memory) : memory_(&memory) {}

  TUTTI_ALWAYS_INLINE void begin(bool last, bool shared) {
    last_ = last;
    shared_ = shared;
    opened_ = false;
    done_ = 0;
    sends_.begin(memory_->copies);
    arrivals_.clear();
    locals_.clear();
  }
  TUTTI_ALWAYS_INLINE void add(const send_to& step) {
    sends_.add(step.peer, blocks_in(memory_->storage, step.what, step.vector), memory_->scratch);
  }
  void add(const reduce_local& step) { locals_.add(memory_->storage, step, memory_->scratch); }
  template <class Step>
  TUTTI_ALWAYS_INLINE void add(const Step& step) {
    const block_set what = blocks_in(memory_->storage, step.what, step.vector);
    arrivals_.push_back({{step.peer, what.first, what.stride, what.count}, kind_of(step), nullptr}, memory_->scratch);
  }

  /// Takes in what has arrived; true when the round is over.
  template <class L, class Wait>
  TUTTI_ALWAYS_INLINE bool advance(L& lane, Wait& wait) {
    if (!opened_) {
      if (!open(lane, wait)) return false;
      opened_ = true;
    }
    if (!receive(lane, wait)) return false;
    locals_.apply(memory_->storage, memory_->op);
    if constexpr (sharing_lane<L>) {
      if (shared_) {
        lane.end_shared(true);
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
  /// Of the whole vector.
  TUTTI_ALWAYS_INLINE std::size_t bytes() const { return memory_->storage.count() * sizeof(T); }
  TUTTI_ALWAYS_INLINE void finish() { memory_->storage.finish(memory_->how.streaming); }

 private:
  template <class L, class Wait>
  TUTTI_ALWAYS_INLINE bool open(L& lane, Wait& wait) {
    auto& m = *memory_;
    if constexpr (sharing_lane<L>) {
      if (shared_) {
        if (arrivals_.size() == 1) {
          // Where there is one sender only, what it publishes may be for others too.
          lane.expect(arrivals_.template only<&arrival::peer>(), m.storage.count() * sizeof(T));
        } else if (arrivals_.size() > 1) {
          expect_all(lane, m.storage, arrivals_.entries(), arrivals_.size());
        }
        while (!sends_.publish(lane, m.storage, m.copies, m.scratch, m.how, m.overlapping))
          if (!wait()) return false;
        return true;
      }
    }
    sends_.post(lane, m.storage, m.copies, m.scratch, m.how, m.overlapping);
    return true;
  }

  template <class L>
  [[gnu::noinline]] static void expect_all(L& lane, const Storage& storage, const arrival* list, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) lane.expect(list[i].peer, storage.elements(list[i].what()) * sizeof(T));
  }

  template <class L, class Wait>
  TUTTI_ALWAYS_INLINE bool receive(L& lane, Wait& wait) {
    using takes = intake<Storage, Op, L>;
    auto& m = *memory_;
    const takes take{lane, m.scratch, m.how, shared_, m.how.streaming && last_, m.how.pair && !last_, m.op};
    typename takes::progress at{done_, message_, viewed_, landing_};
    bool finished = true;
    if (arrivals_.size() == 1) {
      if (done_ == 0) {
        const listed_step step = only_step(arrivals_);
        finished = take.take_one(m.storage, at, step.peer, step.what(), arrivals_.template only<&arrival::how>(), wait);
        if (finished) at.done = 1;
      }
    } else if (arrivals_.size() > 1) {
      finished = takes::take_all(take, m.storage, at, arrivals_.entries(), arrivals_.size(), wait);
    }
    done_ = at.done;
    message_ = at.message;
    viewed_ = at.viewed;
    landing_ = at.landing;
    return finished;
  }

  round_memory<Storage, Op>* memory_;
  round_sends<Storage> sends_;
  bool last_ = false;    // the round's results are final: nobody reads them from here any more
  bool shared_ = false;  // ranks read where others have published
  bool opened_ = false;  // what is sent is on its way
  step_list<arrival> arrivals_;
  [[no_unique_address]] round_locals<Storage> locals_;
  std::size_t done_ = 0;  // arrivals that have been taken in
  // How far the next has got.
  int message_ = 0;
  std::size_t viewed_ = 0;
  std::byte* landing_ = nullptr;
};

}  // namespace tutti::detail
