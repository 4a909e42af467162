// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/circulant.hpp>
#include <tutti/schedule/flat.hpp>
#include <tutti/schedule/hypercube.hpp>
#include <tutti/schedule/neighbour_exchange.hpp>
#include <tutti/schedule/product.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;
using tutti::flat, tutti::circulant, tutti::hypercube_doubling, tutti::neighbour_exchange;
using tutti::product, tutti::rows_of, tutti::near_square;

using two_levels = product<flat, circulant>;
using ordered = product<hypercube_doubling, hypercube_doubling>;
using mirrored_rows = product<neighbour_exchange, circulant, rows_of<6>>;
using three_levels = product<flat, product<circulant, neighbour_exchange>, rows_of<2>>;
using levels_in_rows = product<product<circulant, flat>, neighbour_exchange, rows_of<6>>;

static_assert(tutti::proved<two_levels, 1, 64>);
static_assert(tutti::proved_schedule<allreduce, two_levels, 1, 8>);
static_assert(tutti::proved_schedule<alltoall, two_levels, 1, 8>);
static_assert(tutti::proved_schedule<scatter, two_levels, 1, 8>);
static_assert(tutti::proved<ordered, 1, 64> && tutti::proved<mirrored_rows, 1, 64>);
static_assert(tutti::proved<three_levels, 1, 64> && tutti::proved<levels_in_rows, 1, 64>);
static_assert(two_levels::name == "product<flat, circulant, near_square>");
static_assert(product<flat, circulant, rows_of<16>>::name == "product<flat, circulant, rows_of<16>>");
static_assert(tutti::schedule_for<allreduce, ordered>::rank_ordered);
static_assert(!tutti::schedule_for<allreduce, product<hypercube_doubling, circulant>>::rank_ordered);

TEST_CASE("products are proved for all collectives, sizes and roots") {
  check_route<two_levels>(512);
  check_route<mirrored_rows>(512);
  check_route<three_levels>(512);
  check_route<levels_in_rows>(512);
  check_route<ordered>(512);
  CHECK(prove<two_levels>() == 9);
  CHECK(prove<mirrored_rows>() == 9);
  CHECK(prove<ordered>() == 9);
  CHECK(prove<three_levels>() == 9);
}

TEST_CASE("near_square divides evenly, rows not longer than columns") {
  CHECK(near_square::row(1) == 1);
  CHECK(near_square::row(6) == 2);
  CHECK(near_square::row(12) == 3);
  CHECK(near_square::row(30) == 5);
  CHECK(near_square::row(36) == 6);
  CHECK(near_square::row(13) == 1);
  CHECK(near_square::row(256) == 16);
  CHECK(near_square::row(257) == 1);
  CHECK(near_square::row(1000) == 25);
}

TEST_CASE("a product says where its rows or its routes do not fit") {
  CHECK(tutti::supports<product<flat, circulant, rows_of<4>>>(12));
  CHECK_FALSE(tutti::supports<product<flat, circulant, rows_of<4>>>(10));
  CHECK_FALSE(tutti::valid_route<product<flat, circulant, rows_of<4>>>(10));
  CHECK(tutti::supports<product<flat, neighbour_exchange, rows_of<3>>>(12));
  CHECK_FALSE(tutti::supports<product<flat, neighbour_exchange, rows_of<3>>>(9));
  CHECK_FALSE(tutti::supports<product<neighbour_exchange, flat, rows_of<3>>>(12));
}

TEST_CASE("a product costs both routes' rounds and messages, and n(p-1)/p bytes") {
  for (int size = 2; size <= 64; ++size) {
    const int row = near_square::row(size);
    const int rounds = (row > 1 ? 1 : 0) + ceil_log2(size / row);
    check_route_costs<two_levels>(size, rounds, std::max(row - 1, 1), row - 1 + ceil_log2(size / row));
  }
}

TEST_CASE("the outer route carries one block for each row") {
  // 4 hosts of 3 ranks: 2/3 of the 12 blocks to each of two in the host, then 3 more to the other hosts.
  using hosts = product<flat, circulant, rows_of<3>>;
  int within = 0;
  int between = 0;
  const auto s = tutti::schedule_for<reduce_scatter, hosts>{};
  for (int k = 0; k < s.rounds({7, 12}); ++k) {
    s.round({7, 12}, k, [&](auto step) {
      if constexpr (tutti::is_send<decltype(step)>) (step.peer / 3 == 7 / 3 ? within : between) += step.what.count;
    });
  }
  CHECK(within == 8);
  CHECK(between == 3);
}

TEST_CASE("one row, and rows of one, are the inner and the outer route") {
  CHECK(rounds_of<product<neighbour_exchange, circulant, rows_of<8>>>(8) == rounds_of<neighbour_exchange>(8));
  CHECK(rounds_of<product<neighbour_exchange, circulant, rows_of<1>>>(7) == rounds_of<circulant>(7));
}
