// SPDX-License-Identifier: BSL-1.0

// Simulated ranks that fail while communicators are made: the others are told, and nothing is left behind.

#include <tutti/collective/split.hpp>

#include <doctest/doctest.h>
#include <tutti/run_simulated.hpp>
#include <tutti/tutti.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "communicator/interrupted.hpp"
#include "communicator/outcome.hpp"
#include "counted_new.hpp"
#include "deadline.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using interrupted_simulated = interrupted<tutti::simulated>;
using comm_type = tutti::communicator<interrupted_simulated>;
static_assert(tutti::splitting_transport<interrupted_simulated>);

/// A duplicate that can be ended when one likes.
struct owned {
  explicit owned(comm_type& parent) : comm(parent.dup()) {}
  comm_type comm;
};

int sum(comm_type& comm, int value) {
  std::vector<int> values(1, value);
  tutti::allreduce<tutti::census>(comm, values, std::plus{});
  return values[0];
}

}  // namespace

TEST_CASE("a rank that fails at the end of a division is missed by those who have ended it, and leaves nothing") {
  const deadline limit{60s};
  // The others wait in what they have made when it fails, come to wait there later, or have left it.
  enum class others { wait, come, have_left };
  for (const others how : {others::wait, others::come, others::have_left}) {
    CAPTURE(static_cast<int>(how));
    const long before = live_allocations.load();
    {
      std::vector<outcome> ends(3);
      tutti::detail::ranks<interrupted_simulated> all(3, tutti::simulated_options{});
      tutti::detail::run_ranks(all, [&](comm_type& comm) {
        all.group.enter(comm.rank());
        auto pair = comm.split(comm.rank() / 2);
        outcome& mine = ends[static_cast<std::size_t>(comm.rank())];
        if (comm.rank() == 0) {
          std::unique_ptr<owned> part = std::make_unique<owned>(pair);
          if (how == others::come) comm.transport().spend(2);
          if (how == others::have_left) part.reset();
          if (part) mine = outcome_of([&] { tutti::barrier(part->comm); });
        } else if (comm.rank() == 1) {
          before_the_end = [&] {
            comm.transport().spend(1);
            throw std::runtime_error("no shoes");
          };
          mine = outcome_of([&] { const auto part = pair.dup(); });
        }
        CHECK(sum(comm, 1) == 3);
        auto again = comm.dup();
        CHECK(sum(again, 1) == 3);
      });
      CHECK(ends[1] == outcome{"other", "no shoes", -1});
      if (how != others::have_left) {
        CAPTURE(ends[0].text);
        CHECK(ends[0].kind == "peer_failed");
        CHECK(ends[0].peer == 1);
        CHECK(contains(ends[0].text, "rank 1 left while rank 0 "));
        CHECK(contains(ends[0].text, " of barrier by "));
      }
    }
    CHECK(live_allocations.load() == before);
  }
}
