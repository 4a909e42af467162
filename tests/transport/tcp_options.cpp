// SPDX-License-Identifier: BSL-1.0

// Every option that is wrong is named, with the rank and what was expected, before anything is opened.

#include <tutti/transport/tcp/check_options.hpp>
#include <tutti/transport/tcp/tuning.hpp>

#include <doctest/doctest.h>

#include <climits>
#include <string>

#include "transport/tcp_start.hpp"

using namespace test;
using tutti::detail::check_options;

namespace {

tcp_options good() {
  tcp_options o;
  o.rank = 2;
  o.size = 4;
  o.master = "127.0.0.1:29500";
  return o;
}
/// There is nobody to tell.
tcp_settings silent() {
  tcp_settings settings;
  settings.last_words = settings.farewell = std::chrono::milliseconds(1);
  return settings;
}
/// The text of the usage error, without its beginning; the same from the start itself.
template <class Change>
std::string refusal(Change&& change) {
  tcp_options o = good();
  change(o);
  const outcome checked = outcome_of([&] { check_options(o); });
  CHECK(checked.kind == "usage_error");
  asio::io_context io;
  CHECK(outcome_of([&] { tutti::detail::tcp_meet(io, o, silent()); }) == checked);
  const std::string begin = "tcp, rank " + std::to_string(o.rank) + " of " + std::to_string(o.size) + ": ";
  CHECK(checked.text.starts_with(begin));
  return checked.text.substr(begin.size());
}

}  // namespace

TEST_CASE("options that are right are taken apart") {
  tcp_options o = good();
  o.address = "::ffff:192.0.2.7";
  const tutti::detail::tcp_plan plan = check_options(o);
  CHECK(plan.master.host == "127.0.0.1");
  CHECK(plan.master.port == 29500);
  CHECK(plan.address == asio::ip::make_address("192.0.2.7"));
  CHECK(check_options(tcp_options{}).master.host.empty());  // a job of one needs no master
  tcp_options host = good();
  host.rank = 0;
  host.master.clear();
  host.listener = 5;
  CHECK(check_options(host).master.port == 0);  // nor does rank 0 with a listener
}

TEST_CASE("rank and size") {
  for (const int size : {0, -1, INT_MIN})
    CHECK(contains(refusal([&](tcp_options& o) { o.size = size; }),
                   "size is " + std::to_string(size) + ", expected at least 1"));
  for (const int rank : {-1, 4, INT_MAX, INT_MIN})
    CHECK(contains(refusal([&](tcp_options& o) { o.rank = rank; }),
                   "rank is " + std::to_string(rank) + ", expected at least 0 and less than size, which is 4"));
  for (const int local : {0, -2, 5})
    CHECK(contains(refusal([&](tcp_options& o) { o.local_size = local; }),
                   "local_size is " + std::to_string(local) + ", expected -1, or from 1 to size, which is 4"));
}

TEST_CASE("C11: the port of the master") {
  for (const char* const port : {"1", "65535"}) {
    tcp_options o = good();
    o.master = std::string("host:") + port;
    CHECK(check_options(o).master.port == std::stoi(port));
  }
  for (const char* const port : {"0", "65536", "-1", "", "abc"}) {
    const std::string master = std::string("host:") + port;
    CHECK(contains(refusal([&](tcp_options& o) { o.master = master; }),
                   "master (MASTER_ADDR, MASTER_PORT) is \"" + master +
                       "\": expected a port from 1 to 65535 after the last colon"));
  }
  CHECK(contains(refusal([](tcp_options& o) { o.master = "::1:29500"; }), "is told by brackets, as in [::1]:29500"));
  CHECK(contains(refusal([](tcp_options& o) { o.master.clear(); }),
                 "master is empty, expected HOST:PORT of rank 0 (MASTER_ADDR and MASTER_PORT)"));
  for (const char* const nowhere : {"0.0.0.0:1", "[::]:1", "224.0.0.1:1"})
    CHECK(contains(refusal([&](tcp_options& o) { o.master = nowhere; }), "where nobody can be reached"));
}

TEST_CASE("C11: ports to listen at") {
  for (const int port : {1, 65535}) {
    tcp_options o = good();
    o.first_port = port;
    o.last_port = port;
    check_options(o);
  }
  const std::string expected = ", expected from 1 to 65535, or 0 for both if any port will do (TUTTI_PORTS)";
  for (const int port : {65536, -1, INT_MAX, INT_MIN}) {
    CHECK(contains(refusal([&](tcp_options& o) { o.first_port = port; }),
                   "first_port is " + std::to_string(port) + expected));
    CHECK(contains(refusal([&](tcp_options& o) { o.last_port = port; }),
                   "last_port is " + std::to_string(port) + expected));
  }
  CHECK(contains(refusal([](tcp_options& o) {
                   o.first_port = 6;
                   o.last_port = 5;
                 }),
                 "first_port is 6 and last_port is 5, expected the first to be at most the last"));
  CHECK(contains(refusal([](tcp_options& o) { o.last_port = 5; }), "first_port is 0 and last_port is 5"));
}

TEST_CASE("C10: address and interface") {
  CHECK(contains(refusal([](tcp_options& o) { o.address = "localhost"; }),
                 "address (TUTTI_ADDRESS) is \"localhost\", which is no numeric address"));
  CHECK(contains(refusal([](tcp_options& o) { o.address = "fe80::1"; }), "which is a link-local address"));
  CHECK(contains(refusal([](tcp_options& o) {
                   o.address = "127.0.0.1";
                   o.interface = "lo";
                 }),
                 "address (TUTTI_ADDRESS) is \"127.0.0.1\" and interface (TUTTI_INTERFACE) is \"lo\", expected one"));
}

TEST_CASE("a token has at most 64 bytes, and is never told") {
  tcp_options o = good();
  o.token = std::string(64, 's');
  check_options(o);
  const std::string text = refusal([](tcp_options& bad) { bad.token = std::string(65, 's'); });
  CHECK(contains(text, "token (TUTTI_TOKEN) has 65 bytes, expected at most 64"));
  CHECK_FALSE(contains(text, "sss"));
}

TEST_CASE("times are positive") {
  using std::chrono::microseconds;
  using std::chrono::milliseconds;
  for (const int ms : {0, -1}) {
    CHECK(contains(refusal([&](tcp_options& o) { o.start_timeout = milliseconds(ms); }),
                   "start_timeout (TUTTI_START_TIMEOUT_MS) is " + std::to_string(ms) + " ms, expected more than 0"));
  }
  for (const int ms : {15, 1, 0, -1})
    CHECK(contains(refusal([&](tcp_options& o) { o.heartbeat = milliseconds(ms); }),
                   "heartbeat (TUTTI_HEARTBEAT_MS) is " + std::to_string(ms) + " ms, expected at least 16 ms"));
  tcp_options smallest = good();
  smallest.heartbeat = milliseconds(16);
  check_options(smallest);
  CHECK(contains(refusal([](tcp_options& o) { o.busy_poll = microseconds(-2); }),
                 "busy_poll (TUTTI_BUSY_POLL_US) is -2 us, expected at least 0, or -1"));
}

TEST_CASE("polling for longer than can be counted is polling for a long time") {
  using std::chrono::microseconds;
  using tutti::detail::tcp_tuning;
  static_assert(tcp_tuning::for_host(2, 4, microseconds::max()).busy_poll > std::chrono::hours(24));
  static_assert(tcp_tuning::for_host(2, 4, microseconds(7)).busy_poll == microseconds(7));
  static_assert(tcp_tuning::for_host(2, 4, microseconds(-1)).busy_poll > microseconds(0));
  CHECK(tcp_tuning::for_host(4, 2, microseconds(-1)).busy_poll.count() == 0);
}

TEST_CASE("C1: a descriptor that is no listening TCP socket is refused, and left open") {
  CHECK(contains(refusal([](tcp_options& o) { o.listener = -2; }), "listener is -2, expected a descriptor, or -1"));
  const no_leak descriptors;
  const auto refused = [](int descriptor) {
    tcp_options o = good();
    o.listener = descriptor;
    asio::io_context io;
    const outcome ended = outcome_of([&] { tutti::detail::tcp_meet(io, o, silent()); });
    CHECK(ended.kind == "usage_error");
    return ended.text;
  };
  const descriptor_owner datagrams(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const descriptor_owner quiet(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const descriptor_owner local(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const descriptor_owner file(open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  CHECK(contains(refused(datagrams.get()), "expected a TCP socket"));
  CHECK(contains(refused(local.get()), "expected a TCP socket"));
  CHECK(contains(refused(quiet.get()), "expected a socket that listens"));
  CHECK(contains(refused(file.get()), "expected a socket"));
  CHECK(contains(refused(1'000'000), "listener is descriptor 1000000, expected a socket (Bad file descriptor)"));
  for (const descriptor_owner* const kept : {&datagrams, &quiet, &local, &file})
    CHECK(fcntl(kept->get(), F_GETFD) >= 0);
}

TEST_CASE("C1: a listener is closed where another option is wrong") {
  const no_leak descriptors;
  listening_socket listener;
  tcp_options o = good();
  o.listener = listener.socket.release();
  o.first_port = 1;
  o.last_port = 1;
  asio::io_context io;
  const outcome ended = outcome_of([&] { tutti::detail::tcp_meet(io, o, silent()); });
  CHECK(ended.kind == "usage_error");
  CHECK(contains(ended.text, " and first_port is 1, expected one of them"));
  CHECK(fcntl(o.listener, F_GETFD) < 0);
}
