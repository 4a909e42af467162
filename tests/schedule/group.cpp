// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/group.hpp>
#include <tutti/schedule/shape.hpp>

#include <doctest/doctest.h>

#include <set>
#include <vector>

using namespace tutti;

namespace {

using grid = direct_product<cyclic, cyclic, near_square>;
using mirrored_grid = direct_product<dihedral, dihedral, rows_of<4>>;
using box = direct_product<exclusive_or, grid, rows_of<4>>;
static_assert(group<grid> && group<mirrored_grid> && group<box>);

/// The laws of a group, and that a set moved is the set of its elements moved, in order of the first's.
template <class G>
void check_laws(int size) {
  const G g{size};
  CAPTURE(size);
  CHECK(g.size == size);
  for (int a = 0; a < size; ++a) {
    CHECK(g.multiply(a, 0) == a);
    CHECK(g.multiply(0, a) == a);
    CHECK(g.multiply(a, g.inverse(a)) == 0);
    CHECK(g.multiply(g.inverse(a), a) == 0);
    std::set<int> row;
    for (int b = 0; b < size; ++b) row.insert(g.multiply(a, b));
    CHECK(row.size() == static_cast<std::size_t>(size));
    CHECK(*row.begin() == 0);
    CHECK(*row.rbegin() == size - 1);
  }
  bool associative = true;
  for (int a = 0; a < size; ++a)
    for (int b = 0; b < size; ++b)
      for (int c = 0; c < size; ++c) associative &= g.multiply(g.multiply(a, b), c) == g.multiply(a, g.multiply(b, c));
  CHECK(associative);
}

template <class G>
int check_translation(int size) {
  const G g{size};
  CAPTURE(size);
  int translatable = 0;
  for (int first = 0; first < size; ++first) {
    for (int stride = -size; stride <= size; ++stride) {
      std::set<int> blocks;
      for (int count = 1; count <= size; ++count) {
        const block_set set{first, stride, count};
        if (!blocks.insert(set.at(count - 1, size)).second) break;  // named twice
        if (!g.translatable(set)) continue;
        ++translatable;
        for (int a = 0; a < size; ++a) {
          std::set<int> expected, got;
          for (const int b : blocks) expected.insert(g.multiply(a, b));
          const block_set moved = g.translate(a, set);
          for (int i = 0; i < moved.count; ++i) got.insert(moved.at(i, size));
          if (got != expected) FAIL_CHECK("rank " << a << ", set " << first << ", " << stride << ", " << count);
        }
      }
    }
  }
  return translatable;
}

}  // namespace

TEST_CASE("groups are groups") {
  for (int size = 1; size <= 16; ++size) {
    check_laws<cyclic>(size);
    check_laws<grid>(size);
  }
  for (int size = 2; size <= 16; size += 2) check_laws<dihedral>(size);
  for (int size = 1; size <= 16; size *= 2) check_laws<exclusive_or>(size);
  for (int size = 8; size <= 24; size += 8) check_laws<mirrored_grid>(size);
  for (int size = 4; size <= 24; size += 4) check_laws<box>(size);
}

TEST_CASE("a block set moves as its blocks do") {
  for (int size = 1; size <= 9; ++size) CHECK(check_translation<cyclic>(size) >= size);
  for (int size = 2; size <= 10; size += 2) CHECK(check_translation<dihedral>(size) >= size);
  for (int size = 1; size <= 8; size *= 2) CHECK(check_translation<exclusive_or>(size) >= size);
  for (int size = 1; size <= 12; ++size) CHECK(check_translation<grid>(size) >= size);
  CHECK(check_translation<mirrored_grid>(8) >= 8);
  CHECK(check_translation<box>(16) >= 16);
}

TEST_CASE("a block is in a set however often that goes round") {
  for (const int size : {1, 2, 7, 10, 12}) {
    for (int first = 0; first < size; ++first) {
      for (int stride = -size + 1; stride < size; ++stride) {
        std::set<int> blocks;
        for (int count = 1; count <= size; ++count) {
          const block_set set{first, stride, count};
          if (!blocks.insert(set.at(count - 1, size)).second) break;
          for (int b = 0; b < size; ++b) CHECK(detail::contains(set, b, size) == blocks.contains(b));
        }
      }
    }
  }
}
