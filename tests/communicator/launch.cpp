// SPDX-License-Identifier: BSL-1.0

// The threads of a run: how they begin, and whose exception comes out in the end.

#include <tutti/communicator/launch.hpp>
#include <tutti/run.hpp>

#include "deadline.hpp"

#include <doctest/doctest.h>

#include <pthread.h>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>

#include "communicator/outcome.hpp"

using namespace test;
using namespace std::chrono_literals;

namespace {

const auto ignore = [](int, const char*) {};
const auto nobody = [] { return -1; };

}  // namespace

TEST_CASE("each rank has a thread of its own, and all have ended when the call returns") {
  const deadline limit(60s);
  std::atomic<int> ended{0};
  std::thread::id ids[20];
  tutti::detail::run_threads(
      20,
      [&](int rank) {
        ids[rank] = std::this_thread::get_id();
        std::this_thread::sleep_for(1ms);
        ++ended;
      },
      ignore, nobody);
  CHECK(ended == 20);
  for (const auto id : ids) CHECK((id != std::thread::id{} && id != std::this_thread::get_id()));
}

TEST_CASE("the exception that came first is rethrown, or that of the culprit") {
  const deadline limit(60s);
  for (const int culprit : {-1, 0, 1, 2}) {
    CAPTURE(culprit);
    std::atomic<int> told{0};
    const outcome end = outcome_of([&] {
      tutti::detail::run_threads(
          3,
          [&](int rank) {
            if (rank == 2) return;
            if (rank == 0)
              while (told == 0) std::this_thread::yield();
            throw std::runtime_error("rank " + std::to_string(rank));
          },
          [&](int, const char* what) {
            CHECK(std::string(what).starts_with("rank "));
            ++told;
          },
          [&] { return culprit; });
    });
    CHECK(told == 2);
    CHECK(end.text == (culprit == 0 ? "rank 0" : "rank 1"));
  }
}

TEST_CASE("what is thrown need not be a std::exception") {
  const deadline limit(60s);
  std::string told;
  CHECK_THROWS_AS(tutti::detail::run_threads(
                      2,
                      [](int rank) {
                        if (rank == 1) throw 42;
                      },
                      [&](int, const char* what) { told = what; }, nobody),
                  int);
  CHECK(told == "an exception that is no std::exception");
}

#if defined(__GLIBC__)
TEST_CASE("threads that the system refuses are an error") {
  const deadline limit(60s);
  pthread_attr_t before;
  REQUIRE(pthread_getattr_default_np(&before) == 0);
  pthread_attr_t too_large = before;
  REQUIRE(pthread_attr_setstacksize(&too_large, std::size_t{1} << 50) == 0);
  REQUIRE(pthread_setattr_default_np(&too_large) == 0);
  std::atomic<int> called{0};
  const outcome end = outcome_of([&] { tutti::run(4, [&](auto&) { ++called; }); });
  CHECK(pthread_setattr_default_np(&before) == 0);
  CHECK(end.kind == "resource_error");
  CHECK(contains(end.text, "run: the system refused thread 0 of 4: "));
  CHECK(called == 0);
}
#endif

TEST_CASE("what ranks write at every call lies in no pair of cache lines with what others write") {
  const deadline limit(60s);
  std::atomic<std::uintptr_t> first[5] = {};
  std::size_t bytes = 0;
  tutti::run(5, [&](auto& comm) {
    first[comm.rank()] = reinterpret_cast<std::uintptr_t>(&comm);
    if (comm.rank() == 0) bytes = sizeof comm;
  });
  constexpr std::uintptr_t pair = tutti::detail::apart_bytes;
  for (const auto& one : first)
    for (const auto& other : first)
      if (&one != &other) CHECK((one / pair > (other + bytes - 1) / pair || other / pair > (one + bytes - 1) / pair));
}
