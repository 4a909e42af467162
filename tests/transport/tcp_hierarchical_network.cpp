// SPDX-License-Identifier: BSL-1.0

// Four hosts of two ranks each, every host a network namespace of its own. Left out, with a message that says why,
// where there may be none.

#include <doctest/doctest.h>
#include <tutti/core/host_table.hpp>
#include <tutti/schedule/host_traffic.hpp>
#include <tutti/schedule/two_level.hpp>
#include <tutti/tutti.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "child_process.hpp"
#include "transport/hierarchical_job.hpp"
#include "transport/hosts.hpp"
#include "transport/rank_report.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using comm_type = hierarchical_comm;

constexpr int ranks = 8;
constexpr std::size_t count = 1'000'000;  // of 4 bytes
constexpr int repetitions = 5;

// The bytes that have left this host by eth0, as the kernel counts them, headers included.
std::uint64_t bytes_sent() {
  std::ifstream lines("/proc/thread-self/net/dev");
  for (std::string word; lines >> word;) {
    if (word != "eth0:") continue;
    std::uint64_t value = 0;
    for (int column = 0; column < 9; ++column) lines >> value;
    return value;
  }
  throw std::runtime_error("no eth0");
}

// What a host sent in one allreduce, what it has to by the schedule, and how long that took.
struct measured {
  double bytes;
  double counted;
  double milliseconds;
};

template <class A>
double count_by_schedule() {
  const tutti::host_table hosts(in_order({2, 2, 2, 2}));
  const tutti::schedule_for<tutti::collective::allreduce, A> schedule{};
  return static_cast<double>(tutti::count_between_hosts(schedule, hosts.map(), 4 * count).sent);
}

template <class A>
measured measure(comm_type& comm) {
  const int sum = ranks * (ranks - 1) / 2;
  std::vector<std::int32_t> values(count);
  const auto once = [&] {
    for (std::int32_t& v : values) v = comm.rank();
    tutti::allreduce<A>(comm, values, std::plus{});
    for (const std::int32_t v : values)
      if (v != sum) throw std::runtime_error("wrong sum");
  };
  once();  // makes the connections
  tutti::barrier<tutti::dissemination>(comm);
  const std::uint64_t before = bytes_sent();
  tutti::barrier<tutti::dissemination>(comm);
  const std::int64_t begin = monotonic_now();
  for (int i = 0; i < repetitions; ++i) once();
  tutti::barrier<tutti::dissemination>(comm);
  const std::int64_t end = monotonic_now();
  return {static_cast<double>(bytes_sent() - before) / repetitions, count_by_schedule<A>(),
          1e-6 * static_cast<double>(end - begin) / repetitions};
}

// Ranks as processes, rank r on host r / 2. Where each rank counts as a host of its own, all that they say goes over
// TCP.
enum class levels { one, two };
template <class F>
class job {
 public:
  job(const four_hosts& hosts, levels how, std::chrono::milliseconds heartbeat, F work) : reports_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      tutti::tcp_options o;
      o.rank = rank;
      o.size = ranks;
      o.master = "[fd77:0::10]:29500";
      o.job = "network";
      o.token = "of this test";
      o.start_timeout = 20s;
      o.heartbeat = heartbeat;
      if (how == levels::one) o.host = std::to_string(rank);
      processes_.push_back(std::make_unique<child_process>([&, rank, o] {
        hosts.host(rank / 2).enter();
        reports_[rank].write(outcome_of_hierarchical(o, work));
        return 0;
      }));
    }
  }
  std::vector<outcome> end() {
    for (auto& each : processes_) each->end();
    return collected(reports_, ranks).of;
  }

 private:
  shared_with_children<rank_report> reports_;
  std::vector<std::unique_ptr<child_process>> processes_;
};

bool left_out() {
  std::string why;
  if (four_hosts::possible(why)) return false;
  MESSAGE("left out: " << why);
  return true;
}

}  // namespace

TEST_CASE("two levels beside one on four hosts of two ranks: what hosts send is what their schedules say") {
  if (left_out()) return;
  const alarm_limit limit(100);
  const four_hosts hosts;
  const shared_with_children<measured> of(3 * ranks);
  const auto run = [&](levels how, int number_of_hosts, auto&& measure_all) {
    const auto outcomes = job(hosts, how, 5s, [&](comm_type& comm) {
                            comm.timeout(60s);
                            if (comm.place().hosts->hosts() != number_of_hosts) throw std::runtime_error("wrong hosts");
                            measure_all(comm);
                          }).end();
    for (const outcome& each : outcomes) CHECK(each == outcome{});
  };
  using two_levels = tutti::two_level<tutti::flat, tutti::circulant>;
  run(levels::two, 4, [&](comm_type& comm) {
    of[comm.rank()] = measure<two_levels>(comm);
    of[ranks + comm.rank()] = measure<tutti::circulant>(comm);
  });
  run(levels::one, 8, [&](comm_type& comm) { of[2 * ranks + comm.rank()] = measure<tutti::circulant>(comm); });
  for (int i = 0; i < 3 * ranks; ++i) {
    CAPTURE(i);
    CHECK(of[i].bytes >= of[i].counted);
    CHECK(of[i].bytes < 1.08 * of[i].counted);  // with the headers
  }
  CHECK(of[0].counted == 2.0 * 4 * count * 3 / 4);  // 2 n (H - 1) / H
  CHECK(of[ranks].counted > 1.5 * of[0].counted);
  const std::string names[] = {"two levels", "one level, by memory and TCP", "one level, by TCP"};
  for (int i = 0; i < 3; ++i) {
    const measured& m = of[i * ranks];
    MESSAGE("allreduce of 4 MB, " << names[i] << ": " << m.bytes << " bytes from a host, " << m.counted
                                  << " by the schedule, " << m.milliseconds << " ms");
  }
}

TEST_CASE("a host that is cut off is noticed by all within the heartbeat, on its own side too") {
  if (left_out()) return;
  const alarm_limit limit(60);
  const four_hosts hosts;
  const channel working;
  job cut(hosts, levels::two, 500ms, [&](comm_type& comm) {
    std::vector<float> values(1000);
    for (int i = 0;; ++i) {
      tutti::allreduce<tutti::circulant>(comm, values, std::plus{});
      if (i == 3) working.say_value('w');
    }
  });
  for (int rank = 0; rank < ranks; ++rank) working.hear<char>();
  hosts.unplug(2);
  const auto outcomes = cut.end();
  for (int rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    const outcome& mine = outcomes[static_cast<std::size_t>(rank)];
    CAPTURE(mine.text);
    CHECK(mine.kind == "peer_failed");
    CHECK(contains(mine.text, "silent for 500 ms"));
    if (rank / 2 == 2)
      CHECK(mine.peer == 0);
    else
      CHECK(mine.peer / 2 == 2);
  }
}
