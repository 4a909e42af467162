// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/derive.hpp>
#include <tutti/schedule/logarithm.hpp>

namespace tutti {

/// Swing, or Bine: even ranks exchange with the rank at 1, -1, 3, -5, 11, ... = (1 - (-2)^(k+1))/3, odd ranks with the
/// mirror image, so that partners are nearer than powers of two and most blocks stay among neighbours. p even: q =
/// ceil(log2 p) rounds, n(p-1)/p bytes per rank in one message a round, of at most two sets; allreduce twice that. Does
/// not keep rank order. Restricted to a root it is the Bine tree. For tori and tapered networks. Sources: Swing, De
/// Sensi et al., arXiv 2401.09356; Bine trees, arXiv 2508.17311. For odd p see `swing`.
///
/// Sums of the distances of rounds k and later, with alternating signs, are numbers in base -2. Those of even length
/// are the multiples of 2^(k+1) from -m to M, where m and M have the even and the odd ones of bits k+1 to q-1 set;
/// those of odd length are the same moved by the last distance. Each round adds as many as the later ones reach, save
/// where they meet round the circle, which happens in one round: the one whose 2^(k+1) is the largest that divides p.
struct bine {
  static constexpr std::string_view name = "bine";
  using group_type = dihedral;
  static constexpr bool supports(int size) { return size == 1 || size % 2 == 0; }
  static constexpr int rounds(int size) { return detail::ceil_log2(size); }
  static constexpr int ports(int size, int k) { return k + 1 < rounds(size) ? 2 : 1; }
  static constexpr hop entry(int size, int k, int port) {
    const int last = rounds(size) - 1;
    if (k == last) return {distance(k), one_block(distance(k))};
    const int half = 2 << k;  // no divisions by these: they are powers of two
    const int step = 2 * half;
    const int bits = (2 << last) - step;
    const int least = -(bits & 0x55555555);
    const int most = bits & 0x2AAAAAAA;
    int first = least + (k % 2 == 0 ? half : -half);
    int count = 1 << (last - 1 - k);
    if ((size & (step - 1)) == 0) {
      count = size >> (k + 2);  // once round the circle
    } else if ((size & (half - 1)) == 0) {
      count = (size >> (k + 1)) - count;
      const int met = most - size - first;  // up to here later rounds reach too, once round the circle
      if (met >= 0) first += ((met >> (k + 2)) + 1) * step;
    }
    return {distance(k), {port == 0 ? first : first + distance(last), step, count}};
  }

 private:
  static constexpr int distance(int k) { return ((k % 2 == 0 ? 2 << k : -(2 << k)) + 1) / 3; }
};

namespace detail {
template <>
struct remaining_way<bine> {
  static constexpr bool nested(int size) { return is_power_of_two(size); }
  static constexpr int before(int size, int k, int h) {
    for (int i = 0; i < k && h != 0; ++i) {
      const auto [by, what] = route_view<bine>::entry(size, i, h % 2 == 0 || bine::ports(size, i) == 1 ? 0 : 1);
      if (contains(what, h, size)) h = wrapped(by - h, size);  // distances are odd
    }
    return h;
  }
};
}  // namespace detail

static_assert(proved<bine, 1, 8>);

}  // namespace tutti
