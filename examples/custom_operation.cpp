// SPDX-License-Identifier: BSL-1.0
// An operation of your own, on a type of your own: products of 2x2 matrices. They associate but do not commute, so the
// library takes only algorithms that keep the order of the ranks; naming another, such as tutti::ring, does not
// compile.

#include <tutti/tutti.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

struct matrix {
  std::uint64_t a, b, c, d;  // rows (a b) and (c d), modulo 2^64
  friend bool operator==(const matrix&, const matrix&) = default;
};

constexpr auto product = [](matrix x, matrix y) {
  return matrix{x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
};

constexpr std::size_t elements = 1000;

std::vector<matrix> matrices_of(int rank) {
  std::vector<matrix> made;
  for (std::size_t i = 0; i < elements; ++i) made.push_back({i, static_cast<std::uint64_t>(rank) + 1, 1, i + 2});
  return made;
}

int main() {
  constexpr int ranks = 5;
  std::vector<matrix> expected = matrices_of(0);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<matrix> next = matrices_of(rank);
    for (std::size_t i = 0; i < elements; ++i) expected[i] = product(expected[i], next[i]);
  }

  std::vector<char> right(ranks);
  tutti::run(ranks, [&](auto& comm) {
    std::vector<matrix> chosen = matrices_of(comm.rank());
    std::vector<matrix> named = chosen;
    tutti::allreduce(comm, chosen, product);
    tutti::allreduce<tutti::recursive_doubling>(comm, named, product);
    right[static_cast<std::size_t>(comm.rank())] = chosen == expected && named == expected ? 1 : 0;
  });
  for (int rank = 0; rank < ranks; ++rank) {
    std::printf("rank %d: %s\n", rank, right[static_cast<std::size_t>(rank)] ? "right" : "WRONG");
  }
  return right == std::vector<char>(ranks, 1) ? 0 : 1;
}
