// SPDX-License-Identifier: BSL-1.0
// An algorithm of your own: a route, which the compiler proves and from which the library derives the collectives.

#include <tutti/tutti.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string_view>
#include <vector>

/// Like `circulant`, rank x talks to rank x + t and the distance t about halves from round to round; but no message
/// holds more than three blocks, so that little scratch memory is needed. In the round that brings s blocks down to t,
/// blocks t to s - 1 (counted from the sender) go to rank x + t, for which they are blocks 0 to s - t - 1.
struct frugal {
  static constexpr std::string_view name = "frugal";
  static constexpr int next(int s) { return std::max((s + 1) / 2, s - 3); }
  static constexpr int rounds(int size) { return size > 1 ? 1 + rounds(next(size)) : 0; }
  static constexpr tutti::hop entry(int size, int k) {
    if (k > 0) return entry(next(size), k - 1);
    return {next(size), {next(size), 1, size - next(size)}};
  }
};
static_assert(tutti::proved<frugal, 1, 64>, "every contribution arrives exactly once, on up to 64 ranks");

/// The same, but its first message forgets a block. The compiler finds out.
struct forgetful : frugal {
  static constexpr tutti::hop entry(int size, int k) {
    const auto [by, what] = frugal::entry(size, k);
    return {by, {what.first, what.stride, k == 0 ? what.count - 1 : what.count}};
  }
};
static_assert(!tutti::valid_route<forgetful>(8));

int main() {
  constexpr int ranks = 7;
  bool right = true;
  tutti::run(ranks, [&](auto& comm) {
    std::vector<int> data(100, comm.rank() + 1);
    tutti::allreduce<frugal>(comm, data, std::plus<>{});  // its reduce_scatter, then its allgather
    const bool sums = data == std::vector<int>(100, ranks * (ranks + 1) / 2);

    std::vector<int> out(ranks), in(ranks, comm.rank());
    tutti::alltoall<frugal>(comm, in, out);
    bool exchanged = true;
    for (int peer = 0; peer < ranks; ++peer) exchanged = exchanged && out[static_cast<std::size_t>(peer)] == peer;

    std::vector<int> all_right{sums && exchanged};
    tutti::reduce(comm, all_right, std::logical_and<>{}, 0);
    if (comm.rank() == 0) right = all_right.front() != 0;
  });
  std::printf("%s on %d ranks in %d rounds: %s\n", frugal::name.data(), ranks, frugal::rounds(ranks),
              right ? "right" : "WRONG");
  return right ? 0 : 1;
}
