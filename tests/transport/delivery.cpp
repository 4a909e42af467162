// SPDX-License-Identifier: BSL-1.0

// Which way messages go that the other rank cannot read where they are: the one that takes the least time.

#include <tutti/transport/shared_memory/delivery.hpp>

#include <tutti/tutti.hpp>

#include "transport/processes_run.hpp"

#include "deadline.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

using std::chrono::nanoseconds;
using tutti::detail::delivery;
using tutti::detail::delivery_choice;

namespace {

/// What each way takes for a message, and how many went that way.
struct ways {
  std::int64_t sender[3];
  std::int64_t receiver[3];

  std::int64_t both(delivery way) const { return sender[static_cast<int>(way)] + receiver[static_cast<int>(way)]; }
};

/// A sender and a receiver that take as long as is said.
struct pair {
  delivery_choice choice;
  std::atomic<std::uint64_t> report{0};
  std::uint32_t timed = 0;
  std::int64_t spent = 0;
  std::int64_t sent = 0;
  int interrupted_every = 0;

  delivery send(std::size_t bytes, bool readable, const ways& take) {
    const auto [way, to_time] = choice.next(bytes, readable, report);
    std::int64_t sender = take.sender[static_cast<int>(way)];
    ++sent;
    if (interrupted_every != 0 && sent % interrupted_every == 0) sender *= 1000;
    spent += sender + take.receiver[static_cast<int>(way)];
    if (to_time) {
      choice.sent(way, bytes, nanoseconds(sender));
      report.store(delivery_choice::report(++timed, nanoseconds(take.receiver[static_cast<int>(way)])));
    }
    return way;
  }
  /// The way that most of so many messages go.
  delivery most(int messages, std::size_t bytes, bool readable, const ways& take) {
    int went[3] = {};
    for (int i = 0; i < messages; ++i) ++went[static_cast<int>(send(bytes, readable, take))];
    for (const delivery way : {delivery::streamed, delivery::read})
      if (went[static_cast<int>(way)] > messages / 2) return way;
    return delivery::cached;
  }
};

constexpr std::size_t large = std::size_t{1} << 17;
constexpr int settling = 1000;  // messages until all ways are known
// As between processors that share a cache, and between such as do not.
constexpr ways near{{8'400, 2'400, 0}, {3'600, 10'000, 15'000}};
constexpr ways far{{54'000, 2'400, 0}, {8'400, 10'000, 15'000}};
constexpr ways by_kernel{{8'400, 12'400, 0}, {8'600, 10'000, 6'000}};

}  // namespace

TEST_CASE("messages go the way that takes sender and receiver together the least time") {
  CHECK(pair().most(settling, large, true, near) == delivery::cached);
  CHECK(pair().most(settling, large, true, far) == delivery::streamed);
  CHECK(pair().most(settling, large, true, by_kernel) == delivery::read);
}

TEST_CASE("no message is read that cannot be, or that is not worth it") {
  pair one;
  for (int i = 0; i < 50'000; ++i) {
    const bool readable = i % 3 == 0;
    const std::size_t bytes = i % 2 == 0 ? large : delivery_choice::least_read - 1;
    const delivery way = one.send(bytes, readable, by_kernel);
    if (!readable || bytes < delivery_choice::least_read) REQUIRE(way != delivery::read);
  }
}

TEST_CASE("who is about to try reading and then sends nothing that can be read tries the copies again") {
  for (int readable = 0; readable < 100; ++readable) {
    pair one;
    one.most(readable, large, true, near);
    one.most(3 * settling, large, false, near);
    one.most(3 * settling, large, false, far);
    CHECK(one.most(settling, large, false, far) == delivery::streamed);
  }
}

TEST_CASE("small messages are written as memory is, and none of them is timed") {
  pair one;
  for (int i = 0; i < 10'000; ++i) REQUIRE(one.send(delivery_choice::least_bytes - 1, true, far) == delivery::cached);
  CHECK(one.timed == 0);
}

TEST_CASE("what is tried now and then costs little, though it is ten times as bad") {
  for (const ways& take : {near, far, by_kernel, ways{{5'000, 1'000, 50'000}, {4'000, 100'000, 50'000}}}) {
    pair one;
    one.most(settling, large, true, take);
    one.spent = 0;
    constexpr int messages = 200'000;
    const delivery best = one.most(messages, large, true, take);
    CHECK(static_cast<double>(one.spent) < 1.04 * static_cast<double>(messages * take.both(best)));
  }
}

TEST_CASE("a rank that moves to another processor changes the way, and back") {
  pair one;
  CHECK(one.most(settling, large, true, near) == delivery::cached);
  one.most(2 * settling, large, true, far);
  CHECK(one.most(settling, large, true, far) == delivery::streamed);
  one.most(25 * settling, large, true, near);
  CHECK(one.most(settling, large, true, near) == delivery::cached);
}

TEST_CASE("a way that is better by a little is not chosen, and one that was chosen stays a little longer") {
  constexpr ways little{{10'000, 3'000, 0}, {3'000, 7'000, 15'000}};
  constexpr ways less{{9'500, 3'000, 0}, {3'000, 7'000, 15'000}};
  pair one;
  CHECK(one.most(settling, large, true, little) == delivery::cached);
  one.most(2 * settling, large, true, far);
  CHECK(one.most(settling, large, true, little) == delivery::streamed);
  CHECK(one.most(25 * settling, large, true, less) == delivery::streamed);
}

TEST_CASE("ranks that are interrupted choose as others do") {
  for (const int every : {4, 7, 30}) {
    pair one;
    one.interrupted_every = every;
    one.most(settling, large, true, far);
    for (int i = 0; i < 30; ++i) REQUIRE(one.most(settling, large, true, far) == delivery::streamed);
    pair other;
    other.interrupted_every = every;
    other.most(settling, large, true, near);
    for (int i = 0; i < 30; ++i) REQUIRE(other.most(settling, large, true, near) == delivery::cached);
  }
}

TEST_CASE("each size has its own way") {
  pair one;
  for (int i = 0; i < 3 * settling; ++i) {
    one.send(2000, false, near);
    one.send(large, false, far);
  }
  CHECK(one.most(100, 2000, false, near) == delivery::cached);
  CHECK(one.most(100, large, false, far) == delivery::streamed);
}

TEST_CASE("each size of results has its own way") {
  delivery_choice choice;
  std::atomic<std::uint64_t> report{0};
  std::uint32_t timed = 0;
  // Those of the least size are best left in the caches, the next ones are not.
  constexpr std::size_t least = delivery_choice::least_result;
  const auto compute = [&](std::size_t bytes) {
    const auto [way, to_time] = choice.next_result(bytes, report);
    if (to_time) {
      const bool is_best = (way == delivery::streamed) == (bytes >= 4 * least);
      choice.sent(way, bytes, nanoseconds(is_best ? bytes / 64 : bytes / 4));
      report.store(delivery_choice::report(++timed, nanoseconds(0)));
    }
    return way;
  };
  constexpr std::size_t sizes[] = {least, 4 * least - 1, 4 * least, 64 * least, std::size_t{1} << 40};
  for (int i = 0; i < settling; ++i)
    for (const std::size_t bytes : sizes) compute(bytes);
  for (const std::size_t bytes : sizes) {
    CAPTURE(bytes);
    int streamed = 0;
    for (int i = 0; i < 100; ++i) streamed += compute(bytes) == delivery::streamed;
    CHECK((streamed > 90) == (bytes >= 4 * least));
    CHECK((streamed < 10) == (bytes < 4 * least));
  }
}

TEST_CASE("a message that could not be sent is tried again, and a report that is late is waited for") {
  delivery_choice choice;
  const std::atomic<std::uint64_t> none{0};
  int to_time = 0;
  for (int i = 0; i < 100; ++i) to_time += choice.next(large, false, none).timed ? 1 : 0;
  CHECK(to_time > 90);
  choice.sent(delivery::cached, large, nanoseconds(1));
  for (int i = 0; i < 1000; ++i) REQUIRE(!choice.next(large, false, none).timed);
  const std::atomic<std::uint64_t> told{delivery_choice::report(1, nanoseconds(1))};
  CHECK(choice.next(large, false, told).timed);
}

TEST_CASE("a message that was to be timed and has not been sent is forgotten") {
  delivery_choice choice;
  const std::atomic<std::uint64_t> none{0};
  while (!choice.next_result(large, none).timed) continue;
  choice.sent(delivery::cached, large, nanoseconds(1));
  REQUIRE(!choice.next_result(large, none).timed);
  choice.not_sent();
  REQUIRE(choice.next_result(large, none).timed);
  choice.sent(delivery::cached, large, nanoseconds(1));
  const std::atomic<std::uint64_t> told{delivery_choice::report(1, nanoseconds(1))};
  CHECK(choice.next_result(large, told).timed);
}

TEST_CASE("a time that no number holds is the longest one") {
  const std::uint64_t report = delivery_choice::report(3, std::chrono::hours(1'000));
  CHECK((report >> 32) == 3);
  CHECK((report & UINT32_MAX) == INT32_MAX);
}

TEST_CASE("two processes tell each other how long they take, in channels and on boards, and lose nothing") {
  const test::alarm_limit limit(test::sanitized ? 240 : 60);
  const auto ended = test::outcomes_of_processes(2, [](test::process_communicator& comm, test::rank_report&) {
    auto& group = comm.transport().group();
    const auto told = [&] { return group.connect(0, comm.rank(), 1 - comm.rank()).report.load() >> 32; };
    const auto check = [&]<class A>(auto data) {
      const std::uint64_t before = told();
      const std::size_t count = data.size();
      for (int call = 0; call < 1500; ++call) {
        for (std::size_t i = 0; i < count; i += 97) data[i] = call + static_cast<int>(i) + comm.rank();
        tutti::allreduce<A>(comm, data, std::plus{});
        for (std::size_t i = 0; i < count; i += 97)
          if (data[i] != 2 * (call + static_cast<int>(i)) + 1) throw std::logic_error("a wrong sum");
      }
      if (told() == before)
        throw std::logic_error("nothing was timed of " + std::to_string(count) + " by " +
                               std::string(tutti::name_of<A>()));
    };
    for (const std::size_t count : {600U, 5'000U, 40'000U}) {
      check.operator()<tutti::naive>(std::vector<int>(count));
      check.operator()<tutti::recursive_doubling>(std::vector<int>(count));
      check.operator()<tutti::flat>(std::vector<int>(count));
    }
    // Sums that the other reads where they are computed.
    check.operator()<tutti::flat>(comm.allocate<int>(2 * delivery_choice::least_result / sizeof(int) + 5));
  });
  CHECK(ended.run == test::outcome{});
}

TEST_CASE("large sums of two threads are right whichever way what the other reads is written") {
  const test::alarm_limit limit(test::sanitized ? 240 : 60);
  SUBCASE("by choice") { delivery_choice::forced.reset(); }
  SUBCASE("cached") { delivery_choice::forced = delivery::cached; }
  SUBCASE("streamed") { delivery_choice::forced = delivery::streamed; }
  const auto sum = [](std::size_t count, int calls) {
    tutti::run(2, [&](auto& comm) {
      std::vector<int> data(count);
      for (int call = 0; call < calls; ++call) {
        for (std::size_t i = 0; i < count; i += 97) data[i] = call + static_cast<int>(i) + comm.rank();
        if (call % 4 == 0) {
          tutti::allreduce<tutti::naive>(comm, data, std::plus{});
        } else if (call % 4 == 1 && comm.rank() == 0) {
          std::vector<int> sums(count);
          tutti::allreduce<tutti::flat>(comm, data, sums, std::plus{});
          data.swap(sums);
        } else if (call % 4 == 1) {
          tutti::allreduce<tutti::flat>(comm, data, std::plus{});
        } else {
          tutti::allreduce<tutti::halving_doubling>(comm, data, std::plus{});
        }
        for (std::size_t i = 0; i < count; i += 97)
          if (data[i] != 2 * (call + static_cast<int>(i)) + 1) throw std::logic_error("a wrong sum");
      }
    });
  };
  CHECK_NOTHROW(sum(tutti::streaming_bytes(2) / sizeof(int) + 5, test::sanitized ? 8 : 40));
  CHECK_NOTHROW(sum(2 * delivery_choice::least_result / sizeof(int) + 5, 40));
  delivery_choice::forced.reset();
}
