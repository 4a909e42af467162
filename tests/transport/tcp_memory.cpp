// SPDX-License-Identifier: BSL-1.0

// A rank over TCP that gets no memory, at any moment of its start or of its collectives.

#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include "counted_new.hpp"
#include "deadline.hpp"
#include "transport/tcp_job.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace test;

TEST_CASE("a rank that gets no memory says so, whenever that is, and leaves nothing open") {
  if (!counting) return;
  const deadline limit(std::chrono::seconds(120));
  const int before = open_descriptors();
  bool refused_once = true;
  for (std::size_t nth = 1; refused_once; ++nth) {
    CAPTURE(nth);
    tutti::detail::tcp_loopback all(2);
    std::vector<tutti::tcp_options> options{all.options(0), all.options(1)};
    options[0].start_timeout = std::chrono::milliseconds(100);  // in vain where the other does not come
    outcome other;
    std::thread first([&] {
      other = outcome_of([&] { tutti::run_tcp(options[0], [](tcp_communicator& comm) { tutti::barrier(comm); }); });
    });
    refused = nth;
    const outcome mine = outcome_of([&] {
      const std::function<void(tcp_communicator&)> work = [](tcp_communicator& comm) { tutti::barrier(comm); };
      tutti::run_tcp(options[1], work);
    });
    refused_once = refused == 0;
    refused = 0;
    first.join();
    CHECK_MESSAGE(mine.kind != "other", mine.text);
    if (refused_once) CHECK(other.kind != "usage_error");
  }
  CHECK(open_descriptors() == before);
}
