// SPDX-License-Identifier: BSL-1.0

// Time under the virtual clock is what the model says, and a run is the same every time.

#include "transport/simulated.hpp"
#include "deadline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

using namespace test;
using namespace std::chrono_literals;
using kind = tutti::simulated_event_kind;

namespace {

using communicator = simulated_communicator;

constexpr tutti::network net{
    .latency = 2e-6, .overhead = 100e-9, .gap = 30e-9, .byte = 1e-10, .fold = 25e-12, .ports = 1};
constexpr double o = net.overhead;
constexpr double L = net.latency;
/// How long a message of n bytes keeps a port busy.
constexpr double port(std::size_t bytes) { return net.gap + static_cast<double>(bytes) * net.byte; }
constexpr double folding(std::size_t bytes) { return static_cast<double>(bytes) * net.fold; }
/// From the call of the sender until the receiver has it, on idle ports.
constexpr double message(std::size_t bytes) { return o + port(bytes) + L + o; }

template <class F>
double makespan(int ranks, F&& f, tutti::network on = net) {
  return tutti::run_simulated(ranks, {.net = on}, f).makespan;
}

/// Up to the rounding of each span to a picosecond.
void check_time(double got, double expected) {
  CAPTURE(got);
  CAPTURE(expected);
  CHECK(std::abs(got - expected) <= 100e-12);
}

}  // namespace

TEST_CASE("one message takes two overheads, a latency, a gap and its bytes") {
  const deadline limit(60s);
  for (const std::size_t bytes : {0U, 1U, 8U, 1000U, 1024U, 1025U, 1000000U}) {
    CAPTURE(bytes);
    std::array<double, 2> done{};
    check_time(makespan(2,
                        [&](communicator& comm) {
                          std::vector<char> data(bytes);
                          tutti::broadcast<tutti::binomial>(comm, data, 0);
                          done[static_cast<std::size_t>(comm.rank())] = comm.transport().now();
                        }),
               message(bytes));
    check_time(done[1], message(bytes));
    // A large message is read where it lies, and leaves its memory when its last byte has left.
    check_time(done[0], bytes <= tutti::simulated::copy_bytes ? o : o + port(bytes));
  }
}

TEST_CASE("ports send and receive so many messages at a time") {
  const deadline limit(60s);
  constexpr std::size_t bytes = 10000;
  static_assert(port(bytes) > 4 * o);
  for (const int ports : {1, 2, 3, 4, 9}) {
    CAPTURE(ports);
    tutti::network on = net;
    on.ports = ports;
    // Of four messages from one rank the k-th waits for the port that the first have left; it must be there first.
    std::array<double, 5> free{};
    double last = 0;
    for (int k = 0; k < 4; ++k) {
      double& first = *std::min_element(free.begin(), free.begin() + std::min(ports, 5));
      first = std::max(first, (k + 1) * o) + port(bytes);
      last = std::max(last, first);
    }
    check_time(makespan(
                   5,
                   [&](communicator& comm) {
                     std::vector<char> data(bytes);
                     tutti::broadcast<tutti::single_master>(comm, data, 0);
                   },
                   on),
               last + L + o);
    // Four messages to one rank come at the same time and queue up for its ports; it takes them in in rank order.
    const int turns = (4 + ports - 1) / ports;
    const double gathered = makespan(
        5,
        [&](communicator& comm) {
          std::vector<char> all(5 * bytes);
          tutti::gather<tutti::single_master>(comm, std::vector<char>(bytes), all, 0);
        },
        on);
    CAPTURE(gathered);
    CHECK(gathered >= o + L + turns * port(bytes) + o - 1e-10);
    CHECK(gathered <= o + L + turns * port(bytes) + 4 * o + 1e-10);
  }
}

TEST_CASE("whole collectives take the time that is written of them") {
  const deadline limit(60s);
  for (const int ranks : {2, 3, 4, 8}) {
    CAPTURE(ranks);
    const auto p = static_cast<std::size_t>(ranks);
    for (const std::size_t each : {1U, 100U, 5000U}) {
      CAPTURE(each);
      const std::size_t bytes = each * sizeof(float);
      const auto allreduce = [&]<class A>() {
        return makespan(ranks, [&](communicator& comm) {
          std::vector<float> data(each * p, 1.0F);
          tutti::allreduce<A>(comm, data, std::plus{});
          CHECK(data.back() == static_cast<float>(ranks));
        });
      };
      check_time(allreduce.template operator()<tutti::ring>(), (ranks - 1) * (2 * message(bytes) + folding(bytes)));
      int q = 0;
      while (1 << q < ranks) ++q;
      if (1 << q == ranks) {
        check_time(allreduce.template operator()<tutti::recursive_doubling>(),
                   q * (message(p * bytes) + folding(p * bytes)));
        double halves = 0;
        for (std::size_t half = p / 2; half >= 1; half /= 2)
          halves += 2 * message(half * bytes) + folding(half * bytes);
        check_time(allreduce.template operator()<tutti::halving_doubling>(), halves);
      }
      check_time(makespan(ranks,
                          [&](communicator& comm) {
                            std::vector<float> all(each * p);
                            tutti::allgather<tutti::ring>(comm, all);
                          }),
                 (ranks - 1) * message(bytes));
      check_time(makespan(ranks, [](communicator& comm) { tutti::barrier<tutti::dissemination>(comm); }),
                 q * message(0));
    }
  }
}

TEST_CASE("messages and bytes are those that are counted from the schedule") {
  const deadline limit(60s);
  for (const int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    const auto check = [&]<class A>() {
      if (!tutti::supports<A>(ranks)) return;
      const auto counted = tutti::count(tutti::schedule_for<tutti::collective::allreduce, A>{}, ranks);
      const auto report = tutti::run_simulated(ranks, {.net = net}, [&](communicator& comm) {
        std::vector<float> data(static_cast<std::size_t>(100 * ranks));
        tutti::allreduce<A>(comm, data, std::plus{});
      });
      CHECK(report.messages == static_cast<std::uint64_t>(counted.messages));
      const int blocks = tutti::schedule_for<tutti::collective::allreduce, A>{}.blocks(ranks);
      CHECK(report.bytes == static_cast<std::uint64_t>(counted.volume * 400 * ranks / blocks));
    };
    check.template operator()<tutti::ring>();
    check.template operator()<tutti::pat>();
    check.template operator()<tutti::circulant>();
    check.template operator()<tutti::hypercube_halving>();
    check.template operator()<tutti::recursive_doubling>();
    check.template operator()<tutti::single_master>();
  }
}

TEST_CASE("what a rank spends passes, for it and for those who wait for it") {
  const deadline limit(60s);
  std::array<double, 3> done{};
  tutti::run_simulated(3, {.net = net}, [&](communicator& comm) {
    CHECK(comm.transport().now() == 0.0);
    if (comm.rank() == 1) comm.transport().spend(1.5);
    CHECK(comm.transport().now() == (comm.rank() == 1 ? 1.5 : 0.0));
    tutti::barrier<tutti::dissemination>(comm);
    done[static_cast<std::size_t>(comm.rank())] = comm.transport().now();
  });
  for (const double t : done) {
    CHECK(t >= 1.5 + message(0) - o);
    CHECK(t <= 1.5 + 2 * message(0));
  }
}

TEST_CASE("one rank at a time runs, and the one that is earliest") {
  const deadline limit(60s);
  std::vector<std::pair<double, int>> order;  // not locked, nor need it be
  tutti::run_simulated(5, {}, [&](communicator& comm) {
    for (int step = 0; step < 20; ++step) {
      comm.transport().spend(1e-6 * (1 + (step * 7 + comm.rank() * 3) % 5));
      order.emplace_back(comm.transport().now(), comm.rank());
    }
  });
  CHECK(order.size() == 100);
  CHECK(std::is_sorted(order.begin(), order.end(), [](auto a, auto b) { return a.first < b.first; }));
}

namespace {

/// Something of everything; its results are checked.
void program(communicator& comm) {
  const int p = comm.size();
  for (int round = 0; round < 3; ++round) {
    std::vector<int> sum(50, comm.rank());
    tutti::allreduce<tutti::circulant>(comm, sum, std::plus{});
    CHECK(sum == std::vector<int>(50, p * (p - 1) / 2));
    std::vector<int> first(600, comm.rank());
    auto one = tutti::iallreduce<tutti::ring>(comm, first, std::plus{});
    std::vector<int> second(7, comm.rank());
    auto other = tutti::iallreduce<tutti::naive>(comm, second, tutti::maximum{});
    std::vector<int> data(300, comm.rank() == round ? 5 : 0);
    tutti::broadcast(comm, data, round);
    CHECK(data == std::vector<int>(300, 5));
    while (!other.test()) comm.transport().spend(1e-7);
    CHECK(second == std::vector<int>(7, p - 1));
    one.wait();
    CHECK(first == std::vector<int>(600, p * (p - 1) / 2));
    tutti::barrier(comm);
  }
}

const tutti::simulated_options rough{
    .seed = 3, .jitter = 3e-6, .reorder = {.probability = 0.2, .delay = 40e-6}, .record = true};

}  // namespace

TEST_CASE("equal seeds make equal runs, and others make others") {
  const deadline limit(60s);
  for (const int ranks : {3, 4, 7}) {
    CAPTURE(ranks);
    std::set<std::uint64_t> traces;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      tutti::simulated_options options = rough;
      options.seed = seed;
      const auto first = tutti::run_simulated(ranks, options, program);
      const auto again = tutti::run_simulated(ranks, options, program);
      CHECK(first.trace == again.trace);
      CHECK(first.events == again.events);
      CHECK(first.makespan == again.makespan);
      CHECK(first.messages == again.messages);
      CHECK(first.bytes == again.bytes);
      options.record = false;
      const auto unrecorded = tutti::run_simulated(ranks, options, program);
      CHECK(unrecorded.trace == first.trace);
      CHECK(unrecorded.events.empty());
      traces.insert(first.trace);
    }
    CHECK(traces.size() == 5);
  }
}

TEST_CASE("a run is the same wherever it is compiled") {
  const deadline limit(60s);
  const auto report =
      tutti::run_simulated(16, {.seed = 42, .jitter = 1e-6, .reorder = {.probability = 0.1}}, [](communicator& comm) {
        std::vector<float> data(1000, 1.0F);
        tutti::allreduce<tutti::ring>(comm, data, std::plus{});
        tutti::barrier<tutti::dissemination>(comm);
      });
  CHECK(report.trace == 7940312068096066294U);
}

TEST_CASE("without jitter the seed decides who goes first of those who could") {
  const deadline limit(60s);
  std::set<std::uint64_t> traces;
  std::set<double> makespans;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto report = tutti::run_simulated(5, {.net = net, .seed = seed},
                                             [](communicator& comm) { tutti::barrier<tutti::dissemination>(comm); });
    traces.insert(report.trace);
    makespans.insert(report.makespan);
  }
  CHECK(traces.size() > 1);
  CHECK(makespans.size() == 1);
}

TEST_CASE("messages of one pair on one lane keep their order, others overtake each other") {
  const deadline limit(60s);
  const auto report = tutti::run_simulated(4, rough, program);
  REQUIRE(report.events.size() > 100);
  int overtaken = 0;
  std::map<std::tuple<int, int, int>, std::uint64_t> last;
  std::vector<tutti::simulated_event> under_way;
  std::uint64_t delivered = 0;
  std::uint64_t bytes = 0;
  for (const tutti::simulated_event& e : report.events) {
    const auto is_it = [&](const auto& other) {
      return std::tuple(e.from, e.to, e.message) == std::tuple(other.from, other.to, other.message);
    };
    if (e.kind == kind::sent) {
      under_way.push_back(e);
      bytes += e.bytes;
    } else if (e.kind == kind::delivered) {
      ++delivered;
      const auto sent = std::find_if(under_way.begin(), under_way.end(), is_it);
      REQUIRE(sent != under_way.end());
      CHECK(e.picoseconds > sent->picoseconds);
      CHECK(e.bytes == sent->bytes);
      overtaken += sent != under_way.begin();
      under_way.erase(sent);
      const auto [before, is_first] = last.try_emplace({e.from, e.to, e.lane}, e.message);
      if (!is_first) CHECK(before->second < e.message);
      before->second = e.message;
    }
  }
  CHECK(overtaken > 20);
  CHECK(under_way.empty());
  CHECK(delivered == report.messages);
  CHECK(bytes == report.bytes);
  CHECK(std::count_if(report.events.begin(), report.events.end(), [](const auto& e) { return e.kind == kind::left; }) ==
        4);
}

TEST_CASE("jitter and reordering take time, and no more than they say") {
  const deadline limit(60s);
  const auto one_message = [](const tutti::simulated_options& options) {
    return tutti::run_simulated(2, options,
                                [](communicator& comm) {
                                  std::vector<char> data(8);
                                  tutti::broadcast<tutti::binomial>(comm, data, 0);
                                })
        .makespan;
  };
  double least = 1;
  double most = 0;
  int held = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const double jittered = one_message({.net = net, .seed = seed, .jitter = 1e-6}) - message(8);
    least = std::min(least, jittered);
    most = std::max(most, jittered);
    const double late =
        one_message({.net = net, .seed = seed, .reorder = {.probability = 0.25, .delay = 1e-3}}) - message(8);
    CHECK((std::abs(late) < 1e-10 || std::abs(late - 1e-3) < 1e-10));
    held += late > 0.5e-3;
  }
  CHECK(least >= -1e-10);
  CHECK(least < 0.05e-6);
  CHECK(most > 0.95e-6);
  CHECK(most <= 1e-6);
  CHECK(held > 25);
  CHECK(held < 75);
}

TEST_CASE("simulated runs inside of others and beside them know nothing of each other") {
  const deadline limit(60s);
  const std::uint64_t alone = tutti::run_simulated(3, rough, program).trace;
  tutti::run(2, [&](auto& outer) {
    CHECK(tutti::run_simulated(3, rough, program).trace == alone);
    tutti::barrier(outer);
  });
  tutti::run_simulated(2, rough, [&](communicator& outer) {
    CHECK(tutti::run_simulated(3, rough, program).trace == alone);
    tutti::barrier(outer);
  });
}

TEST_CASE("a hundred pending collectives on sixty-four lanes, finished in any order") {
  const deadline limit(60s);
  const auto report = tutti::run_simulated(3, rough, [](communicator& comm) {
    std::vector<std::vector<int>> data;
    std::vector<tutti::pending<communicator>> pending;
    for (int i = 0; i < 100; ++i) data.emplace_back(static_cast<std::size_t>(i * 7), comm.rank() + i);
    for (auto& d : data) pending.push_back(tutti::iallreduce(comm, d, std::plus{}));
    tutti::barrier(comm);
    for (std::size_t i = 0; i < 100; ++i) {
      const std::size_t at = (i * (comm.rank() == 0 ? 37 : 61)) % 100;
      pending[at].wait();
      CHECK(data[at] == std::vector<int>(at * 7, 3 + 3 * static_cast<int>(at)));
    }
  });
  CHECK(report.messages >= 100 * 4);  // three ranks cannot do with fewer
}
