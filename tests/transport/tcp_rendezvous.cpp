// SPDX-License-Identifier: BSL-1.0

// Ranks that meet as they should, that come late or not at all, that do not fit together, and that fail.

#include <tutti/transport/tcp/start.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include "deadline.hpp"
#include "transport/tcp_start.hpp"

using namespace test;
using namespace std::chrono_literals;
using kinds = tcp_answer::kinds;

TEST_CASE("all ranks meet, whoever comes first") {
  const deadline limit(30s);
  const no_leak descriptors;
  for (const int size : {1, 2, 3, 8, 17}) {
    for (const bool host_first : {true, false}) {
      CAPTURE(size);
      CAPTURE(host_first);
      const tcp_options job = job_of(size, "127.0.0.1:" + std::to_string(free_port()));
      ranks_meeting ranks;
      for (int i = 0; i < size; ++i) ranks.start(rank_of(job, host_first ? i : size - 1 - i));
      ranks.all_well();
    }
  }
}

TEST_CASE("one control connection leads from each rank to rank 0") {
  const deadline limit(30s);
  const no_leak descriptors;
  listening_socket listener;
  ranks_meeting ranks;
  ranks.start_all(job_of(4, listener.master), listener);
  ranks.all_well();
  auto& control = ranks.ranks()[0].membership[0].control;
  REQUIRE(control.size() == 4);
  CHECK_FALSE(control[0].is_open());
  for (std::size_t rank = 1; rank < 4; ++rank) {
    auto& own = ranks.ranks()[rank].membership[0].control;
    REQUIRE(own.size() == 1);
    CHECK(control[rank].remote_endpoint() == own[0].local_endpoint());
    CHECK(ranks.ranks()[rank].membership[0].members[0].endpoint == own[0].remote_endpoint());
    CHECK(ranks.ranks()[rank].membership[0].listener.local_endpoint() ==
          ranks.ranks()[0].membership[0].members[rank].endpoint);
    asio::ip::tcp::no_delay no_delay;
    own[0].get_option(no_delay);
    CHECK(no_delay.value());
    const char said = static_cast<char>(rank);
    char heard = 0;
    asio::write(own[0], asio::buffer(&said, 1));
    asio::read(control[rank], asio::buffer(&heard, 1));
    CHECK(heard == said);
  }
}

TEST_CASE("C16: ranks that never come are named on every rank that has") {
  const deadline limit(30s);
  const no_leak descriptors;
  listening_socket listener;
  tcp_options job = job_of(6, listener.master);
  job.start_timeout = 150ms;
  ranks_meeting ranks;
  tcp_options host = rank_of(job, 0);
  host.listener = listener.socket.release();
  ranks.start(host);
  job.start_timeout = 600s;  // the clock of rank 0 decides
  ranks.start(rank_of(job, 1));
  ranks.start(rank_of(job, 3));
  ranks.all_failed("timed_out", 2,
                   {"tcp start: ranks 2, 4, 5 of 6 had not come to rank 0 at " + listener.master + " after 150 ms"});
}

TEST_CASE("C16: a rank that comes after the limit says where it looked in vain") {
  const deadline limit(30s);
  const no_leak descriptors;
  const std::string master = "127.0.0.1:" + std::to_string(free_port());
  tcp_options job = job_of(6, master);
  job.start_timeout = 30ms;
  ranks_meeting ranks;
  ranks.start(rank_of(job, 5));
  ranks.all_failed("timed_out", 0,
                   {"tcp, rank 5 of 6: no answer of rank 0 at " + master + " for 30 ms: " + master +
                    ": Connection refused; has rank 0 started, and is master (MASTER_ADDR, MASTER_PORT) its address?"});
}
