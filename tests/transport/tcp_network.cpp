// SPDX-License-Identifier: BSL-1.0

// Ranks on four hosts, each a network namespace of its own. Left out, with a message that says why, where there may be
// none.

#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "child_process.hpp"
#include "transport/hosts.hpp"
#include "transport/rank_report.hpp"
#include "transport/tcp_ranks.hpp"

namespace {

using namespace std::chrono_literals;
using test::tcp_comm;
using work = std::function<void(tcp_comm&)>;

// Every pair of ranks talks.
void talk(tcp_comm& comm) {
  std::vector<std::int32_t> values(20'000, comm.rank());
  tutti::allreduce<tutti::circulant>(comm, values, std::plus{});
  for (const std::int32_t v : values)
    if (v != comm.size() * (comm.size() - 1) / 2) throw std::runtime_error("wrong sum");
  std::vector<std::int32_t> out(static_cast<std::size_t>(comm.size()), comm.rank()), in(out.size());
  tutti::alltoall<tutti::flat>(comm, out, in);
  for (std::size_t i = 0; i < in.size(); ++i)
    if (in[i] != static_cast<std::int32_t>(i)) throw std::runtime_error("wrong blocks");
}

// The local addresses, as the kernel writes them, at which this host listens for TCP.
std::vector<std::string> listening_at() {
  std::vector<std::string> found;
  for (const char* const file : {"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"}) {
    std::ifstream lines(file);
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state;
      words >> number >> local >> remote >> state;
      if (state == "0A") found.push_back(local.substr(0, local.find(':')));
    }
  }
  return found;
}

// Ranks as processes, rank r on host `where[r]`.
class job {
 public:
  job(const test::four_hosts& hosts, std::vector<int> where, const std::string& master)
      : hosts_(&hosts), where_(std::move(where)), reports_(static_cast<int>(where_.size())) {
    for (std::size_t r = 0; r < where_.size(); ++r) {
      tutti::tcp_options o;
      o.rank = static_cast<int>(r);
      o.size = static_cast<int>(where_.size());
      o.master = master;
      o.job = "network";
      o.token = "of this test";
      o.start_timeout = 10s;
      options.push_back(std::move(o));
    }
  }
  std::vector<tutti::tcp_options> options;

  void start(const work& what) {
    for (std::size_t r = 0; r < options.size(); ++r) {
      processes_.push_back(std::make_unique<test::child_process>([&, r] {
        hosts_->host(where_[r]).enter();
        reports_[static_cast<int>(r)].write(test::outcome_of_tcp(options[r], what));
        return 0;
      }));
    }
  }
  std::vector<test::outcome> end() {
    for (auto& each : processes_) each->end();
    processes_.clear();
    std::vector<test::outcome> outcomes;
    const auto collected = test::collected(reports_, static_cast<int>(options.size()));
    for (std::size_t r = 0; r < options.size(); ++r) outcomes.push_back(collected.on(static_cast<int>(r)));
    return outcomes;
  }
  std::vector<test::outcome> run(const work& what) {
    start(what);
    return end();
  }

 private:
  const test::four_hosts* hosts_;
  std::vector<int> where_;
  test::shared_with_children<test::rank_report> reports_;
  std::vector<std::unique_ptr<test::child_process>> processes_;
};

void check_that_all_went_well(const std::vector<test::outcome>& outcomes) {
  for (std::size_t r = 0; r < outcomes.size(); ++r) {
    CAPTURE(r);
    CHECK(outcomes[r] == test::outcome{});
  }
}

// False where there are no hosts to be had: then the test is left out, and says why.
bool left_out() {
  std::string why;
  if (test::four_hosts::possible(why)) return false;
  MESSAGE("left out: " << why);
  return true;
}

TEST_CASE("C10 hosts on different subnets, each with an interface that has the same address, by default") {
  if (left_out()) return;
  const test::alarm_limit limit(60);
  const test::four_hosts hosts;
  // Two on one subnet, one behind a router; then the rendezvous behind the router, and two ranks on each host.
  check_that_all_went_well(job(hosts, {0, 1, 2}, "10.77.0.10:29500").run(talk));
  check_that_all_went_well(job(hosts, {2, 0, 1, 1, 0, 2}, "10.77.2.12:29500").run(talk));
}

TEST_CASE("C10 D6 where an interface or an address is asked for, ranks listen there and nowhere else") {
  if (left_out()) return;
  const test::alarm_limit limit(60);
  const test::four_hosts hosts;
  // Throws unless this host listens at 10.SUBNET.0.1(0 + rank) only; the kernel writes 10.78.0.10 as 0A004E0A.
  const auto talk_at = [](tcp_comm& comm, const char* subnet) {
    talk(comm);
    const std::vector<std::string> found = listening_at();
    if (found != std::vector<std::string>{std::string("0") + "ABC"[comm.rank()] + "00" + subnet + "0A"})
      throw std::runtime_error("listens at " + std::to_string(found.size()) + " places, first " + found.at(0));
  };
  SUBCASE("an interface") {
    job ranks(hosts, {0, 1, 2}, "10.78.0.10:29500");
    for (auto& each : ranks.options) each.interface = "eth1";
    check_that_all_went_well(ranks.run([&](tcp_comm& comm) { talk_at(comm, "4E"); }));
  }
  SUBCASE("an address, while the rendezvous is reached by another") {
    job ranks(hosts, {0, 1, 2}, "10.77.0.10:29500");
    for (int r = 1; r < 3; ++r) ranks.options[static_cast<std::size_t>(r)].address = "10.78.0.1" + std::to_string(r);
    check_that_all_went_well(ranks.run([&](tcp_comm& comm) { talk_at(comm, comm.rank() == 0 ? "4D" : "4E"); }));
  }
  SUBCASE("neither: by what the rendezvous is reached") {
    job ranks(hosts, {0, 1}, "10.77.0.10:29500");
    check_that_all_went_well(ranks.run([&](tcp_comm& comm) { talk_at(comm, "4D"); }));
  }
}

TEST_CASE("C9 a host with IPv6 only") {
  if (left_out()) return;
  const test::alarm_limit limit(60);
  const test::four_hosts hosts;
  SUBCASE("among others, across a router") {
    check_that_all_went_well(job(hosts, {0, 3, 2, 1}, "[fd77:0::10]:29500").run(talk));
  }
  SUBCASE("as the rendezvous") { check_that_all_went_well(job(hosts, {3, 0, 2}, "[fd77:0::13]:29500").run(talk)); }
  SUBCASE("alone with its loopback address") { check_that_all_went_well(job(hosts, {3, 3}, "[::1]:29500").run(talk)); }
  SUBCASE("by addresses that mean something with an interface only") {
    hosts.host(0).ip("addr add fe80::10/64 dev eth0 nodad\n");
    hosts.host(3).ip("addr add fe80::13/64 dev eth0 nodad\n");
    check_that_all_went_well(job(hosts, {0, 3, 3}, "[fe80::10%eth0]:29500").run(talk));
  }
  SUBCASE("by an IPv4 address in an IPv6 one") {
    check_that_all_went_well(job(hosts, {0, 1}, "[::ffff:10.77.0.10]:29500").run(talk));
  }
  SUBCASE("it cannot reach who has IPv4 only, and says so") {
    job ranks(hosts, {0, 3}, "10.77.0.10:29500");
    for (auto& each : ranks.options) each.start_timeout = 700ms;
    const auto outcomes = ranks.run(talk);
    CHECK(outcomes[0].kind == "timed_out");
    CHECK(outcomes[0].text.find("rank 1 of 2") != std::string::npos);
    CHECK(outcomes[1].kind == "timed_out");
    CHECK(outcomes[1].text.find("10.77.0.10:29500") != std::string::npos);
    CHECK(outcomes[1].text.find("unreachable") != std::string::npos);
  }
}

TEST_CASE("E a link taken down in the middle of a collective: all name who is cut off, and who is names rank 0") {
  if (left_out()) return;
  const test::alarm_limit limit(60);
  const test::four_hosts hosts;
  for (const int cut : {1, 2}) {
    CAPTURE(cut);
    const test::channel working;
    job ranks(hosts, {0, 1, 2}, "10.77.0.10:29500");
    for (auto& each : ranks.options) each.heartbeat = 400ms;
    ranks.start([&](tcp_comm& comm) {
      talk(comm);
      working.say_value('w');
      for (;;) talk(comm);
    });
    for (int r = 0; r < 3; ++r) working.hear<char>();
    hosts.unplug(cut);
    const auto outcomes = ranks.end();
    hosts.plug(cut);
    for (int r = 0; r < 3; ++r) {
      CAPTURE(r);
      const test::outcome& mine = outcomes[static_cast<std::size_t>(r)];
      CHECK(mine.kind == "peer_failed");
      CHECK(mine.peer == (r == cut ? 0 : cut));
      CHECK(mine.text.find("silent for 400 ms") != std::string::npos);
    }
  }
}

TEST_CASE("E a link that is down for less than the heartbeat does no harm") {
  if (left_out()) return;
  const test::alarm_limit limit(60);
  const test::four_hosts hosts;
  const test::channel working;
  const test::shared_with_children<std::atomic<bool>> enough;
  job ranks(hosts, {0, 1, 2}, "10.77.0.10:29500");
  ranks.start([&](tcp_comm& comm) {
    talk(comm);
    working.say_value('w');
    for (int over = 0; over == 0;) {
      talk(comm);
      over = comm.rank() == 0 && enough->load() ? 1 : 0;
      tutti::broadcast<tutti::binomial>(comm, std::span(&over, 1), 0);
    }
  });
  for (int r = 0; r < 3; ++r) working.hear<char>();
  hosts.unplug(1);
  hosts.plug(1);
  enough->store(true);
  check_that_all_went_well(ranks.end());
}

}  // namespace
