// SPDX-License-Identifier: BSL-1.0
#include <tutti/core/host_table.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <vector>

using tutti::host_map, tutti::host_table;

namespace {

/// The map says of every rank the same as of its host and its index there.
constexpr bool consistent(const host_map& map) {
  int ranks = 0;
  for (int host = 0; host < map.hosts(); ++host) {
    for (int index = 0; index < map.ranks_on(host); ++index, ++ranks) {
      const int rank = map.rank(host, index);
      if (map.host(rank) != host || map.index(rank) != index) return false;
      if (index > 0 && map.rank(host, index - 1) >= rank) return false;
    }
    if (host > 0 && map.rank(host - 1, 0) >= map.rank(host, 0)) return false;
  }
  return ranks == map.ranks();
}

constexpr bool of_dealt_out() {
  const host_table table{7, -3, 7, -3, 7};
  const host_map& map = table.map();
  return consistent(map) && map.ranks() == 5 && map.hosts() == 2 && map.host(0) == 0 && map.host(3) == 1 &&
         map.index(4) == 2 && map.rank(1, 1) == 3 && map.ranks_on(0) == 3 && map.ranks_on(1) == 2 && !map.even() &&
         !map.neighbours() && map.different_sizes() == 2 && map.size(0) == 2 && map.size(1) == 3;
}
static_assert(of_dealt_out());

}  // namespace

TEST_CASE("hosts are numbered by their lowest ranks, whatever they are called") {
  const host_table table{9, 2, 2, 0, 9};
  const host_map& map = table.map();
  CHECK(consistent(map));
  CHECK(map.hosts() == 3);
  CHECK(map.host(0) == 0);
  CHECK(map.host(1) == 1);
  CHECK(map.host(3) == 2);
  CHECK(map.host(4) == 0);
  CHECK_FALSE(map.neighbours());
}

TEST_CASE("a map tells even hosts from uneven ones, and blocks of neighbours from others") {
  const host_table blocks{1, 1, 0, 0};
  CHECK(blocks.map().even());
  CHECK(blocks.map().neighbours());
  CHECK(tutti::has_two_levels(&blocks.map()));
  const host_table dealt{0, 1, 0, 1};
  CHECK(dealt.map().even());
  CHECK_FALSE(dealt.map().neighbours());
  const host_table uneven{0, 1, 1};
  CHECK_FALSE(uneven.map().even());
  CHECK(uneven.map().neighbours());
  const host_table one{4, 4, 4};
  CHECK(one.map().even());
  CHECK(one.map().neighbours());
  CHECK_FALSE(tutti::has_two_levels(&one.map()));
  const host_table own{0, 1, 2};
  CHECK(own.map().different_sizes() == 1);
  CHECK_FALSE(tutti::has_two_levels(&own.map()));
  CHECK_FALSE(tutti::has_two_levels(nullptr));
}

TEST_CASE("many ranks on many hosts") {
  std::vector<int> hosts(10'000);
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) hosts[rank] = static_cast<int>(rank * 7919 % 1009);
  const host_table table{std::span<const int>(hosts)};
  CHECK(table.map().hosts() == 1009);
  CHECK(consistent(table.map()));
}
