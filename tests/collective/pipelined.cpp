// SPDX-License-Identifier: BSL-1.0

// Long vectors travel in several segments, by the same definition that is proved.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "collective/conformance.hpp"
#include "deadline.hpp"

namespace {

using namespace conformance;
using tutti::collective;

// Long enough for several segments where ranks take turns on a core, and no multiple of any number of them.
constexpr std::size_t length = 200'009;

using vector = std::vector<std::uint32_t>;

std::uint32_t value(int rank, std::size_t i) {
  return static_cast<std::uint32_t>(i) * 2654435761U + static_cast<std::uint32_t>(rank) * 40503U;
}
vector values(int rank) {
  vector result(length);
  for (std::size_t i = 0; i < length; ++i) result[i] = value(rank, i);
  return result;
}
/// Modulo 2^32, of the ranks below `end`.
vector sum(int end) {
  vector result(length, 0);
  for (int rank = 0; rank < end; ++rank) {
    for (std::size_t i = 0; i < length; ++i) result[i] += value(rank, i);
  }
  return result;
}

template <collective C, class A>
void check_segments(auto& comm, findings& found) {
  using S = tutti::schedule_for<C, A>;
  const auto chosen = tutti::detail::schedule_of_call<S>(comm, 0, length, length * sizeof(std::uint32_t));
  found.check(comm.size() <= 2 || chosen.segments > 1, "the vector travels in one segment");
}

template <class A>
void check(auto& comm, findings& found) {
  const int ranks = comm.size();
  const vector all = sum(ranks);
  const vector mine = values(comm.rank());
  for (const int root : {0, ranks / 2, ranks - 1}) {
    found.about("broadcast<", tutti::name_of<A>(), "> from ", root);
    check_segments<collective::broadcast, A>(comm, found);
    vector data = comm.rank() == root ? values(root) : vector(length);
    tutti::broadcast<A>(comm, data, root);
    found.check(data == values(root), "wrong values");

    found.about("reduce<", tutti::name_of<A>(), "> to ", root);
    check_segments<collective::reduce, A>(comm, found);
    vector out(length);
    tutti::reduce<A>(comm, mine, out, std::plus<>{}, root);
    found.check(out == (comm.rank() == root ? all : vector(length)), "wrong values");
  }
  found.about("allreduce<", tutti::name_of<A>(), ">");
  check_segments<collective::allreduce, A>(comm, found);
  vector data = mine;
  tutti::allreduce<A>(comm, data, std::plus<>{});
  found.check(data == all, "wrong values");

  if constexpr (tutti::implements<A, collective::scan>) {
    found.about("scan<", tutti::name_of<A>(), ">");
    check_segments<collective::scan, A>(comm, found);
    vector out(length);
    tutti::scan<A>(comm, mine, out, std::plus<>{});
    found.check(out == sum(comm.rank() + 1), "wrong values");

    found.about("exscan<", tutti::name_of<A>(), ">");
    check_segments<collective::exscan, A>(comm, found);
    data = mine;
    tutti::exscan<A>(comm, data, std::plus<>{});
    found.check(data == sum(comm.rank()), "wrong values");
  }
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("long vectors travel in segments", Launcher, in_segments) {
  for (const int ranks : {2, 3, 5, 8}) {
    on_ranks<Launcher>(ranks, [](auto& comm, findings& found) {
      check<tutti::chain>(comm, found);
      check<tutti::two_tree>(comm, found);
      check<tutti::circulant_pipelined>(comm, found);
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(in_segments, launchers);
