// SPDX-License-Identifier: BSL-1.0

// A rank's function throws while a collective is pending on ranks of two hosts.

#include "communicator/unwinding.hpp"
#include "transport/hierarchical_job.hpp"

#include "deadline.hpp"

#include <doctest/doctest.h>

#include <sys/types.h>
#include <vector>

using namespace test;

namespace {

template <class F>
process_outcomes outcomes_of(const std::vector<int>& where, F&& work) {
  return outcomes_of_hosts_processes(
      where, [&](hierarchical_comm& comm, rank_report& mine) { work(comm, mine); }, [](const std::vector<pid_t>&) {});
}

/// Two hosts that share the ranks in turns: halves of neighbours are on both.
std::vector<int> on_two_hosts(int ranks) {
  std::vector<int> where;
  for (int rank = 0; rank < ranks; ++rank) where.push_back(rank / 2 == 0 ? rank % 2 : 1 - rank % 2);
  return where;
}

}  // namespace

TEST_CASE("an exception that passes a pending collective of two hosts is what all hear of") {
  const alarm_limit limit(sanitized ? 400 : 100);
  check_all_unwindings(100, [](const unwinding& u) {
    return outcomes_of(u.flat ? on_two_hosts(u.ranks) : std::vector<int>(static_cast<std::size_t>(u.ranks)),
                       [&u](hierarchical_comm& comm, rank_report& mine) { throw_past_pending(comm, mine, u); });
  });
}

TEST_CASE("a rank of two hosts that catches what has passed a pending collective fails its communicator") {
  const alarm_limit limit(60);
  for (const std::vector<int>& where : {std::vector<int>{0, 1, 1}, std::vector<int>{0, 1, 0}})
    check_all_caught([&](int, auto&& work) { return outcomes_of(where, work); });
}
