// SPDX-License-Identifier: BSL-1.0

// Jobs over TCP from beginning to end: collectives, many ranks, few descriptors, one run after the other.

#include <doctest/doctest.h>
#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "deadline.hpp"
#include "transport/tcp_job.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using comm_type = tcp_communicator;

/// Steps of a training: a large gradient, a loss, and now and then a parameter from rank 0.
void train(comm_type& comm, int steps) {
  const auto ranks = static_cast<float>(comm.size());
  std::vector<float> gradient(30'000);
  for (int i = 0; i < steps; ++i) {
    std::fill(gradient.begin(), gradient.end(), static_cast<float>(comm.rank() + i));
    auto pending = tutti::iallreduce(comm, gradient, std::plus{});
    std::vector<float> loss{static_cast<float>(comm.rank())};
    tutti::allreduce(comm, loss, std::plus{});
    pending.wait();
    const float sum = ranks * (ranks - 1) / 2;
    if (loss[0] != sum || gradient.front() != sum + ranks * static_cast<float>(i) ||
        gradient.back() != gradient.front())
      throw std::runtime_error("a wrong sum");
    std::vector<float> parameter{comm.rank() == 0 ? static_cast<float>(i) : -1.0f};
    tutti::broadcast(comm, parameter, 0);
    if (parameter[0] != static_cast<float>(i)) throw std::runtime_error("a wrong parameter");
  }
  tutti::barrier(comm);
}

/// Where nobody listens now.
std::string free_address() {
  const tutti::detail::descriptor_owner probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  if (bind(probe.get(), reinterpret_cast<sockaddr*>(&at), length) != 0 ||
      getsockname(probe.get(), reinterpret_cast<sockaddr*>(&at), &length) != 0)
    std::abort();
  return "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
}

}  // namespace

TEST_CASE("ranks train together, in threads of one process") {
  const deadline limit(60s);
  for (const int ranks : {1, 2, 3, 4, 7}) {
    CAPTURE(ranks);
    CHECK(outcome_of([&] { tutti::run_tcp(ranks, [](comm_type& comm) { train(comm, 10); }); }) == outcome{});
  }
}

TEST_CASE("ranks train together, in processes") {
  const alarm_limit limit(60);
  const auto ended = outcomes_on_processes(4, {}, [](comm_type& comm, rank_report&) { train(comm, 20); });
  for (int rank = 0; rank < 4; ++rank) CHECK(ended.on(rank) == outcome{});
}

TEST_CASE("C2 jobs follow each other on one fixed port") {
  const deadline limit(60s);
  const std::string master = free_address();
  for (int round = 0; round < 25; ++round) {
    std::array<outcome, 3> of;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank)
      threads.emplace_back([&, rank] {
        tutti::tcp_options o;
        o.rank = rank;
        o.size = 3;
        o.master = master;
        o.job = "job " + std::to_string(round);
        of[static_cast<std::size_t>(rank)] =
            outcome_of([&] { tutti::run_tcp(o, [](comm_type& comm) { tutti::barrier(comm); }); });
      });
    for (std::thread& t : threads) t.join();
    for (const outcome& o : of) CHECK(o == outcome{});
  }
}

TEST_CASE("128 ranks, each allowed no more descriptors than it needs") {
  const alarm_limit limit(100);
  constexpr int ranks = sanitized ? 32 : 128;
  const auto ended = outcomes_on_processes(ranks, {}, [](comm_type& comm, rank_report& mine) {
    // Of the ranks in one process, each would have this many.
    limit_descriptors(comm.rank() == 0 ? 64 + ranks : 64);
    std::vector<float> values(1000, 1.0f);
    tutti::allreduce(comm, values, std::plus{});
    tutti::barrier(comm);
    if (values[999] != static_cast<float>(comm.size())) throw std::runtime_error("a wrong sum");
    mine.steps.store(open_descriptors());
  });
  for (int rank = 0; rank < ranks; ++rank) CHECK(ended.on(rank) == outcome{});
  std::printf("%d ranks: rank 0 has %d descriptors, rank 1 has %d\n", ranks, ended.steps_of(0), ended.steps_of(1));
  CHECK(ended.steps_of(1) < 40);
}

TEST_CASE("E9 where descriptors run out the error names the limit, at the start and later") {
  if (sanitized) return;  // a sanitizer looks at memory through a pipe, and takes all for invalid where there is none
  const alarm_limit limit(60);
  const tcp_job job{.start_timeout = 1500ms};
  event limited;
  const auto later = outcomes_on_processes(3, job, [&](comm_type& comm, rank_report&) {
    if (comm.rank() == 2) {
      limit_descriptors(open_descriptors() - 1);
      limited.set();
    }
    limited.wait();  // whoever came before would connect to it
    tutti::barrier(comm);
  });
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(later.on(rank).kind == "resource_error");
    CHECK(contains(later.on(rank).text, "(RLIMIT_NOFILE"));
    CHECK(contains(later.on(rank).text, "rank 2"));
  }
  for (const int few : {1, 2, 3, 4, 5, 6}) {
    child_process child([&] {
      tutti::tcp_options o;
      o.rank = 1;
      o.size = 2;
      o.master = free_address();
      o.start_timeout = 200ms;
      limit_descriptors(open_descriptors() + few - 1);
      const outcome e = outcome_of([&] { tutti::run_tcp(o, [](auto&) {}); });
      const bool tells = e.kind == "resource_error" && contains(e.text, "open descriptors of this process");
      return tells || (few > 3 && e.kind == "timed_out") ? 0 : 1;
    });
    CAPTURE(few);
    CHECK(child.result() == 0);
  }
}
