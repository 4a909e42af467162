// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/arena.hpp>
#include <tutti/core/block_set.hpp>
#include <tutti/core/fold.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/layout.hpp>
#include <tutti/core/place.hpp>
#include <tutti/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace tutti::detail {

/// Which blocks hold something newer than the caller's input. Up to 64 blocks need no memory.
class block_marks {
 public:
  block_marks(int blocks, arena& scratch) : more_(blocks > 64 ? take(blocks, scratch) : nullptr) {}
  bool operator[](int block) const {
    const auto b = static_cast<unsigned>(block);
    return ((more_ == nullptr ? word_ : more_[b / 64]) >> (b % 64) & 1) != 0;
  }
  void set(int block) {
    const auto b = static_cast<unsigned>(block);
    (more_ == nullptr ? word_ : more_[b / 64]) |= std::uint64_t{1} << (b % 64);
  }

 private:
  [[gnu::noinline, gnu::cold]] static std::uint64_t* take(int blocks, arena& scratch) {
    const std::size_t words = (static_cast<std::size_t>(blocks) + 63) / 64;
    auto* const more = scratch.take_for<std::uint64_t>(words);
    for (std::size_t i = 0; i < words; ++i) more[i] = 0;
    return more;
  }

  std::uint64_t word_ = 0;
  std::uint64_t* more_;
};

/// Which blocks the caller gets.
enum class wanted : unsigned char { none, own, all };

/// Where a collective's blocks come from and go to on one rank. Null where a part does not exist.
template <class T>
struct buffers {
  const T* in = nullptr;      ///< the whole vector
  const T* own_in = nullptr;  ///< this rank's block alone, instead of the one in `in`
  T* out = nullptr;           ///< the whole vector; scratch is used where it is null
  T* own_out = nullptr;       ///< this rank's block alone, instead of the one in `out`
  wanted result = wanted::all;
};

template <class T>
[[gnu::noinline, gnu::cold]] T* scratch_for(arena& scratch, std::size_t count) {
  return scratch.take_for<T>(count);
}

/// Blocks of a vector, each read from the caller's input until it is first written, then from where it was written.
template <class T>
class vector_storage {
 public:
  using value_type = T;
  static constexpr bool whole = false;
  static constexpr int vectors = 1;

  TUTTI_ALWAYS_INLINE vector_storage(const buffers<T>& memory, std::size_t count, int blocks, int own, arena& scratch)
      : memory_(memory),
        layout_(count, blocks),
        own_(own),
        in_place_(memory.in == memory.out && memory.own_in == nullptr && memory.own_out == nullptr),
        scratch_(&scratch),
        marks_(in_place_ ? 1 : blocks, scratch) {}

  int blocks() const { return layout_.blocks(); }
  std::size_t size(int block) const { return layout_.size(block); }
  TUTTI_ALWAYS_INLINE std::size_t elements(const block_set& set) const {
    if (set.count == 1) return layout_.size(set.at(0, layout_.blocks()));
    if (set.count == layout_.blocks()) return layout_.count();
    if (layout_.even()) return layout_.even_size() * static_cast<std::size_t>(set.count);
    std::size_t sum = 0;
    for (int i = 0; i < set.count; ++i) sum += layout_.size(set.at(i, layout_.blocks()));
    return sum;
  }

  /// Where the block begins in the whole vector, here and on another rank.
  std::size_t offset(int block) const { return layout_.offset(block); }
  std::size_t remote_offset(int, int block) const { return layout_.offset(block); }
  std::size_t count() const { return layout_.count(); }

  /// Whether the block's current value lies in memory that this collective writes.
  TUTTI_ALWAYS_INLINE bool writable(int block) const { return in_place_ || marks_[block]; }
  TUTTI_ALWAYS_INLINE const T* source(int block) {
    if (in_place_ || marks_[block]) return target(block);
    if (block == own_ && memory_.own_in != nullptr) return memory_.own_in;
    return memory_.in + layout_.offset(block);
  }
  TUTTI_ALWAYS_INLINE T* target(int block) {
    if (block == own_ && memory_.own_out != nullptr) return memory_.own_out;
    if (memory_.out == nullptr) [[unlikely]]
      memory_.out = scratch_for<T>(*scratch_, layout_.count());
    return memory_.out + layout_.offset(block);
  }
  TUTTI_ALWAYS_INLINE void mark(int block) {
    if (!in_place_) marks_.set(block);
  }

  /// Gives the caller the wanted blocks that no step has written.
  TUTTI_ALWAYS_INLINE void finish(bool streaming) {
    if (memory_.result == wanted::none || in_place_) return;
    if (memory_.result == wanted::own) {
      finish(own_, streaming);
    } else {
      for (int block = 0; block < layout_.blocks(); ++block) finish(block, streaming);
    }
  }

 private:
  TUTTI_ALWAYS_INLINE void finish(int block, bool streaming) {
    if (!marks_[block] && layout_.size(block) != 0)
      copy_elements(target(block), source(block), layout_.size(block), streaming);
  }

  buffers<T> memory_;
  layout layout_;
  int own_;
  bool in_place_;
  arena* scratch_;
  block_marks marks_;
};

/// A vector that is not divided: one block, read from the caller's input until it is first written.
template <class T>
class whole_storage {
 public:
  using value_type = T;
  static constexpr bool whole = true;
  static constexpr int vectors = 1;

  TUTTI_ALWAYS_INLINE whole_storage(const buffers<T>& memory, std::size_t count, int, int, arena& scratch)
      : memory_(memory), count_(count), scratch_(&scratch), written_(memory.in == memory.out) {}

  static constexpr int blocks() { return 1; }
  std::size_t size(int) const { return count_; }
  std::size_t elements(const block_set&) const { return count_; }
  std::size_t count() const { return count_; }
  static constexpr std::size_t offset(int) { return 0; }
  static constexpr std::size_t remote_offset(int, int) { return 0; }
  bool writable(int) const { return written_; }
  TUTTI_ALWAYS_INLINE const T* source(int block) { return written_ ? target(block) : memory_.in; }
  TUTTI_ALWAYS_INLINE T* target(int) {
    if (memory_.out == nullptr && count_ != 0) [[unlikely]]
      memory_.out = scratch_for<T>(*scratch_, count_);
    return memory_.out;
  }
  TUTTI_ALWAYS_INLINE void mark(int) { written_ = true; }
  TUTTI_ALWAYS_INLINE void finish(bool streaming) {
    if (memory_.result != wanted::none && !written_) copy_elements(target(0), memory_.in, count_, streaming);
  }

 private:
  buffers<T> memory_;
  std::size_t count_;
  arena* scratch_;
  bool written_;
};

/// The slots of an alltoall: slot h begins as the block for one rank and ends as the block from another, and lies from
/// its first arrival on where it ends. Input and output do not overlap.
template <class T, class S>
class slot_storage {
 public:
  using value_type = T;
  static constexpr bool whole = false;
  static constexpr int vectors = 1;

  TUTTI_ALWAYS_INLINE slot_storage(const T* in, T* out, std::size_t each, S schedule, place at, arena& scratch)
      : in_(in),
        out_(out),
        each_(each),
        at_(at),
        schedule_(std::move(schedule)),
        marks_(blocks_of(schedule_, at), scratch) {}

  int blocks() const { return blocks_of(schedule_, at_); }
  std::size_t size(int) const { return each_; }
  TUTTI_ALWAYS_INLINE std::size_t elements(const block_set& set) const {
    return each_ * static_cast<std::size_t>(set.count);
  }
  std::size_t offset(int slot) const { return each_ * static_cast<std::size_t>(schedule_.destination(at_, slot)); }
  std::size_t remote_offset(int peer, int slot) const {
    return each_ * static_cast<std::size_t>(schedule_.destination(place{peer, at_.size, at_.hosts}, slot));
  }
  std::size_t count() const { return each_ * static_cast<std::size_t>(blocks()); }
  bool writable(int slot) const { return marks_[slot]; }
  TUTTI_ALWAYS_INLINE const T* source(int slot) {
    if (marks_[slot]) return target(slot);
    return in_ + each_ * static_cast<std::size_t>(schedule_.destination(at_, slot));
  }
  TUTTI_ALWAYS_INLINE T* target(int slot) {
    return out_ + each_ * static_cast<std::size_t>(schedule_.source(at_, slot));
  }
  TUTTI_ALWAYS_INLINE void mark(int slot) { marks_.set(slot); }
  TUTTI_ALWAYS_INLINE void finish(bool streaming) {
    for (int slot = 0; slot < blocks(); ++slot)
      if (!marks_[slot]) copy_elements(target(slot), source(slot), each_, streaming);
  }

 private:
  const T* in_;
  T* out_;
  std::size_t each_;
  place at_;
  S schedule_;
  block_marks marks_;
};

/// Several vectors of the same length, divided alike. Block b of vector v is number `v * parts + b` here. Vector 0 is
/// read from the caller's input until it is first written, the others begin with nothing; one of them is the result.
template <class T, int Vectors, int Result>
class vectors_storage {
 public:
  using value_type = T;
  static constexpr bool whole = false;
  static constexpr int vectors = Vectors;

  vectors_storage(const buffers<T>& memory, std::size_t count, int parts, int, arena& scratch)
      : in_(memory.in),
        result_(memory.result),
        layout_(count, parts),
        marks_(Vectors * parts, scratch),
        in_place_(Result == 0 && memory.in == memory.out) {
    for (int v = 0; v < Vectors; ++v) {
      vectors_[v] = v == Result && memory.out != nullptr ? memory.out : scratch_for<T>(scratch, count);
    }
    if (Result != 0 && memory.in == memory.out && count != 0) {
      // The result is written while the input is still read.
      copy_elements(vectors_[0], in_, count, false);
      in_place_ = true;
    }
  }

  int parts() const { return layout_.blocks(); }
  int blocks() const { return Vectors * parts(); }
  std::size_t size(int block) const { return layout_.size(block % parts()); }
  std::size_t elements(const block_set& set) const {
    if (set.count == blocks()) return layout_.count();  // asked for the room that copies may take
    std::size_t sum = 0;
    for (int i = 0; i < set.count; ++i) sum += size(set.first + i * set.stride);
    return sum;
  }
  std::size_t offset(int block) const { return layout_.offset(block % parts()); }
  std::size_t remote_offset(int, int block) const { return offset(block); }
  std::size_t count() const { return layout_.count(); }

  bool writable(int block) const { return block >= parts() || in_place_ || marks_[block]; }
  const T* source(int block) {
    if (writable(block)) return target(block);
    return in_ + layout_.offset(block);
  }
  T* target(int block) {
    const int v = block / parts();
    return vectors_[v] + layout_.offset(block - v * parts());
  }
  void mark(int block) { marks_.set(block); }

  /// Gives the caller what no step has written: a result that is nothing stays as it is.
  void finish(bool streaming) {
    if (result_ == wanted::none || Result != 0 || in_place_) return;
    for (int block = 0; block < parts(); ++block)
      if (!marks_[block] && size(block) != 0) copy_elements(target(block), source(block), size(block), streaming);
  }

 private:
  const T* in_;
  wanted result_;
  layout layout_;
  block_marks marks_;
  bool in_place_;  // vector 0 lies from the beginning where it is written
  T* vectors_[Vectors] = {};
};

/// Where there is no root a whole vector is stored as blocks are, of which it is one. So the candidates of an
/// allreduce, one of which moves whole vectors and one blocks, share an executor: without that a program of one call
/// takes a thirtieth longer to compile. It costs 3 % of an allreduce of 4 KiB among two threads, and less of any other.
template <class T, class S>
struct storage_of {
  using type = std::conditional_t<whole_vector<S> && rooted<S>, whole_storage<T>, vector_storage<T>>;
};
template <class T, class S>
requires(vectors<S> > 1) struct storage_of<T, S> {
  using type = vectors_storage<T, vectors<S>, result_vector<S>>;
};
/// What a schedule's blocks are stored in.
template <class T, class S>
using storage_for = typename storage_of<T, S>::type;

}  // namespace tutti::detail
