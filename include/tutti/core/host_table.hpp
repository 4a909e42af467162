// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/host_map.hpp>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <span>

namespace tutti {

/// Keeps the tables of a `host_map`, made of each rank's host: any numbers, the same for ranks that share a host, in
/// any order. It stays where it is, since places point to its map. Constexpr, so that proofs can make one up. Cost: p
/// log p steps, 5 numbers for each rank.
class host_table {
 public:
  /// Requires at least one rank.
  constexpr explicit host_table(std::span<const int> host_of_rank)
      : numbers_{new int[room_for(host_of_rank.size())]{}}, map_{fill(numbers_, host_of_rank)} {}
  constexpr host_table(std::initializer_list<int> host_of_rank)
      : host_table{std::span<const int>(host_of_rank.begin(), host_of_rank.size())} {}
  host_table(const host_table&) = delete;
  host_table& operator=(const host_table&) = delete;
  constexpr ~host_table() { delete[] numbers_; }

  constexpr const host_map& map() const { return map_; }

 private:
  static constexpr std::size_t room_for(std::size_t ranks) { return 5 * ranks + 1; }

  static constexpr host_map::tables fill(int* numbers, std::span<const int> host_of_rank) {
    const int ranks = static_cast<int>(host_of_rank.size());
    int* const host = numbers;
    int* const index = host + ranks;
    int* const rank = index + ranks;
    int* const sizes = rank + ranks;
    int* const begin = sizes + ranks;
    const auto told = [&](int r) { return host_of_rank[static_cast<unsigned>(r)]; };

    // The ranks of each host side by side. `host` first tells each rank the lowest rank of its host.
    for (int r = 0; r < ranks; ++r) rank[r] = r;
    std::sort(rank, rank + ranks, [&](int a, int b) { return told(a) != told(b) ? told(a) < told(b) : a < b; });
    for (int i = 0, lowest = 0; i < ranks; ++i) {
      if (i == 0 || told(rank[i]) != told(rank[i - 1])) lowest = rank[i];
      host[rank[i]] = lowest;
    }
    int hosts = 0;
    bool neighbours = true;
    for (int r = 0; r < ranks; ++r) {
      if (host[r] == r) {
        host[r] = hosts;
        sizes[hosts++] = 0;
      } else {
        host[r] = host[host[r]];
      }
      index[r] = sizes[host[r]]++;
      neighbours = neighbours && (r == 0 || host[r] >= host[r - 1]);
    }
    for (int h = 0; h < hosts; ++h) begin[h + 1] = begin[h] + sizes[h];
    for (int r = 0; r < ranks; ++r) rank[begin[host[r]] + index[r]] = r;
    std::sort(sizes, sizes + hosts);
    const auto different = static_cast<int>(std::unique(sizes, sizes + hosts) - sizes);
    return {ranks, hosts, host, index, rank, begin, sizes, different, neighbours};
  }

  int* numbers_;
  host_map map_;
};

}  // namespace tutti
