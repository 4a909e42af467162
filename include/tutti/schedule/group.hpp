// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/block_set.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/value.hpp>
#include <tutti/schedule/logarithm.hpp>

#include <concepts>

namespace tutti {

namespace detail {

/// `value mod size` where `value` is nearly always less than `size` out of range: a division would be the dearest part
/// of a round.
constexpr int wrapped(int value, int size) {
  if (value < 0) {
    value += size;
  } else if (value >= size) {
    value -= size;
  }
  return value >= 0 && value < size ? value : modulo(value, size);
}

}  // namespace detail

/// A finite group on the ranks `[0, size)` whose identity is 0, made by `G{size}`. It moves block sets:
/// `translate(a, b)` is `{a * h : h in b}`. `translatable(b)` says whether that is a block set for every `a`; routes
/// use only such sets.
template <class G>
concept group = detail::value<G> && requires(const G& g, int a, block_set b) {
  G{a};
  { g.size } -> std::convertible_to<int>;
  { g.multiply(a, a) } -> std::same_as<int>;
  { g.inverse(a) } -> std::same_as<int>;
  { g.translate(a, b) } -> std::same_as<block_set>;
  { g.translatable(b) } -> std::same_as<bool>;
};

/// Addition modulo `size`: every rank sees the same neighbours at the same distances.
struct cyclic {
  int size;

  constexpr explicit cyclic(int ranks) : size{ranks} {}
  constexpr int multiply(int a, int b) const {
    const int sum = a + b;
    return sum >= size ? sum - size : sum;
  }
  constexpr int inverse(int a) const { return a == 0 ? 0 : size - a; }
  constexpr block_set translate(int a, block_set b) const { return {multiply(a, b.first), b.stride, b.count}; }
  constexpr bool translatable(block_set) const { return true; }
};

/// Bitwise exclusive or, `size` a power of two: partners exchange, so every element is its own inverse.
struct exclusive_or {
  int size;

  constexpr explicit exclusive_or(int ranks) : size{ranks} {}
  constexpr int multiply(int a, int b) const { return a ^ b; }
  constexpr int inverse(int a) const { return a; }
  /// The bits that vary within a subcube vary within its image too, so clearing them gives the image's first block.
  constexpr block_set translate(int a, block_set b) const {
    return {(a ^ b.first) & ~((b.count - 1) * b.stride), b.stride, b.count};
  }
  /// Only subcubes: adjacent bits vary freely, the others are fixed.
  constexpr bool translatable(block_set b) const {
    if (b.count == 1) return true;
    return detail::is_power_of_two(b.stride) && detail::is_power_of_two(b.count) && b.stride <= size / b.count &&
           (b.first & ((b.count - 1) * b.stride)) == 0;
  }
};

/// The symmetries of a polygon of `size / 2` corners, `size` even: seen from an even rank displacements count up, from
/// an odd rank down. A displacement to an odd rank is its own inverse, so partners exchange.
struct dihedral {
  int size;

  constexpr explicit dihedral(int ranks) : size{ranks} {}
  constexpr int multiply(int a, int b) const { return detail::wrapped(a % 2 == 0 ? a + b : a - b, size); }
  constexpr int inverse(int a) const { return a == 0 || a % 2 != 0 ? a : size - a; }
  TUTTI_ALWAYS_INLINE constexpr block_set translate(int a, block_set b) const {
    return {multiply(a, b.first), a % 2 == 0 ? b.stride : -b.stride, b.count};
  }
  constexpr bool translatable(block_set) const { return true; }
};

/// Rows of `Shape::row(size)` neighbouring ranks, `Lo` within a row and `Hi` among the rows: rank `lo + row * hi` is
/// the pair (lo, hi), and pairs are multiplied part by part. The shape is part of the type, since a group is made from
/// its size alone; shapes are in shape.hpp.
template <group Lo, group Hi, class Shape>
struct direct_product {
  int size;
  Lo lo;
  Hi hi;

  constexpr explicit direct_product(int ranks)
      : size{ranks}, lo{Shape::row(ranks)}, hi{lo.size == 0 ? 0 : ranks / lo.size} {}
  constexpr int multiply(int a, int b) const {
    return lo.multiply(a % lo.size, b % lo.size) + lo.size * hi.multiply(a / lo.size, b / lo.size);
  }
  constexpr int inverse(int a) const { return lo.inverse(a % lo.size) + lo.size * hi.inverse(a / lo.size); }
  constexpr block_set translate(int a, block_set b) const {
    if (hi.size == 1) return lo.translate(a, b);
    const block_set rows = of_rows(b);
    const block_set moved = rows == all_blocks(hi.size) ? rows : hi.translate(a / lo.size, rows);
    return {lo.multiply(a % lo.size, b.first % lo.size) + lo.size * moved.first, lo.size * moved.stride, moved.count};
  }
  /// Only blocks that have the same place in their rows: within a row a set may wrap around.
  constexpr bool translatable(block_set b) const {
    if (hi.size == 1) return lo.translatable(b);
    if (b.count == 1) return true;
    return b.stride % lo.size == 0 && (of_rows(b) == all_blocks(hi.size) || hi.translatable(of_rows(b)));
  }

 private:
  constexpr block_set of_rows(block_set b) const { return {b.first / lo.size, b.stride / lo.size, b.count}; }
};

static_assert(group<cyclic> && group<exclusive_or> && group<dihedral>);

namespace detail {

/// Whether block `b` of `[0, blocks)` is in the set. Cost: how many times the set goes round.
constexpr bool contains(block_set set, int b, int blocks) {
  const int step = set.stride < 0 ? -set.stride : set.stride;
  const int offset = wrapped(set.stride < 0 ? set.first - b : b - set.first, blocks);
  if (set.count <= 1 || step == 1) return offset < set.count;
  const long long last = static_cast<long long>(set.count - 1) * step;
  for (long long way = offset; way <= last; way += blocks) {
    if (way % step == 0) return true;
  }
  return false;
}

/// Receives blocks one by one and emits them as few sets: maximal arithmetic progressions modulo `blocks`.
template <class Emit>
class set_builder {
 public:
  constexpr set_builder(int blocks, Emit& emit) : blocks_{blocks}, emit_{emit} {}
  constexpr void add(int block) {
    if (set_.count == 0) {
      set_ = one_block(block);
    } else if (const int step = wrapped(block - last_, blocks_); set_.count == 1 || step == set_.stride) {
      set_.stride = step;
      ++set_.count;
    } else {
      emit_(set_);
      set_ = one_block(block);
    }
    last_ = block;
  }
  constexpr void finish() {
    if (set_.count > 0) emit_(set_);
  }

 private:
  int blocks_;
  Emit& emit_;
  int last_ = 0;
  block_set set_{0, 1, 0};
};

}  // namespace detail
}  // namespace tutti
