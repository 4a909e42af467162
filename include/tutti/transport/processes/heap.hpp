// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/fault_point.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/processes/segment.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tutti::detail {

/// Where one rank takes what others may read, in a segment. Only the rank itself takes and gives back, so that what the
/// heap knows of its blocks is private memory: nothing that another process does, or a copy of this one made by fork(),
/// can spoil it. One thread at a time.
///
/// Free neighbours are one block, and a free block of nearly the size is taken before the heap grows. It grows at its
/// end, in regions of addresses of which each is as large as all before it together: so what is given back and taken in
/// other sizes is found again. Memory once used stays with the heap. Taking and giving back cost a few steps each.
class heap {
 public:
  static constexpr std::size_t unit = 64;
  /// Memory is taken in multiples of this.
  static constexpr std::size_t growth = std::size_t{1} << 18;

  /// The segment must stay where it is. The heap begins with so many addresses in it.
  explicit heap(segment& memory, std::size_t first_region = std::size_t{1} << 26)
      : memory_(&memory), first_region_(first_region) {
    std::fill_n(bins_, classes, none);
  }
  heap(const heap&) = delete;
  heap& operator=(const heap&) = delete;

  /// `bytes` bytes that hold anything, aligned to `alignment`, a power of two up to a huge page, and at least to
  /// `unit`; from the size of a huge page on to a huge page. Throws `resource_error`, which says for what `purpose`,
  /// and then has taken nothing.
  std::byte* take(std::size_t bytes, std::size_t alignment = unit, const char* purpose = "a shared buffer") {
    if (bytes > memory_->range()) memory_->reserve(bytes, 1, purpose);  // throws
    const std::uint64_t size = rounded_up(std::max<std::size_t>(bytes, 1), unit);
    alignment = std::max(size >= segment::huge_page ? segment::huge_page : unit, alignment);
    // Nothing is begun that could fail half way: a new end, and what is left before and behind.
    while (spare_ < 3) {
      blocks_.push_back({});
      forget(static_cast<std::uint32_t>(blocks_.size() - 1));
    }
    make_room_in_table();
    std::uint32_t found = find(size, alignment);
    if (found == none) found = grow(size, alignment, purpose);
    return memory_->at(use(found, size, alignment));
  }

  /// What `take` has returned, or null.
  void give_back(std::byte* data) noexcept {
    if (data == nullptr) return;
    std::uint32_t b = remove_from_table(memory_->offset_of(data));
    if (b == none) return;
    live_ -= blocks_[b].bytes;
    if (const std::uint32_t after = blocks_[b].after; after != none && blocks_[after].free) {
      unlink(after);
      swallow(b, after);
    }
    if (const std::uint32_t before = blocks_[b].before; before != none && blocks_[before].free) {
      unlink(before);
      swallow(before, b);
      b = before;
    }
    link(b);
  }

  /// The bytes in use.
  std::uint64_t live() const { return live_; }
  /// The bytes of memory that the heap has.
  std::uint64_t committed() const { return total_; }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  /// A part of a region.
  struct block {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint32_t before = none;  // its neighbours in the region
    std::uint32_t after = none;
    std::uint32_t previous = none;  // in the bin of a free block, or in the list of unused records
    std::uint32_t next = none;
    bool free = false;
  };

  /// How far the heap goes.
  struct extent {
    std::uint32_t last = none;     // the last block of the last region
    std::uint64_t end = 0;         // where the memory of the last region ends
    std::uint64_t region_end = 0;  // where its addresses end
    std::uint64_t regions = 0;     // the addresses of all regions
  };

  static constexpr std::uint64_t rounded_up(std::uint64_t value, std::uint64_t step) {
    return (value + step - 1) / step * step;
  }

  // ---- Free blocks, by size: four classes for each power of two

  static constexpr int classes = 4 * 48;
  static int class_of(std::uint64_t bytes) {
    const std::uint64_t units = bytes / unit;
    if (units < 4) return static_cast<int>(units);
    const int log = static_cast<int>(std::bit_width(units)) - 1;
    return 4 * (log - 1) + static_cast<int>(units >> (log - 2) & 3);
  }
  /// The first class from `c` on that has blocks.
  int occupied(int c) const {
    for (int word = c / 64; word < classes / 64; ++word) {
      const std::uint64_t bits = occupied_[word] & (word == c / 64 ? ~std::uint64_t{0} << (c % 64) : ~std::uint64_t{0});
      if (bits != 0) return 64 * word + std::countr_zero(bits);
    }
    return classes;
  }
  void link(std::uint32_t b) {
    const int c = class_of(blocks_[b].bytes);
    blocks_[b].free = true;
    blocks_[b].previous = none;
    blocks_[b].next = bins_[c];
    if (bins_[c] != none) blocks_[bins_[c]].previous = b;
    bins_[c] = b;
    occupied_[c / 64] |= std::uint64_t{1} << (c % 64);
  }
  void unlink(std::uint32_t b) {
    const block& gone = blocks_[b];
    const int c = class_of(gone.bytes);
    (gone.previous == none ? bins_[c] : blocks_[gone.previous].next) = gone.next;
    if (gone.next != none) blocks_[gone.next].previous = gone.previous;
    if (bins_[c] == none) occupied_[c / 64] &= ~(std::uint64_t{1} << (c % 64));
    blocks_[b].free = false;
  }
  /// A free block that has room, of the smallest class that has one. Of the classes that may have one, or only
  /// together with what must be left before it, no more than some are tried.
  std::uint32_t find(std::uint64_t size, std::uint64_t alignment) {
    constexpr int tries = 32;
    for (int c = occupied(class_of(size)); c < classes; c = occupied(c + 1)) {
      std::uint32_t b = bins_[c];
      for (int i = 0; i < tries && b != none; ++i, b = blocks_[b].next) {
        const std::uint64_t start = rounded_up(blocks_[b].offset, alignment);
        if (start + size <= blocks_[b].offset + blocks_[b].bytes) return b;
      }
    }
    return none;
  }

  // ---- Records of blocks

  std::uint32_t reuse() {
    const std::uint32_t b = unused_;
    unused_ = blocks_[b].next;
    --spare_;
    blocks_[b] = {};
    return b;
  }
  void forget(std::uint32_t b) {
    blocks_[b].next = unused_;
    unused_ = b;
    ++spare_;
  }

  // ---- Blocks of a region

  /// Puts a free part of `b` into a record of its own, before or behind the rest.
  void split(std::uint32_t b, std::uint64_t front) {
    const std::uint32_t back = reuse();
    block& whole = blocks_[b];
    blocks_[back] = {whole.offset + front, whole.bytes - front, b, whole.after, none, none, false};
    if (whole.after != none) blocks_[whole.after].before = back;
    if (extent_.last == b) extent_.last = back;
    whole.after = back;
    whole.bytes = front;
  }
  /// The block `b` becomes part of its neighbour before it.
  void swallow(std::uint32_t before, std::uint32_t b) {
    blocks_[before].bytes += blocks_[b].bytes;
    blocks_[before].after = blocks_[b].after;
    if (blocks_[b].after != none) blocks_[blocks_[b].after].before = before;
    if (extent_.last == b) extent_.last = before;
    forget(b);
  }
  std::uint64_t use(std::uint32_t b, std::uint64_t size, std::uint64_t alignment) {
    unlink(b);
    if (const std::uint64_t gap = rounded_up(blocks_[b].offset, alignment) - blocks_[b].offset; gap != 0) {
      split(b, gap);
      link(b);
      b = blocks_[b].after;
    }
    if (blocks_[b].bytes > size) {
      split(b, size);
      link(blocks_[b].after);
    }
    live_ += size;
    put_into_table(b);
    return blocks_[b].offset;
  }

  /// More memory, at the end of the last region or in a new one: the free block that has room now.
  [[gnu::noinline, gnu::cold]] std::uint32_t grow(std::uint64_t size, std::uint64_t alignment, const char* purpose) {
    const auto end_of_need = [&] {
      const bool rest = extent_.last != none && blocks_[extent_.last].free;
      return rounded_up(rest ? blocks_[extent_.last].offset : extent_.end, alignment) + size;
    };
    const extent before = extent_;
    if (end_of_need() > extent_.region_end) {
      const std::uint64_t least = rounded_up(size, segment::huge_page);
      std::uint64_t region = std::max({rounded_up(first_region_, segment::huge_page), least, extent_.regions});
      if (region > memory_->range() - std::min<std::uint64_t>(memory_->range(), memory_->taken() + segment::huge_page))
        region = least;
      extent_.end = memory_->reserve(region, segment::huge_page, purpose);
      extent_.region_end = extent_.end + region;
      extent_.regions += region;
      extent_.last = none;
    }
    const std::uint64_t end = std::min(rounded_up(end_of_need(), growth), extent_.region_end);
    const std::uint64_t more = end - extent_.end;
    try {
      TUTTI_FAULT_POINT("heap.grow");
      memory_->commit(extent_.end, more, purpose);
    } catch (...) {
      if (extent_.region_end != before.region_end)
        memory_->give_back_addresses(extent_.end, extent_.region_end - extent_.end);
      extent_ = before;
      throw;
    }
    TUTTI_FAULT_POINT("heap.grown");
    std::uint32_t b = extent_.last;
    if (b != none && blocks_[b].free) {
      unlink(b);
      blocks_[b].bytes += more;
    } else {
      b = reuse();
      blocks_[b] = {extent_.end, more, extent_.last, none, none, none, false};
      if (extent_.last != none) blocks_[extent_.last].after = b;
      extent_.last = b;
    }
    extent_.end = end;
    total_ += more;
    link(b);
    return b;
  }

  // ---- Which block begins where: a table of those in use, hashed by offset, with linear probing

  std::size_t home(std::uint64_t offset) const {
    return static_cast<std::size_t>(offset / unit * 0x9e3779b97f4a7c15 >> 32) & (table_.size() - 1);
  }
  void make_room_in_table() {
    if (2 * (used_ + 1) <= table_.size()) return;
    owned_array<std::uint32_t> larger(std::max<std::size_t>(64, 2 * table_.size()));
    std::swap(table_, larger);
    used_ = 0;
    for (const std::uint32_t entry : larger)
      if (entry != 0) put_into_table(entry - 1);
  }
  void put_into_table(std::uint32_t b) {
    std::size_t at = home(blocks_[b].offset);
    while (table_[at] != 0) at = (at + 1) & (table_.size() - 1);
    table_[at] = b + 1;
    ++used_;
  }
  std::uint32_t remove_from_table(std::uint64_t offset) noexcept {
    if (table_.size() == 0) return none;
    const std::size_t mask = table_.size() - 1;
    std::size_t hole = home(offset);
    while (table_[hole] != 0 && blocks_[table_[hole] - 1].offset != offset) hole = (hole + 1) & mask;
    if (table_[hole] == 0) return none;
    const std::uint32_t found = table_[hole] - 1;
    // Those behind move up unless that would be before their home.
    for (std::size_t at = (hole + 1) & mask; table_[at] != 0; at = (at + 1) & mask) {
      if (((at - home(blocks_[table_[at] - 1].offset)) & mask) < ((at - hole) & mask)) continue;
      table_[hole] = table_[at];
      hole = at;
    }
    table_[hole] = 0;
    --used_;
    return found;
  }

  segment* memory_;
  std::uint64_t first_region_;
  array_list<block> blocks_;
  std::uint32_t unused_ = none;
  std::uint32_t spare_ = 0;
  extent extent_;
  std::uint64_t total_ = 0;
  std::uint64_t live_ = 0;
  std::uint64_t occupied_[classes / 64] = {};
  std::uint32_t bins_[classes];
  owned_array<std::uint32_t> table_;
  std::size_t used_ = 0;
};

}  // namespace tutti::detail
