// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/float_format.hpp>
#include <tutti/core/operation.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>

namespace tutti {

/// The exact sum of floating-point numbers, as a fixed-point number that has a bit for every bit of every T. Adding
/// never rounds, so it is associative and commutative to the last bit: sums of the same values are the same bits, in
/// whatever order and groups they were added. `value()` rounds, once.
///
/// T is float, double, `float16`, `bfloat16` or any other binary type of 16, 32 or 64 bits. Trivially copyable: it
/// travels in collectives, and `std::plus<>` adds two.
///
/// Room: a T is a whole number of units (its smallest positive number) and less than 2^w of them, w = 277 for float,
/// 2098 for double, 261 for bfloat16, 40 for float16. Of the 64 L bits here two are flags, and the others hold
/// -2^(64 L - 3) to 2^(64 L - 3) - 1 units. The sum of N values is less than N 2^w units in size. So it cannot overflow
/// while N <= 2^(64 L - 3 - w): `room_bits` below, at least 40 by the choice of L. N counts all values that are in the
/// sum, on all ranks.
///
/// | T        | L  | bytes | values    |
/// |----------|----|-------|-----------|
/// | float16  | 2  | 16    | 2^85      |
/// | bfloat16 | 5  | 40    | 2^56      |
/// | float    | 5  | 40    | 2^40      |
/// | double   | 34 | 272   | 2^75      |
///
/// NaN, and infinities of both signs, make the value NaN (the positive quiet one without payload); infinities of one
/// sign make it that infinity. A sum that is zero is +0, also of nothing and of -0 alone.
///
/// Source: Kulisch 2013, "Computer Arithmetic and Validity", chapter 8; Neal 2015, arXiv 1505.05571.
template <class T>
class exact_sum {
  static_assert(detail::binary_float<T>,
                "tutti: exact_sum is defined for binary floating-point types of 16, 32 and 64 bits");
  using format = detail::float_format<T>;
  using bits = typename format::bits;

 public:
  using value_type = T;

  /// The 64-bit words of the fixed-point number, least significant first.
  static constexpr int limbs = (format::width + 40 + 3 + 63) / 64;
  /// Up to 2^room_bits values may be added.
  static constexpr int room_bits = 64 * limbs - 3 - format::width;
  static_assert(room_bits >= 40);

  /// The sum of no values.
  constexpr exact_sum() = default;
  /// The sum of one.
  explicit constexpr exact_sum(T value) { add(value); }

  /// Adds a value: two limbs, and as many more as the carry runs through.
  constexpr void add(T value) {
    const bits b = std::bit_cast<bits>(value);
    const auto field = static_cast<unsigned>((b & ~format::sign) >> (format::digits - 1));
    if (field == format::special) [[unlikely]] {
      add_special(b);
      return;
    }
    const std::uint64_t flags = limb_[top] & flag_bits;
    const std::uint64_t negative = b >> (8 * sizeof(T) - 1);
    const std::uint64_t fill = 0 - negative;  // minus x is the complement of x, and 1
    const unsigned shift = shift_of(field);
    const std::uint64_t significand = significand_of(b, field);
    unsigned i = shift / 64;
    std::uint64_t carry = negative;
    carry = add_limb(i, (significand << shift % 64) ^ fill, carry);
    carry = add_limb(i + 1, ((significand >> 1) >> (63 - shift % 64)) ^ fill, carry);
    // What is left to add is all zeros without a carry or all ones with one: nothing.
    for (i += 2; i < limbs && carry != negative; ++i) carry = add_limb(i, fill, carry);
    limb_[top] = (limb_[top] & ~flag_bits) | flags;
  }

  /// Adds all values.
  void add(std::span<const T> values) {
    // Into digits of 32 bits with as much room above: they are independent of each other until all is added.
    constexpr std::size_t few = 32;
    constexpr std::size_t block = std::size_t{1} << 30;  // a digit grows by less than 2^33 at a time
    while (values.size() > few) {
      const std::size_t n = values.size() < block ? values.size() : block;
      *this += of_many(values.first(n));
      values = values.subspan(n);
    }
    for (const T value : values) add(value);
  }

  constexpr exact_sum& operator+=(T value) {
    add(value);
    return *this;
  }
  constexpr exact_sum& operator+=(const exact_sum& other) {
    const std::uint64_t flags = (limb_[top] | other.limb_[top]) & flag_bits;
    std::uint64_t carry = 0;
    for (unsigned i = 0; i < limbs; ++i) carry = add_limb(i, other.limb_[i], carry);
    limb_[top] = (limb_[top] & ~flag_bits) | flags;
    return *this;
  }
  friend constexpr exact_sum operator+(exact_sum a, const exact_sum& b) { return a += b; }

  /// Whether the same was added, up to values that sum to zero: such sums are the same bits.
  friend constexpr bool operator==(const exact_sum&, const exact_sum&) = default;

  /// The sum rounded to T: to nearest, ties to even, whatever mode the processor is in; subnormal numbers are not
  /// flushed, and what is too large is an infinity.
  constexpr T value() const {
    if (const std::uint64_t flags = limb_[top] & flag_bits; flags != 0) [[unlikely]] {
      if (flags == flag_bits) return std::bit_cast<T>(format::quiet_nan);
      return std::bit_cast<T>(static_cast<bits>(format::infinity | (flags == minus_infinity ? format::sign : bits{0})));
    }
    const bool negative = (limb_[top] & sign_bit) != 0;
    const bits size = negative ? rounded<true>() : rounded<false>();
    return std::bit_cast<T>(static_cast<bits>(size | (negative ? format::sign : bits{0})));
  }
  explicit constexpr operator T() const { return value(); }

 private:
  static constexpr unsigned top = limbs - 1;
  static_assert((format::special - 2) / 64 + 1 <= static_cast<int>(top), "a value ends below the sum's last limb");
  static constexpr std::uint64_t plus_infinity = std::uint64_t{1} << 63;  // an addend was; NaN counts as both
  static constexpr std::uint64_t minus_infinity = std::uint64_t{1} << 62;
  static constexpr std::uint64_t flag_bits = plus_infinity | minus_infinity;
  static constexpr std::uint64_t sign_bit = std::uint64_t{1} << 61;

  static constexpr unsigned shift_of(unsigned field) { return field - (field != 0 ? 1U : 0U); }
  static constexpr std::uint64_t significand_of(bits b, unsigned field) {
    return (b & (format::hidden - 1U)) | (field != 0 ? std::uint64_t{format::hidden} : std::uint64_t{0});
  }

  /// Returns the carry. What it does to the flags its callers undo.
  constexpr std::uint64_t add_limb(unsigned i, std::uint64_t addend, std::uint64_t carry) {
    const bool first = __builtin_add_overflow(limb_[i], addend, &limb_[i]);
    const bool second = __builtin_add_overflow(limb_[i], carry, &limb_[i]);
    return static_cast<std::uint64_t>(first) + static_cast<std::uint64_t>(second);
  }

  constexpr void add_special(bits b) {
    if ((b & ~format::sign) != format::infinity) {
      limb_[top] |= flag_bits;
    } else {
      limb_[top] |= (b & format::sign) != 0 ? minus_infinity : plus_infinity;
    }
  }

  /// At most 2^30 values.
  [[gnu::noinline]] static exact_sum of_many(std::span<const T> values) {
    constexpr int count = (format::width + 31) / 32 + 1;
    static_assert((format::special - 2) / 32 + (format::digits <= 32 ? 1 : 2) < count && count <= 2 * limbs);
    exact_sum sum;
    std::int64_t digit[count] = {};
    for (const T value : values) {
      const bits b = std::bit_cast<bits>(value);
      const auto field = static_cast<unsigned>((b & ~format::sign) >> (format::digits - 1));
      if (field == format::special) [[unlikely]] {
        sum.add_special(b);
        continue;
      }
      const std::int64_t fill = -static_cast<std::int64_t>(b >> (8 * sizeof(T) - 1));
      const std::int64_t significand = (static_cast<std::int64_t>(significand_of(b, field)) ^ fill) - fill;
      const unsigned shift = shift_of(field);
      std::int64_t* const at = digit + shift / 32;
      constexpr std::int64_t low = 0xFFFFFFFF;
      const std::int64_t scale = std::int64_t{1} << shift % 32;
      if constexpr (format::digits <= 32) {
        const std::int64_t scaled = significand * scale;
        at[0] += scaled & low;
        at[1] += scaled >> 32;
      } else {
        const std::int64_t scaled = (significand & low) * scale;
        const std::int64_t upper = (significand >> 32) * scale;
        at[0] += scaled & low;
        at[1] += (scaled >> 32) + (upper & low);
        at[2] += upper >> 32;
      }
    }
    std::int64_t carry = 0;
    exact_sum finite;
    for (int i = 0; i < 2 * limbs; ++i) {
      carry += i < count ? digit[i] : 0;
      finite.limb_[i / 2] |= (static_cast<std::uint64_t>(carry) & 0xFFFFFFFF) << (i % 2 * 32);
      carry >>= 32;
    }
    finite.limb_[top] &= ~flag_bits;
    return sum += finite;
  }

  /// The magnitude as the bits of a T.
  template <bool Negative>
  constexpr bits rounded() const {
    // The magnitude of a negative number is its complement and 1: the 1 runs through the limbs below the lowest that
    // is not zero. What the limbs below the highest of the magnitude hold is looked at only as far as rounding needs.
    unsigned lowest = 0;
    while (lowest < top && limb_[lowest] == 0) ++lowest;
    const auto limb = [&](unsigned i) -> std::uint64_t {
      if (i < lowest) return 0;
      const std::uint64_t word = (Negative ? ~limb_[i] : limb_[i]) & (i == top ? ~flag_bits : ~std::uint64_t{0});
      return Negative && i == lowest ? word + 1 : word;
    };
    unsigned highest = top;
    while (highest > 0 && limb(highest) == 0) --highest;
    const std::uint64_t head = limb(highest);
    if (head == 0) return 0;
    const int length = static_cast<int>(64 * highest) + 64 - std::countl_zero(head);
    if (length <= format::digits) return static_cast<bits>(head);  // also subnormal numbers are their number of units
    const int dropped = length - format::digits;
    if (dropped >= format::special - 1) return format::infinity;
    // 64 bits from that position on.
    const auto bits_from = [&](int position) {
      const auto i = static_cast<unsigned>(position) / 64;
      const unsigned offset = static_cast<unsigned>(position) % 64;
      const std::uint64_t next = i < top ? limb(i + 1) : 0;
      return (limb(i) >> offset) | ((next << 1) << (63 - offset));
    };
    // The significand's hidden bit adds 1 to the exponent field, and so does a significand that is rounded up to the
    // next power of two.
    const std::uint64_t kept = (static_cast<std::uint64_t>(dropped) << (format::digits - 1)) + bits_from(dropped);
    const auto i = static_cast<unsigned>(dropped - 1) / 64;
    const std::uint64_t half = std::uint64_t{1} << (dropped - 1) % 64;
    if ((limb(i) & half) == 0) return static_cast<bits>(kept);
    const bool more = lowest < i || (limb(i) & (half - 1)) != 0;
    return static_cast<bits>(kept + (more ? 1 : kept & 1));
  }

  std::uint64_t limb_[limbs] = {};
};

/// Sums of them commute, exactly.
template <class T>
struct is_commutative<std::plus<>, exact_sum<T>> : std::true_type {};
template <class T>
struct is_commutative<std::plus<exact_sum<T>>, exact_sum<T>> : std::true_type {};

template <class Op, class T>
struct is_exact<Op, exact_sum<T>> : is_commutative<Op, exact_sum<T>> {};

template <class T>
struct identity<std::plus<>, exact_sum<T>> {
  static constexpr bool known = true;
  static constexpr exact_sum<T> value{};
};
template <class T>
struct identity<std::plus<exact_sum<T>>, exact_sum<T>> : identity<std::plus<>, exact_sum<T>> {};

}  // namespace tutti
