// SPDX-License-Identifier: BSL-1.0

// Where a route says that its ways are nested, each beginning of a way is the whole way to where it leads: scatter and
// gather rely on it.

#include <tutti/schedule/algorithms.hpp>

#include <doctest/doctest.h>

using namespace tutti;

namespace {

/// Whether the rank that passes on block h in round k has its own before, for all h and k.
template <route R>
bool nested(int size) {
  using view = detail::route_view<R>;
  using way = detail::remaining_way<R>;
  const typename view::group_type g{size};
  for (int h = 1; h < size; ++h) {
    for (int k = 0; k < view::rounds(size); ++k) {
      const int left = way::before(size, k, h);
      bool passes = false;
      for (int port = 0; port < view::ports(size, k); ++port) {
        passes = passes || (left != 0 && detail::contains(view::entry(size, k, port).what, left, size));
      }
      if (passes && way::before(size, k, g.multiply(h, g.inverse(left))) != 0) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("routes whose ways are said to be nested") {
  int routes = 0;
  for_each_algorithm([&]<class A>() {
    if constexpr (route<A>) {
      bool claims = false;
      for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 30, 31, 32, 33, 36, 64}) {
        if (!supports<A>(size) || !detail::nested_ways<A>(size)) continue;
        CAPTURE(name_of<A>());
        CAPTURE(size);
        CHECK(nested<A>(size));
        claims = true;
      }
      routes += claims ? 1 : 0;
    }
  });
  CHECK(routes == 9);
}

TEST_CASE("a ring's ways are not: a rank's own block comes last") {
  CHECK_FALSE(detail::nested_ways<ring>(8));
  CHECK_FALSE(nested<ring>(8));
  CHECK_FALSE(nested<bine>(10));
}
