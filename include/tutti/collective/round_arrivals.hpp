// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/round_messages.hpp>
#include <tutti/core/arena.hpp>
#include <tutti/core/fold.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/step.hpp>
#include <tutti/core/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tutti::detail {

enum class arrival_kind : unsigned char { overwrite, left, right };
TUTTI_ALWAYS_INLINE constexpr arrival_kind kind_of(const recv_from&) { return arrival_kind::overwrite; }
TUTTI_ALWAYS_INLINE constexpr arrival_kind kind_of(const combine& step) {
  return step.operand == side::left ? arrival_kind::left : arrival_kind::right;
}

/// What comes from where, what is done with it, and where it lies once it has arrived.
struct arrival : listed_step {
  arrival_kind how;
  const std::byte* view;
};

/// Takes the messages of one step, or of several that fold into the same blocks, out of the lane and puts them where
/// they belong.
template <class Storage, class Op, class L>
struct intake {
  using T = typename Storage::value_type;
  using kind = arrival_kind;

  L& lane;
  arena& scratch;
  const policy& treat;
  bool shared;     // read where others have published
  bool streaming;  // written past the caches
  bool sent_on;    // the only other rank may read what is written in a later round
  Op& op;

  /// How far a round has got that could not be taken in whole.
  struct progress {
    std::size_t done = 0;  // of its arrivals
    // Of the next.
    int message = 0;
    std::size_t viewed = 0;  // of its sources, for this message
    std::byte* landing = nullptr;
  };

  /// False where `wait()` says that one may not wait.
  template <class Wait>
  TUTTI_ALWAYS_INLINE bool take_one(Storage& storage, progress& at, int peer, const block_set& what, kind how,
                                    Wait& wait) const {
    const step_messages<L, Storage> parts(lane, storage, treat, what);
    const int count = shared ? 1 : parts.count();
    for (; at.message < count; ++at.message) {
      const message_part part = shared ? message_part{what} : parts[at.message];
      if (part.piece && part.size == 0 && part.begin != 0) {
        if (part.last) storage.mark(part.set.first);
        continue;
      }
      const block_set set = part.set;
      const bool one_block = Storage::whole || set.count == 1;
      const int block = set.at(0, storage.blocks());
      const std::size_t n = part.piece ? part.size : one_block ? storage.size(block) : storage.elements(set);
      const std::byte* view;
      while ((view = arrived(storage, at, peer, how, block, one_block, part.begin, n)) == nullptr)
        if (!wait()) return false;
      claim(peer);
      if constexpr (alignof(T) > 32) view = aligned(view, n);
      if (one_block) {
        const T* const arriving = reinterpret_cast<const T*>(view);
        if (how == kind::overwrite) {
          if (!landing_lane<L> || view != place(storage, block, part.begin))
            copy_elements(storage.target(block) + part.begin, arriving, n, streaming);
        } else if constexpr (!std::is_same_v<Op, no_operation>) {
          const T* const own = storage.source(block) + part.begin;
          const bool left = how == kind::left;
          T* const to = storage.target(block) + part.begin;
          const auto fold_here = [&](bool past_caches) {
            fold_pair(to, left ? arriving : own, left ? own : arriving, n, op, past_caches);
          };
          if (sent_on) {
            write_result(peer, to, n, storage.size(block), fold_here);
          } else {
            fold_here(streaming);
          }
          folded(n);
        }
        if (part.last) storage.mark(block);
      } else {
        take_runs(*this, storage, set, how, view);
      }
      release(peer);
    }
    at.message = 0;
    return true;
  }

  /// The same for all arrivals of a round. Those that fold into the same blocks are one group and one pass over memory;
  /// groups are done in listed order.
  template <class Wait>
  [[gnu::noinline]] static bool take_all(const intake& me, Storage& storage, progress& at, arrival* list,
                                         std::size_t size, Wait& wait) {
    while (at.done < size) {
      const arrival& first = list[at.done];
      std::size_t end = at.done + 1;
      if (first.how != kind::overwrite)
        while (end < size && list[end].how != kind::overwrite && list[end].what() == first.what()) ++end;
      if (end == at.done + 1) {
        if (!me.take_one(storage, at, first.peer, first.what(), first.how, wait)) return false;
      } else {
        if (!take_group(me, storage, at, list + at.done, end - at.done, wait)) return false;
      }
      at.done = end;
    }
    return true;
  }

 private:
  template <class Wait>
  TUTTI_ALWAYS_INLINE static bool take_group(const intake& me, Storage& storage, progress& at, arrival* group,
                                             std::size_t size, Wait& wait) {
    const step_messages<L, Storage> parts(me.lane, storage, me.treat, group[0].what());
    const int count = me.shared ? 1 : parts.count();
    for (; at.message < count; ++at.message) {
      const message_part part = me.shared ? message_part{group[0].what()} : parts[at.message];
      if (part.piece && part.size == 0 && part.begin != 0) {
        if (part.last) storage.mark(part.set.first);
        continue;
      }
      const block_set set = part.set;
      const std::size_t n = part.piece ? part.size : storage.elements(set);
      const int block = set.at(0, storage.blocks());
      while (at.viewed < size) {
        arrival& from = group[at.viewed];
        from.view = me.arrived(storage, at, from.peer, from.how, block, set.count == 1, part.begin, n);
        if (from.view != nullptr) {
          ++at.viewed;
        } else if (!wait()) {
          return false;
        }
      }
      at.viewed = 0;
      const std::size_t claims = me.shared ? 1 : size;
      for (std::size_t i = 0; i < claims; ++i) me.claim(group[i].peer);
      if constexpr (alignof(T) > 32)
        for (std::size_t i = 0; i < size; ++i) group[i].view = me.aligned(group[i].view, n);
      if (part.piece) {
        if constexpr (!std::is_same_v<Op, no_operation>)
          me.fold(storage.target(block) + part.begin, storage.source(block) + part.begin, group, size, 0, n);
        me.folded(size * n);
        if (part.last) storage.mark(block);
      } else {
        me.fold_runs(storage, set, group, size);
      }
      for (std::size_t i = 0; i < claims; ++i) me.release(group[i].peer);
    }
    at.message = 0;
    return true;
  }

  /// Where the message lies when it has arrived, else null.
  TUTTI_ALWAYS_INLINE const std::byte* arrived(Storage& storage, progress& at, int peer, kind how, int block,
                                               bool one_block, [[maybe_unused]] std::size_t begin,
                                               std::size_t n) const {
    const std::size_t bytes = n * sizeof(T);
    if constexpr (sharing_lane<L>) {
      if (shared) return lane.look(peer, storage.remote_offset(peer, block) * sizeof(T));
    }
    if constexpr (landing_lane<L>) {
      return lane.view(peer, bytes, how == kind::overwrite && one_block ? place(storage, block, begin) : nullptr);
    } else if constexpr (viewing_lane<L>) {
      return lane.view(peer, bytes);
    } else {
      if (at.landing == nullptr) {
        // Straight to its place where the message is one run of memory there and nothing else. A message without bytes
        // may have no place, and null would mean that it has not arrived.
        const bool in_place = bytes != 0 && how == kind::overwrite && one_block;
        at.landing = in_place ? reinterpret_cast<std::byte*>(storage.target(block) + begin)
                              : scratch.take(bytes == 0 ? 1 : bytes);
      }
      if (!lane.try_recv(peer, at.landing, bytes)) return nullptr;
      const std::byte* const landed = at.landing;
      at.landing = nullptr;
      return landed;
    }
  }

  static std::byte* place(Storage& storage, int block, std::size_t begin) {
    return reinterpret_cast<std::byte*>(storage.target(block) + begin);
  }

  /// From here to `release` the view may be read.
  TUTTI_ALWAYS_INLINE void claim(int peer) const {
    if constexpr (sharing_lane<L>) {
      if (shared) {
        lane.claim_shared();
        return;
      }
    }
    if constexpr (viewing_lane<L>) lane.claim(peer);
  }
  TUTTI_ALWAYS_INLINE void release(int peer) const {
    if constexpr (sharing_lane<L>) {
      if (shared) {
        lane.release_shared();
        return;
      }
    }
    if constexpr (viewing_lane<L>) lane.release(peer);
  }

  TUTTI_ALWAYS_INLINE void folded([[maybe_unused]] std::size_t n) const {
    if constexpr (timed_lane<L>) lane.folded(n * sizeof(T));
  }

  template <class Write>
  void write_result([[maybe_unused]] int peer, [[maybe_unused]] T* to, [[maybe_unused]] std::size_t n,
                    [[maybe_unused]] std::size_t of, const Write& write) const {
    if constexpr (writing_lane<L>) {
      lane.write_result(peer, reinterpret_cast<std::byte*>(to), n * sizeof(T), of * sizeof(T), write);
    } else {
      write(false);
    }
  }

  /// A view of elements that must be aligned to more than memory usually is.
  const std::byte* aligned(const std::byte* view, std::size_t n) const {
    if (reinterpret_cast<std::uintptr_t>(view) % alignof(T) == 0) return view;
    std::byte* const copy = scratch.take(n * sizeof(T));
    std::memcpy(copy, view, n * sizeof(T));
    return copy;
  }

  [[gnu::noinline]] static void take_runs(const intake& me, Storage& storage, const block_set& set, kind how,
                                          const std::byte* view) {
    const arrival from{{-1, 0, 0, 0}, how, view};
    me.fold_runs(storage, set, &from, 1);
  }

  /// Takes in the blocks, as many neighbours at a time as lie in one run here and there.
  void fold_runs(Storage& storage, const block_set& set, const arrival* from, std::size_t sources) const {
    const int blocks = storage.blocks();
    const int count = Storage::whole ? 1 : set.count;
    std::size_t done = 0;
    for (int i = 0; i < count;) {
      const int first = set.at(i, blocks);
      T* const to = storage.target(first);
      const T* const own = from[0].how == kind::overwrite ? nullptr : storage.source(first);
      std::size_t run = storage.size(first);
      for (++i; i < count; ++i) {
        const int block = set.at(i, blocks);
        if (storage.target(block) != to + run) break;
        if (own != nullptr && storage.source(block) != own + run) break;
        run += storage.size(block);
      }
      if (run == 0) continue;
      if (own == nullptr) {
        copy_elements(to, reinterpret_cast<const T*>(from[0].view) + done, run, streaming);
      } else if constexpr (!std::is_same_v<Op, no_operation>) {
        fold(to, own, from, sources, done, run);
        folded(sources * run);
      }
      done += run;
    }
    for (int i = 0; i < count; ++i) storage.mark(set.at(i, blocks));
  }

  /// n elements, which begin `offset` elements into each view.
  void fold(T* to, const T* own, const arrival* from, std::size_t sources, std::size_t offset, std::size_t n) const {
    constexpr std::size_t few = 32;
    const T* on_stack[few];
    const T** const operands = sources < few ? on_stack : scratch.take_for<const T*>(sources + 1);
    std::size_t i = 0;
    for (; i < sources && from[i].how == kind::left; ++i)
      operands[i] = reinterpret_cast<const T*>(from[i].view) + offset;
    operands[i] = own;
    for (; i < sources; ++i) operands[i + 1] = reinterpret_cast<const T*>(from[i].view) + offset;
    fold_all(to, operands, static_cast<int>(sources + 1), n, op, streaming);
  }
};

}  // namespace tutti::detail
