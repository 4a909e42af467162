// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/short_list.hpp>
#include <tutti/collective/storage.hpp>
#include <tutti/core/arena.hpp>
#include <tutti/core/step.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/schedule/schedule.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace tutti::detail {

/// Stands for the operation where a collective folds nothing.
struct no_operation {};

/// How a collective treats memory and messages.
struct policy {
  std::size_t pack_bytes;  // messages of several pieces up to this size travel as one
  std::size_t copy_bytes;  // messages up to this size are copied away rather than waited for
  bool streaming;          // the results are written past the caches
};

/// One round of a collective on one rank: where its blocks lie, which sends are posted, and what has arrived.
///
/// A step's blocks travel as one message if they are one run of memory or small; else each run of neighbouring blocks,
/// and each block of a strided set, is a message of its own. Both ends decide from the same numbers.
template <class Storage, class Op>
class open_round {
 public:
  using value_type = typename Storage::value_type;

  open_round(Storage storage, Op op, arena& scratch, const policy& how, bool overlapping)
      : storage_(std::move(storage)), op_(std::move(op)), scratch_(&scratch), policy_(how), overlapping_(overlapping) {}

  template <class L>
  void begin(L& lane, bool last, bool shared) {
    last_ = last;
    shared_ = shared;
    published_ = false;
    readers_.clear();
    arrivals_.clear();
    lane.begin_round();
    copied_from_ = nullptr;
    copies_used_ = 0;
    group_ = 0;
    group_end_ = 0;
  }
  template <class L>
  [[gnu::always_inline]] void add(L& lane, const send& step) {
    if constexpr (sharing_lane<L>) {
      if (shared_) {
        readers_.push_back(step, *scratch_);
        return;
      }
    }
    post(lane, step.peer, step.what.first, step.what.stride, step.what.count);
  }
  template <class L>
  [[gnu::always_inline]] void add(L&, const recv& step) {
    arrivals_.push_back({step.peer, step.what, kind::overwrite}, *scratch_);
  }
  template <class L>
  [[gnu::always_inline]] void add(L&, const combine& step) {
    arrivals_.push_back({step.peer, step.what, step.operand == side::left ? kind::left : kind::right}, *scratch_);
  }

  /// Everything has been added.
  template <class L>
  void expect(L& lane) {
    if constexpr (sharing_lane<L>)
      for (std::size_t i = 0; shared_ && i < arrivals_.size(); ++i) {
        // Where there is one sender only, what it publishes may be for others too.
        const std::size_t n = arrivals_.size() == 1 ? storage_.count() : storage_.elements(arrivals_[i].what);
        lane.expect(arrivals_[i].peer, n * sizeof(T));
      }
  }

  /// Takes in what has arrived; true when the round is over.
  template <class L>
  bool advance(L& lane) {
    if constexpr (sharing_lane<L>) {
      if (shared_ && !published_) {
        if (!publish(lane)) return false;
        published_ = true;
      }
    }
    if (!receive(lane)) return false;
    if constexpr (sharing_lane<L>) {
      if (shared_) {
        lane.end_shared();
        shared_ = false;
      }
    }
    if (must_settle_) {
      if (!lane.settled()) return false;
      must_settle_ = false;
    }
    return true;
  }
  void finish() { storage_.finish(policy_.streaming); }

 private:
  using T = value_type;
  enum class kind : unsigned char { overwrite, left, right };
  struct arrival {
    int peer;
    block_set what;
    kind how;
  };

  // ---- messages -----------------------------------------------------------------------------------------------------
  int messages(const block_set& set) const {
    if constexpr (Storage::whole) return 1;
    if (set.count == 1 || storage_.elements(set) * sizeof(T) <= policy_.pack_bytes) return 1;
    if (set.stride != 1) return set.count;
    return set.at(0, storage_.blocks()) + set.count > storage_.blocks() ? 2 : 1;
  }
  block_set message(const block_set& set, int m, int of) const {
    if (of == 1) return set;
    if (set.stride != 1) return one_block(set.at(m, storage_.blocks()));
    const int first = set.at(0, storage_.blocks());
    const int before_wrap = storage_.blocks() - first;
    return m == 0 ? block_set{first, 1, before_wrap} : block_set{0, 1, set.count - before_wrap};
  }

  // The step comes in parts: a struct of ints is put together in memory, and to read it back there waits for all
  // stores.
  template <class L>
  void post(L& lane, int peer, int first_block, int stride, int blocks_in_step) {
    const block_set what{first_block, stride, blocks_in_step};
    const int count = messages(what);
    for (int m = 0; m < count; ++m) {
      const block_set set = message(what, m, count);
      const int blocks = storage_.blocks();
      const int first = set.at(0, blocks);
      const T* data = storage_.source(first);
      bool writable = storage_.writable(first);
      bool contiguous = true;
      std::size_t n = storage_.size(first);
      for (int i = 1; !Storage::whole && i < set.count; ++i) {
        const int block = set.at(i, blocks);
        contiguous &= storage_.source(block) == data + n;
        writable |= storage_.writable(block);
        n += storage_.size(block);
      }
      const std::size_t bytes = n * sizeof(T);
      const bool buffered = bytes <= policy_.copy_bytes;
      if (!contiguous) {
        data = gather(set, n);
        writable = true;
      } else if (overlapping_ && writable && !buffered) {
        // This round overwrites what it sends: send a copy, the same one to all peers.
        if (copied_from_ != data || copied_ != n) {
          T* const copy = take_copy(n);
          copy_elements(copy, data, n, false);
          copied_from_ = data;
          copied_ = n;
          copy_ = copy;
        }
        data = copy_;
      }
      const bool copied = lane.send(peer, reinterpret_cast<const std::byte*>(data), bytes, buffered);
      must_settle_ |= writable && !copied;
    }
  }

  /// Shows all readers of this round the part of the vector that they read. False while there is no room.
  template <class L>
  bool publish(L& lane) {
    if (readers_.size() == 0) return true;
    const int blocks = storage_.blocks();
    // The part of the vector from the first to the last element that anyone reads, and whether it lies in one piece.
    std::size_t begin = storage_.count();
    std::size_t end = 0;
    const int some = readers_[0].what.at(0, blocks);
    const T* const known = storage_.source(some);
    const std::size_t known_offset = storage_.offset(some);
    bool in_one_piece = true;
    bool writable = false;
    int seen = -1;
    for (std::size_t i = 0; i < (Storage::whole ? 1 : readers_.size()); ++i) {
      const block_set& set = readers_[i].what;
      for (int j = 0; j < (Storage::whole ? 1 : set.count); ++j) {
        const int block = set.at(j, blocks);
        if (block == seen) continue;
        seen = block;
        const std::size_t offset = storage_.offset(block);
        begin = offset < begin ? offset : begin;
        end = offset + storage_.size(block) > end ? offset + storage_.size(block) : end;
        writable |= storage_.writable(block);
        in_one_piece &= address(storage_.source(block)) - address(known) == (offset - known_offset) * sizeof(T);
      }
    }
    const std::size_t bytes = (end - begin) * sizeof(T);
    const bool copied = bytes <= policy_.copy_bytes;
    const T* data = known + (static_cast<std::ptrdiff_t>(begin) - static_cast<std::ptrdiff_t>(known_offset));
    if (!in_one_piece || (overlapping_ && writable && !copied)) {
      if (copies_used_ == 0) copy_published(begin, end);
      data = copies_;
      writable = true;
    }
    const int reader = readers_.size() == 1 ? readers_[0].peer : -1;
    if (!lane.publish(reader, reinterpret_cast<const std::byte*>(data), bytes, begin * sizeof(T), copied)) return false;
    must_settle_ |= writable && !copied;
    for (std::size_t i = 0; i < readers_.size(); ++i) lane.publish_to(readers_[i].peer, copied);
    return true;
  }
  static std::uintptr_t address(const T* element) { return reinterpret_cast<std::uintptr_t>(element); }
  void copy_published(std::size_t begin, std::size_t end) {
    T* const copy = take_copy(end - begin);
    for (std::size_t i = 0; i < readers_.size(); ++i) {
      const block_set& set = readers_[i].what;
      if (i != 0 && set == readers_[i - 1].what) continue;  // all read the same
      for (int j = 0; j < set.count; ++j) {
        const int block = set.at(j, storage_.blocks());
        copy_elements(copy + (storage_.offset(block) - begin), storage_.source(block), storage_.size(block), false);
      }
    }
  }

  const T* gather(const block_set& set, std::size_t n) {
    T* const packed = take_copy(n);
    T* to = packed;
    for (int i = 0; i < set.count; ++i) {
      const int block = set.at(i, storage_.blocks());
      copy_elements(to, storage_.source(block), storage_.size(block), false);
      to += storage_.size(block);
    }
    return packed;
  }

  /// Room for a copy that lasts until the round has settled; the next round uses the same room again.
  T* take_copy(std::size_t n) {
    if (copies_capacity_ - copies_used_ < n) {
      copies_capacity_ =
          n > storage_.elements(all_blocks(storage_.blocks())) ? n : storage_.elements(all_blocks(storage_.blocks()));
      copies_ = scratch_->take_for<T>(copies_capacity_);
      copies_used_ = 0;
    }
    T* const copy = copies_ + copies_used_;
    copies_used_ += n;
    return copy;
  }

  // ---- arrivals -----------------------------------------------------------------------------------------------------
  /// Arrivals that fold into the same blocks are one group and one pass over memory; groups are done in listed order.
  template <class L>
  bool receive(L& lane) {
    while (group_ < arrivals_.size()) {
      if constexpr (sharing_lane<L>) {
        // A block to be copied from where it was published: the common case of collectives that fold nothing.
        if (const arrival& a = arrivals_[group_]; shared_ && a.how == kind::overwrite && a.what.count == 1) {
          const int block = a.what.at(0, storage_.blocks());
          const std::byte* const view = lane.look(a.peer, storage_.remote_offset(a.peer, block) * sizeof(T));
          if (view == nullptr) return false;
          lane.claim_shared();
          copy_elements(storage_.target(block), reinterpret_cast<const T*>(view), storage_.size(block),
                        policy_.streaming && last_);
          storage_.mark(block);
          lane.release_shared();
          group_end_ = ++group_;
          continue;
        }
      }
      if (group_end_ == group_) {
        const arrival& first = arrivals_[group_];
        group_end_ = group_ + 1;
        if (first.how != kind::overwrite)
          while (group_end_ < arrivals_.size() && arrivals_[group_end_].how != kind::overwrite &&
                 arrivals_[group_end_].what == first.what)
            ++group_end_;
        message_ = 0;
        messages_ = shared_ ? 1 : messages(first.what);
        views_.clear();
      }
      for (; message_ < messages_; ++message_) {
        const block_set set = message(arrivals_[group_].what, message_, messages_);
        const std::size_t n = storage_.elements(set);
        while (views_.size() < group_end_ - group_) {
          const std::byte* const view = arrived(lane, arrivals_[group_ + views_.size()], set, n);
          if (view == nullptr) return false;
          views_.push_back(view, *scratch_);
        }
        take_in(lane, set, n);
        views_.clear();
      }
      group_ = group_end_;
    }
    return true;
  }

  /// Where the message lies when it has arrived, else null.
  template <class L>
  const std::byte* arrived(L& lane, const arrival& a, const block_set& set, std::size_t n) {
    const std::size_t bytes = n * sizeof(T);
    if constexpr (sharing_lane<L>) {
      if (shared_) {
        return lane.look(a.peer, storage_.remote_offset(a.peer, set.at(0, storage_.blocks())) * sizeof(T));
      }
    }
    if constexpr (viewing_lane<L>) {
      return lane.view(a.peer, bytes);
    } else {
      if (landing_ == nullptr) {
        // Straight to its place where the message is one run of memory there and nothing else. A message without bytes
        // may have no place, and null would mean that it has not arrived.
        const bool in_place = bytes != 0 && a.how == kind::overwrite && set.count == 1;
        landing_ = in_place ? reinterpret_cast<std::byte*>(storage_.target(set.at(0, storage_.blocks())))
                            : scratch_->take(bytes == 0 ? 1 : bytes);
      }
      if (!lane.try_recv(a.peer, landing_, bytes)) return nullptr;
      return std::exchange(landing_, nullptr);
    }
  }

  template <class L>
  void take_in(L& lane, const block_set& set, std::size_t n) {
    const std::size_t sources = views_.size();
    claim(lane, sources);
    if constexpr (alignof(T) > 32) {
      for (std::size_t i = 0; i < sources; ++i) {
        if (reinterpret_cast<std::uintptr_t>(views_[i]) % alignof(T) == 0) continue;
        std::byte* const aligned = scratch_->take(n * sizeof(T));
        std::memcpy(aligned, views_[i], n * sizeof(T));
        views_[i] = aligned;
      }
    }
    const int blocks = storage_.blocks();
    std::size_t done = 0;
    const int count = Storage::whole ? 1 : set.count;
    for (int i = 0; i < count;) {
      // As many neighbours as lie in one run, here and there.
      const int first = set.at(i, blocks);
      T* const to = storage_.target(first);
      const T* const own = arrivals_[group_].how == kind::overwrite ? nullptr : storage_.source(first);
      std::size_t run = storage_.size(first);
      for (++i; i < count; ++i) {
        const int block = set.at(i, blocks);
        if (storage_.target(block) != to + run) break;
        if (own != nullptr && storage_.source(block) != own + run) break;
        run += storage_.size(block);
      }
      if (run == 0) continue;
      if (own == nullptr) {
        copy_elements(to, reinterpret_cast<const T*>(views_[0]) + done, run, policy_.streaming && last_);
      } else if constexpr (!std::is_same_v<Op, no_operation>) {
        fold(to, own, done, run);
      }
      done += run;
    }
    for (int i = 0; i < count; ++i) storage_.mark(set.at(i, blocks));
    release(lane, sources);
  }

  template <class L>
  void claim(L& lane, std::size_t sources) {
    if constexpr (sharing_lane<L>) {
      if (shared_) {
        lane.claim_shared();
        return;
      }
    }
    if constexpr (viewing_lane<L>)
      for (std::size_t i = 0; i < sources; ++i) lane.claim(arrivals_[group_ + i].peer);
  }
  template <class L>
  void release(L& lane, std::size_t sources) {
    if constexpr (sharing_lane<L>) {
      if (shared_) {
        lane.release_shared();
        return;
      }
    }
    if constexpr (viewing_lane<L>)
      for (std::size_t i = 0; i < sources; ++i) lane.release(arrivals_[group_ + i].peer);
  }

  void fold(T* to, const T* own, std::size_t offset, std::size_t n) {
    const std::size_t arriving = views_.size();
    operands_.clear();
    std::size_t i = 0;
    for (; i < arriving && arrivals_[group_ + i].how == kind::left; ++i)
      operands_.push_back(reinterpret_cast<const T*>(views_[i]) + offset, *scratch_);
    operands_.push_back(own, *scratch_);
    for (; i < arriving; ++i) operands_.push_back(reinterpret_cast<const T*>(views_[i]) + offset, *scratch_);
    fold_all(to, &operands_[0], static_cast<int>(arriving + 1), n, op_, policy_.streaming && last_);
  }

  Storage storage_;
  [[no_unique_address]] Op op_;
  arena* scratch_;
  policy policy_;
  bool overlapping_;
  bool last_ = false;    // the round's results are final: nobody reads them from here any more
  bool shared_ = false;  // ranks read where others have published
  bool published_ = false;
  bool must_settle_ = false;  // memory that a later round writes is being read by others
  short_list<send, 16> readers_;
  short_list<arrival, 16> arrivals_;
  std::size_t group_ = 0;
  std::size_t group_end_ = 0;
  int message_ = 0;
  int messages_ = 0;
  short_list<const std::byte*, 16> views_;
  short_list<const T*, 17> operands_;
  std::byte* landing_ = nullptr;
  // Copies of what this round sends.
  const T* copied_from_ = nullptr;
  std::size_t copied_ = 0;
  const T* copy_ = nullptr;
  T* copies_ = nullptr;
  std::size_t copies_capacity_ = 0;
  std::size_t copies_used_ = 0;
};

}  // namespace tutti::detail
