// SPDX-License-Identifier: BSL-1.0

// A rank looks for a message before its sender has come: what they can do with each other's memory does not depend on
// who came first.

#include <tutti/transport/processes.hpp>

#include "child_process.hpp"

#include <doctest/doctest.h>

#include <unistd.h>
#include <chrono>
#include <cstddef>
#include <cstdlib>

using tutti::detail::processes_group;
using tutti::detail::processes_lane;

namespace {

constexpr tutti::call_signature signature{"test", "by hand", "std::byte", "", 1};
const tutti::call the_call{&signature, 1, 0, 8, -1, {}};

}  // namespace

TEST_CASE("a receiver that came before its sender reads the sender's memory if it can") {
  const test::alarm_limit limit(30);
  const std::chrono::nanoseconds for_ever{0};
  processes_group group(2);
  group.attach(0);
  processes_lane lane(group, 0, 0, for_ever);
  lane.open(the_call);
  lane.begin_round();
  REQUIRE(lane.view(1, 8) == nullptr);
  test::channel until_read;
  const pid_t sender = fork();
  if (sender < 0) std::abort();
  if (sender == 0) {
    test::take_signals_by_default();
    until_read.close_writer();
    group.attach(1);
    processes_lane of_sender(group, 1, 0, for_ever);
    of_sender.open(the_call);
    of_sender.begin_round();
    const std::byte data[8] = {};
    of_sender.send(0, data, sizeof data, true);
    until_read.wait();
    _exit(0);
  }
  while (lane.view(1, 8) == nullptr) lane.idle();
  lane.awake();
  lane.release(1);
  CHECK(group.connect(0, 1, 0).reads.load() == group.can_read(1));
  until_read.close_writer();
  CHECK(test::await_end(sender) == 0);
}
