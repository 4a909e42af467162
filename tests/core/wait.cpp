// SPDX-License-Identifier: BSL-1.0
#include <tutti/core/wait.hpp>

#include <doctest/doctest.h>

#if defined(__linux__)
#include <sched.h>
#endif
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

TEST_CASE("ranks that have a core each spin, others give way soon") {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (cores == 0) return;
  const auto alone = tutti::wait_policy::for_ranks(1);
  const auto fitting = tutti::wait_policy::for_ranks(cores);
  const auto crowded = tutti::wait_policy::for_ranks(cores + 1);
  CHECK(alone.patience == fitting.patience);
  CHECK(fitting.patience > crowded.patience);
  CHECK(fitting.spins > crowded.spins);
  CHECK(crowded.spins >= 0);
  CHECK(crowded.yields >= 0);
}

TEST_CASE("processors are counted that this thread may use") {
  CHECK(tutti::usable_processors() >= 1);
#if defined(__linux__)
  CHECK(tutti::usable_processors() == static_cast<int>(std::thread::hardware_concurrency()));
  std::thread([] {
    cpu_set_t usable;
    REQUIRE(sched_getaffinity(0, sizeof usable, &usable) == 0);
    int one = 0;
    while (!CPU_ISSET(one, &usable)) ++one;
    CPU_ZERO(&usable);
    CPU_SET(one, &usable);
    REQUIRE(sched_setaffinity(0, sizeof usable, &usable) == 0);
    CHECK(tutti::usable_processors() == 1);
    CHECK(tutti::wait_policy::for_ranks(1).crowded == false);
    CHECK(tutti::wait_policy::for_ranks(2).crowded == true);
  }).join();
#endif
}

TEST_CASE("a sleeper that nobody rings wakes at its limit") {
  tutti::doorbell bell;
  const auto before = clock_type::now();
  for (int naps = 0; naps < 20; ++naps) bell.sleep(bell.prepare(), 1ms);
  const auto slept = clock_type::now() - before;
  // Without the asymmetric fence naps are cut short, on purpose.
  if (tutti::asymmetric_fence::available()) CHECK(slept >= 15ms);
  CHECK(slept < 20s);
}

TEST_CASE("who is rung between looking and sleeping does not sleep") {
  tutti::doorbell bell;
  const std::uint32_t seen = bell.prepare();
  bell.ring();
  const auto before = clock_type::now();
  bell.sleep(seen, 60s);
  CHECK(clock_type::now() - before < 30s);
}

TEST_CASE("a ring for somebody awake costs nothing and is forgotten") {
  tutti::doorbell bell;
  bell.ring();
  bell.prepare();
  bell.cancel();
  bell.ring();
  const std::uint32_t seen = bell.prepare();
  const auto before = clock_type::now();
  bell.sleep(seen, 2ms);
  CHECK(clock_type::now() - before >= (tutti::asymmetric_fence::available() ? 1ms : 0ms));
}

TEST_CASE("no ring is lost: two threads hand a turn to and fro and sleep in between") {
  constexpr int turns = 4000;
  tutti::doorbell bells[2];
  std::atomic<int> turn{0};
  std::atomic<bool> late{false};
  const auto play = [&](int me) {
    for (int mine = me; mine < turns; mine += 2) {
      while (turn.load(std::memory_order_acquire) != mine) {
        const std::uint32_t seen = bells[me].prepare();
        if (turn.load(std::memory_order_acquire) == mine) {
          bells[me].cancel();
          break;
        }
        const auto before = clock_type::now();
        bells[me].sleep(seen, 20s);
        if (clock_type::now() - before > 15s) late = true;
      }
      turn.store(mine + 1, std::memory_order_release);
      bells[1 - me].ring();
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  CHECK(turn == turns);
  CHECK_FALSE(late);
}
