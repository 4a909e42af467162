// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/schedule.hpp>

#include <cstdint>
#include <vector>

namespace tutti::detail {

/// Symbolic values of a proof. Value r in `[0, size)` is the contribution of rank r; the others are folds of two
/// values, each stored once, so that equal numbers mean equal expressions.
class expressions {
 public:
  constexpr expressions(int size, collective which) : size_{size}, words_{static_cast<std::size_t>(size + 63) / 64} {
    const bool folds = which == collective::reduce || which == collective::reduce_scatter ||
                       which == collective::allreduce || which == collective::barrier;
    if (!folds) return;  // values are plain numbers
    for (int r = 0; r < size; ++r) {
      nodes_.push_back({r, r, r, r, true});
      members_.resize(members_.size() + words_);
      members_[(nodes_.size() - 1) * words_ + static_cast<std::size_t>(r) / 64] = std::uint64_t{1} << (r % 64);
    }
    table_.assign(64, empty);
  }

  /// Whether some rank contributed to both.
  constexpr bool overlap(int a, int b) const {
    for (std::size_t w = 0; w < words_; ++w) {
      if ((word(a, w) & word(b, w)) != 0) return true;
    }
    return false;
  }

  /// The value `a op b`.
  constexpr int fold(int a, int b) {
    return find_or_add(a, b, node(a).ascending && node(b).ascending && node(a).last < node(b).first);
  }

  /// Whatever is known from either, in no order.
  constexpr int join(int a, int b) { return find_or_add(a, b, false); }

  /// Every rank contributed.
  constexpr bool complete(int a) const {
    for (int r = 0; r < size_; ++r) {
      if ((word(a, static_cast<std::size_t>(r) / 64) >> (r % 64) & 1) == 0) return false;
    }
    return true;
  }

  /// The contributions stand in rank order.
  constexpr bool ascending(int a) const { return node(a).ascending; }

 private:
  static constexpr int empty = -1;
  struct folded_value {
    int left;
    int right;
    int first;
    int last;
    bool ascending;
  };

  constexpr const folded_value& node(int a) const { return nodes_[static_cast<std::size_t>(a)]; }
  constexpr std::uint64_t word(int a, std::size_t w) const {
    return members_[static_cast<std::size_t>(a) * words_ + w];
  }

  constexpr std::size_t place_of(int a, int b) const {
    const std::uint64_t key =
        (static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint64_t>(b)) * 0x9e3779b97f4a7c15u;
    std::size_t i = static_cast<std::size_t>(key >> 32) % table_.size();
    while (table_[i] != empty && (node(table_[i]).left != a || node(table_[i]).right != b)) i = (i + 1) % table_.size();
    return i;
  }

  constexpr int find_or_add(int a, int b, bool ascending) {
    if (const int known = table_[place_of(a, b)]; known != empty) return known;
    const int fresh = static_cast<int>(nodes_.size());
    nodes_.push_back({a, b, node(a).first, node(b).last, ascending});
    for (std::size_t w = 0; w < words_; ++w) members_.push_back(word(a, w) | word(b, w));
    if (nodes_.size() * 2 > table_.size()) {
      table_.assign(table_.size() * 4, empty);
      for (int n = size_; n < fresh; ++n) table_[place_of(node(n).left, node(n).right)] = n;
    }
    table_[place_of(a, b)] = fresh;
    return fresh;
  }

  int size_;
  std::size_t words_;
  std::vector<folded_value> nodes_;
  std::vector<std::uint64_t> members_;
  std::vector<int> table_;
};

}  // namespace tutti::detail
