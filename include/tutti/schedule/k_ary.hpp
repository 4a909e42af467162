// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/derive.hpp>
#include <tutti/schedule/template_name.hpp>

#include <array>
#include <cstddef>
#include <limits>

namespace tutti {

/// Circulant graph of radix `Radix`: each round divides the blocks still to send by the radix, rounded up, and sends
/// all parts but the first at once. ceil(log_Radix p) rounds of at most Radix-1 messages for any p, n(p-1)/p bytes per
/// rank; allreduce twice that. Does not keep rank order. For networks, or shared memory, where several messages
/// overlap. `k_ary<2>` is `circulant`. Source: Traff, arXiv 2410.14234; radix as in Bruck et al. 1997.
template <int Radix>
struct k_ary {
  static_assert(Radix >= 2, "the radix is at least 2");
  static constexpr std::string_view name = detail::template_name<"k_ary", detail::numeral<Radix>>;

  static constexpr int rounds(int size) {
    int rounds = 0;
    while (powers[static_cast<std::size_t>(rounds)] < size) ++rounds;
    return rounds;
  }
  static constexpr int ports(int size, int k) {
    const cut parts{blocks_left(size, k)};
    return parts.short_by == 0 ? parts.sent : 2 * parts.sent - 1;
  }
  /// Farthest part first. Parts fold into one another, so where the farthest is shorter, the others are sent in two
  /// sets: as much as that one has, and the rest. What folds into the same blocks is listed together where it can be.
  static constexpr hop entry(int size, int k, int port) {
    const cut parts{blocks_left(size, k)};
    const auto [each, sent, short_by] = parts;
    if (short_by == 0 || port == 0) {
      const int by = (sent - port) * each;
      return {by, {by, 1, each - short_by}};
    }
    const int by = (sent - (port + 1) / 2) * each;
    const bool rest = (port + 1) / 2 % 2 != port % 2;
    return {by, {rest ? by + each - short_by : by, 1, rest ? short_by : each - short_by}};
  }

 private:
  friend struct detail::remaining_way<k_ary>;

  /// Radix^k, or the largest int where that is larger.
  static constexpr auto powers = [] {
    constexpr int most = std::numeric_limits<int>::max();
    std::array<int, 32> all{};
    int power = 1;
    for (int& p : all) {
      p = power;
      power = power > most / Radix ? most : power * Radix;
    }
    return all;
  }();

  static constexpr int part(int left) { return (left - 1) / Radix + 1; }
  /// Dividing by the radix k times, rounded up each time, is dividing by its power.
  static constexpr int blocks_left(int size, int k) { return (size - 1) / powers[static_cast<std::size_t>(k)] + 1; }
  /// How the blocks of a round are divided: the first part stays, `sent` others leave, the last of them shorter.
  struct cut {
    int each;
    int sent;
    int short_by;
    constexpr explicit cut(int left) : each{part(left)}, sent{(left - 1) / each}, short_by{(sent + 1) * each - left} {}
  };
};

namespace detail {
template <int Radix>
struct remaining_way<k_ary<Radix>> {
  static constexpr bool nested(int) { return true; }
  static constexpr int before(int size, int k, int h) {
    for (; k > 0 && h > 0; --k) {
      size = k_ary<Radix>::part(size);
      h %= size;
    }
    return h;
  }
};
}  // namespace detail

static_assert(proved<k_ary<3>, 1, 8>);

}  // namespace tutti
