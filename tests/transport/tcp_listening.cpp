// SPDX-License-Identifier: BSL-1.0

// Where ranks listen, and where they look for rank 0: names, addresses, interfaces, ports, descriptors.

#include <tutti/transport/tcp/start.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "deadline.hpp"
#include "transport/tcp_start.hpp"

using namespace test;
using namespace std::chrono_literals;

namespace {

/// Knows what the test says, at once; what it does not say is not known to it.
struct told_resolver {
  std::map<std::string, std::vector<std::string>> known;
  std::atomic<int>* asked = nullptr;
  int silent = 0;  // so often it does not know it

  template <class Done>
  void resolve(asio::io_context& io, const std::string& host, Done done) {
    if (asked != nullptr) ++*asked;
    std::vector<asio::ip::address> addresses;
    if (const auto found = known.find(host); found != known.end() && silent-- <= 0)
      for (const std::string& text : found->second) addresses.push_back(asio::ip::make_address(text));
    const asio::error_code wrong =
        addresses.empty() ? asio::error_code(asio::error::host_not_found) : asio::error_code();
    asio::post(io, [done = std::move(done), wrong, addresses]() mutable { done(wrong, std::move(addresses)); });
  }
};

outcome meet(const tcp_options& options, const told_resolver& resolver, std::string* rank_0 = nullptr) {
  return outcome_of([&] {
    asio::io_context io;
    const tcp_membership met = tutti::detail::tcp_meet(io, options, {}, resolver);
    if (rank_0 != nullptr) *rank_0 = met.members[0].endpoint.address().to_string();
  });
}
/// Two ranks, each of which resolves names as it is told.
std::vector<outcome> meet_both(const tcp_options& job, const told_resolver& host, const told_resolver& guest,
                               std::string* rank_0 = nullptr) {
  std::vector<outcome> ended(2);
  std::thread other([&] { ended[1] = meet(rank_of(job, 1), guest, rank_0); });
  ended[0] = meet(rank_of(job, 0), host);
  other.join();
  return ended;
}
const std::vector<outcome> both_well(2);

bool has_ipv6() {
  const descriptor_owner probe(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 where{};
  where.sin6_family = AF_INET6;
  where.sin6_addr = in6addr_loopback;
  return probe && bind(probe.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0;
}

/// Where this process listens: "0100007F:1F90", as the kernel lists it.
std::set<std::string> listening() {
  std::set<std::string> inodes;
  DIR* const folder = opendir("/proc/self/fd");
  REQUIRE(folder != nullptr);
  while (const dirent* const entry = readdir(folder)) {
    char target[64] = {};
    if (readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1) > 0) inodes.insert(target);
  }
  closedir(folder);
  std::set<std::string> found;
  for (const char* const file : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream table(file);
    for (std::string line; std::getline(table, line);) {
      std::istringstream fields(line);
      std::string field[10];
      for (std::string& f : field) fields >> f;
      if (field[3] == "0A" && inodes.contains("socket:[" + field[9] + "]")) found.insert(field[1]);
    }
  }
  return found;
}
std::string in_table(const std::string& address, int port) {
  char text[16];
  std::snprintf(text, sizeof text, ":%04X", static_cast<unsigned>(port));
  return address + text;
}
const std::string loopback_4 = "0100007F";
const std::string loopback_6 = "00000000000000000000000001000000";

int port_of(const tcp_membership& met, std::size_t rank) { return met.members[rank].endpoint.port(); }

}  // namespace

TEST_CASE("C7: a name that is not known is an error that names it, on every rank") {
  const deadline limit(30s);
  const no_leak descriptors;
  tcp_options job = job_of(2, "nosuch:" + std::to_string(free_port()));
  job.start_timeout = 30ms;
  const std::vector<outcome> ended = meet_both(job, {}, {});
  CHECK(ended[0].kind == "timed_out");
  CHECK(contains(ended[0].text,
                 "tcp, rank 0 of 2: the name of the master (MASTER_ADDR) \"nosuch\" cannot be resolved: "));
  CHECK(ended[1].kind == "timed_out");
  CHECK(contains(ended[1].text, "tcp, rank 1 of 2: no answer of rank 0 at " + job.master +
                                    " for 30 ms: the name nosuch "
                                    "cannot be resolved: "));
}

TEST_CASE("C7: a name that becomes known in time is good enough") {
  const deadline limit(30s);
  const no_leak descriptors;
  const tcp_options job = job_of(2, "late:" + std::to_string(free_port()));
  told_resolver late;
  late.known["late"] = {"127.0.0.1"};
  late.silent = 3;
  std::atomic<int> asked{0};
  late.asked = &asked;
  CHECK(meet_both(job, late, late) == both_well);
  CHECK(asked >= 8);
}

TEST_CASE("C7: a name that means 127.0.1.1 on the host of rank 0 is good for ranks there, and an error for others") {
  const deadline limit(30s);
  const no_leak descriptors;
  tcp_options job = job_of(2, "node1:" + std::to_string(free_port()));
  told_resolver debian;
  debian.known["node1"] = {"127.0.1.1"};
  std::string rank_0;
  CHECK(meet_both(job, debian, debian, &rank_0) == both_well);
  CHECK(rank_0 == "127.0.1.1");
  job.local_size = 1;
  const outcome ended = meet(job, debian);
  CHECK(ended.kind == "usage_error");
  CHECK(contains(ended.text, "tcp, rank 0 of 2: master (MASTER_ADDR, MASTER_PORT) is \"" + job.master +
                                 "\", which means this host itself here (127.0.1.1), but only 1 of 2 ranks are on this "
                                 "host; give an address that the others reach"));
  CHECK(contains(ended.text, "(TUTTI_ADDRESS, TUTTI_INTERFACE)"));
}

TEST_CASE("C7: rank 0 listens rather at an address that others reach") {
  const deadline limit(30s);
  const no_leak descriptors;
  asio::ip::address outside;
  tutti::detail::for_each_address([&](std::string_view, const asio::ip::address& own) {
    if (own.is_v4() && !own.is_loopback()) outside = own;
    return true;
  });
  if (outside.is_unspecified()) outside = asio::ip::make_address("127.0.0.1");
  const tcp_options job = job_of(2, "node1:" + std::to_string(free_port()));
  told_resolver host;
  host.known["node1"] = {"127.0.0.1", "::1", outside.to_string()};
  std::string rank_0;
  CHECK(meet_both(job, host, host, &rank_0) == both_well);
  CHECK(rank_0 == outside.to_string());
}

TEST_CASE("C7: all addresses of a name are tried, one of them is dead") {
  const deadline limit(30s);
  const no_leak descriptors;
  const tcp_options job = job_of(2, "node1:" + std::to_string(free_port()));
  told_resolver host;
  host.known["node1"] = {"127.0.0.1"};
  told_resolver guest;
  guest.known["node1"] = {"::1", "127.0.0.2", "127.0.0.1"};
  std::string rank_0;
  CHECK(meet_both(job, host, guest, &rank_0) == both_well);
  CHECK(rank_0 == "127.0.0.1");
}

TEST_CASE("C7: one of the addresses takes the connection and does not answer") {
  const deadline limit(30s);
  const no_leak descriptors;
  const listening_socket silent("127.0.0.2");
  tcp_options job = job_of(2, "node1:" + std::to_string(silent.port));
  told_resolver host;
  host.known["node1"] = {"127.0.0.1"};
  told_resolver guest;
  guest.known["node1"] = {"127.0.0.2", "127.0.0.1"};
  CHECK(meet_both(job, host, guest) == both_well);
  job.start_timeout = 300ms;
  guest.known["node1"] = {"127.0.0.2"};
  const outcome ended = meet(rank_of(job, 1), guest);
  CHECK(ended.kind == "timed_out");
  CHECK(contains(ended.text, "127.0.0.2:" + std::to_string(silent.port) +
                                 ": whoever listens there does not answer (the name means this host itself here)"));
}

TEST_CASE("C7: rank 0 on a host that has none of the master's addresses") {
  const deadline limit(30s);
  const no_leak descriptors;
  tcp_options job = job_of(2, "203.0.113.7:" + std::to_string(free_port()));
  const outcome ended = meet(job, {});
  CHECK(ended.kind == "usage_error");
  CHECK(contains(ended.text, "cannot listen at master (MASTER_ADDR, MASTER_PORT) \"" + job.master + "\", that is " +
                                 job.master + ": no address of this host"));
  CHECK(contains(ended.text, "say where to listen by address (TUTTI_ADDRESS), such as 0.0.0.0"));
}

TEST_CASE("C9: IPv6 alone is enough" * doctest::skip(!has_ipv6())) {
  const deadline limit(30s);
  const no_leak descriptors;
  const tcp_options job = job_of(3, "[::1]:" + std::to_string(free_port()));
  ranks_meeting ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.start(rank_of(job, rank));
  ranks.all_well();
  for (met_rank& rank : ranks.ranks())
    for (const tcp_member& m : rank.membership[0].members) CHECK(m.endpoint.address() == asio::ip::make_address("::1"));
}

TEST_CASE("C9: an IPv4 address in an IPv6 one is that") {
  const deadline limit(30s);
  const no_leak descriptors;
  const tcp_options job = job_of(2, "[::ffff:127.0.0.1]:" + std::to_string(free_port()));
  ranks_meeting ranks;
  for (int rank = 0; rank < 2; ++rank) ranks.start(rank_of(job, rank));
  ranks.all_well();
  CHECK(ranks.ranks()[1].membership[0].members[0].endpoint.address() == asio::ip::make_address("127.0.0.1"));
}

TEST_CASE("C10: the address and the interface that are given are listened at and told") {
  const deadline limit(30s);
  const no_leak descriptors;
  const tcp_options job = job_of(4, "127.0.0.1:" + std::to_string(free_port()));
  std::vector<tcp_options> options;
  for (int rank = 0; rank < 4; ++rank) options.push_back(rank_of(job, rank));
  options[1].address = "127.0.0.77";
  options[2].interface = "lo";
  options[3].address = "0.0.0.0";  // at all, and told is that by which rank 0 was reached
  ranks_meeting ranks;
  for (const tcp_options& o : options) ranks.start(o);
  ranks.all_well();
  const tcp_membership& met = ranks.ranks()[0].membership[0];
  CHECK(met.members[1].endpoint.address() == asio::ip::make_address("127.0.0.77"));
  CHECK(met.members[2].endpoint.address() == asio::ip::make_address("127.0.0.1"));
  CHECK(met.members[3].endpoint.address() == asio::ip::make_address("127.0.0.1"));
  const auto bound = [&](std::size_t rank) { return ranks.ranks()[rank].membership[0].listener.local_endpoint(); };
  CHECK(bound(1) == met.members[1].endpoint);
  CHECK(bound(2) == met.members[2].endpoint);
  CHECK(bound(3).address().is_unspecified());
  CHECK(bound(3).port() == met.members[3].endpoint.port());
}

TEST_CASE("C10: rank 0 listens where it is told to, and the others look where the master is") {
  const deadline limit(30s);
  const no_leak descriptors;
  const tcp_options job = job_of(2, "127.0.0.99:" + std::to_string(free_port()));
  for (const char* const address : {"0.0.0.0", "127.0.0.99"}) {
    ranks_meeting ranks;
    tcp_options host = rank_of(job, 0);
    host.address = address;
    ranks.start(host);
    ranks.start(rank_of(job, 1));
    for (const outcome& o : ranks.join()) CHECK(o == outcome{});
    const tcp_membership& met = ranks.ranks()[1].membership[0];
    CHECK(met.members[0].endpoint ==
          asio::ip::tcp::endpoint(asio::ip::make_address("127.0.0.99"),
                                  ranks.ranks()[0].membership[0].listener.local_endpoint().port()));
  }
}

TEST_CASE("C10: rank 0 that is told to listen at all addresses, but of another family than the master's, says so") {
  const deadline limit(30s);
  for (const auto& [address, master, instead] : {std::array{"::", "127.0.0.1:29500", "reached by IPv4; give 0.0.0.0"},
                                                 std::array{"0.0.0.0", "[::1]:29500", "reached by IPv6; give ::"}}) {
    tcp_options o = job_of(2, master);
    o.address = address;
    ranks_meeting ranks;
    ranks.start(o);
    ranks.all_failed("usage_error", -1, {std::string("address (TUTTI_ADDRESS) is ") + address + ", ", instead});
  }
}

TEST_CASE("C10: a rank that cannot listen where it is told to ends the start of all") {
  const deadline limit(30s);
  const no_leak descriptors;
  const auto all_throw = [](tcp_options job, const std::string& kind, const std::vector<std::string>& texts) {
    meeting m(3);
    for (int rank = 0; rank < 2; ++rank) m.start(rank);
    job.master = m.job.master;
    job.job = m.job.job;
    m.start(rank_of(job, 2));
    m.all_failed(kind, -1, texts);
  };
  tcp_options job = job_of(3, "");
  job.address = "203.0.113.7";
  all_throw(job, "usage_error",
            {"tcp, rank 2 of 3: cannot listen at address 203.0.113.7, which is no address of this host"});
  job.address = "::";
  all_throw(job, "usage_error", {"address (TUTTI_ADDRESS) is ::, but rank 0 was reached by IPv4; give 0.0.0.0"});
  job.address.clear();
  job.interface = "nosuch0";
  all_throw(job, "usage_error",
            {"tcp, rank 2 of 3: interface (TUTTI_INTERFACE) is \"nosuch0\", expected one with an IPv4 "
             "address; this host has lo 127.0.0.1"});
  job.interface.clear();
  const listening_socket taken;
  job.first_port = taken.port;
  job.last_port = taken.port;
  const std::string port = std::to_string(taken.port);
  all_throw(job, "resource_error",
            {"tcp, rank 2 of 3: cannot listen at address 127.0.0.1", "port " + port + " to " + port,
             "(TUTTI_PORTS): another program does"});
}

TEST_CASE("C1: ports come from the range that is given, and each has one rank") {
  const deadline limit(30s);
  const no_leak descriptors;
  meeting m(6);
  m.job.first_port = free_port();
  m.job.last_port = m.job.first_port + 9;
  m.start_all();
  m.all_well();
  std::set<int> ports;
  for (std::size_t rank = 1; rank < 6; ++rank) {
    const int port = port_of(m.ranks()[0].membership[0], rank);
    CHECK(port >= m.job.first_port);
    CHECK(port <= m.job.last_port);
    ports.insert(port);
  }
  CHECK(ports.size() == 5);
}

TEST_CASE("C1: somebody who takes every port that becomes free is in nobody's way") {
  const deadline limit(60s);
  std::atomic<bool> over{false};
  std::thread adversary([&] {
    while (!over) {
      std::vector<descriptor_owner> taken;
      for (int i = 0; i < 200; ++i) {
        taken.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in any{};
        any.sin_family = AF_INET;
        any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        bind(taken.back().get(), reinterpret_cast<sockaddr*>(&any), sizeof any);
      }
    }
  });
  for (int times = 0; times < 20; ++times) {
    meeting m(4);
    m.start_all();
    for (const outcome& o : m.join()) CHECK(o == outcome{});
  }
  over = true;
  adversary.join();
}

TEST_CASE("C1: every rank may have a listener of its own") {
  const deadline limit(30s);
  const no_leak descriptors;
  std::vector<listening_socket> listeners(3);
  const tcp_options job = job_of(3, listeners[0].master);
  ranks_meeting ranks;
  std::vector<int> ports;
  for (int rank = 0; rank < 3; ++rank) {
    listening_socket& own = listeners[static_cast<std::size_t>(rank)];
    tcp_options o = rank_of(job, rank);
    ports.push_back(own.port);
    o.listener = own.socket.release();
    ranks.start(o);
  }
  ranks.all_well();
  for (std::size_t rank = 0; rank < 3; ++rank) CHECK(port_of(ranks.ranks()[1].membership[0], rank) == ports[rank]);
}

TEST_CASE("C2: a job starts again at once on the same port, again and again") {
  const deadline limit(60s);
  const no_leak descriptors;
  const std::string master = "127.0.0.1:" + std::to_string(free_port());
  const int most = sanitized ? 200 : 1000;
  const auto end = std::chrono::steady_clock::now() + 2s;
  int times = 0;
  for (; times < most && std::chrono::steady_clock::now() < end; ++times) {
    ranks_meeting ranks;
    const tcp_options job = job_of(2, master);
    for (int rank = 0; rank < 2; ++rank) ranks.start(rank_of(job, rank));
    for (const outcome& o : ranks.join()) REQUIRE(o == outcome{});
  }
  MESSAGE(times, " jobs");
  CHECK(times > 10);
}

TEST_CASE("C2: a port that is in use is waited for, and then named") {
  const deadline limit(30s);
  const no_leak descriptors;
  listening_socket taken;
  tcp_options job = job_of(2, taken.master);
  job.start_timeout = 30ms;
  const outcome ended = meet(job, {});
  CHECK(ended.kind == "resource_error");
  CHECK(contains(ended.text, "tcp, rank 0 of 2: cannot listen at master (MASTER_ADDR, MASTER_PORT), that is " +
                                 taken.master + ": another program does, perhaps rank 0 of another job"));
  job.start_timeout = 600s;
  ranks_meeting ranks;
  for (int rank = 0; rank < 2; ++rank) ranks.start(rank_of(job, rank));
  const descriptor_owner visitor(accept(taken.socket.get(), nullptr, nullptr));  // rank 1 has come to the wrong one
  taken.socket.reset();
  for (const outcome& o : ranks.join()) CHECK(o == outcome{});
}

TEST_CASE("D6: ranks listen where they are asked to, and nowhere else") {
  const deadline limit(30s);
  const no_leak descriptors;
  REQUIRE(listening().empty());
  for (const bool six : {false, true}) {
    if (six && !has_ipv6()) continue;
    const int port = free_port();
    const std::string& loopback = six ? loopback_6 : loopback_4;
    const tcp_options job = job_of(3, (six ? "[::1]:" : "127.0.0.1:") + std::to_string(port));
    ranks_meeting ranks;
    for (int rank = 0; rank < 3; ++rank) ranks.start(rank_of(job, rank));
    ranks.all_well();
    const tcp_membership& met = ranks.ranks()[0].membership[0];
    CHECK(listening() == std::set<std::string>{in_table(loopback, port), in_table(loopback, port_of(met, 1)),
                                               in_table(loopback, port_of(met, 2))});
  }
  CHECK(listening().empty());
}

// A sanitizer needs descriptors to look at what lies in memory, and takes it for wrong if it cannot.
TEST_CASE("E9: a rank that gets no descriptor names the limit" * doctest::skip(sanitized)) {
  const deadline limit(60s);
  const no_leak descriptors;
  listening_socket listener;
  tcp_options job = job_of(2, listener.master);
  job.start_timeout = 50ms;
  outcome ended;
  std::string text;
  {
    asio::io_context io;
    const asio::ip::tcp::socket first(io);  // what Asio needs for itself is there
    const no_more_descriptors none;
    text = none.text();
    ended = outcome_of([&] { tutti::detail::tcp_meet(io, rank_of(job, 1)); });
  }
  CHECK(ended.kind == "resource_error");
  CHECK(contains(ended.text, text));

  const raw_connection waiting(listener.master);
  REQUIRE(waiting.say(hello_of(job, 1)));
  tcp_options host = rank_of(job, 0);
  host.listener = listener.socket.release();
  {
    asio::io_context io;
    const asio::ip::tcp::socket first(io);  // what Asio needs for itself is there
    const no_more_descriptors none;
    text = none.text();
    ended = outcome_of([&] { tutti::detail::tcp_meet(io, host); });
  }
  CHECK(ended.kind == "resource_error");
  CHECK(contains(ended.text, "rank 1 of 2 had not come"));
  CHECK(contains(ended.text, "; rank 0 can take no more: " + text));

  listening_socket another;
  host.listener = another.socket.release();
  {
    asio::io_context io;
    const no_more_descriptors none;  // not even what Asio needs for itself
    text = none.text();
    ended = outcome_of([&] { tutti::detail::tcp_meet(io, host); });
  }
  CHECK(ended.kind == "resource_error");
  CHECK(contains(ended.text, "tcp, rank 0 of 2: the start failed: " + text));
}

TEST_CASE("E9: accepting resumes when there are descriptors again" * doctest::skip(sanitized)) {
  const deadline limit(60s);
  const no_leak descriptors;
  listening_socket listener;
  const tcp_options job = job_of(2, listener.master);
  tcp_options host = rank_of(job, 0);
  host.listener = listener.socket.release();
  const raw_connection rank_1(listener.master);
  REQUIRE(rank_1.say(hello_of(job, 1)));
  std::optional<no_more_descriptors> none;
  {
    asio::io_context io;
    const asio::ip::tcp::socket first(io);  // what Asio needs for itself is there
    none.emplace();
    asio::steady_timer later(io, 60ms);
    later.async_wait([&](const asio::error_code&) {
      char byte = 0;
      CHECK(recv(rank_1.descriptor(), &byte, 1, MSG_DONTWAIT) < 0);  // nothing has been answered
      none.reset();
    });
    std::thread rest([&] {
      REQUIRE(rank_1.hear().kind == tcp_answer::kinds::heard);
      tcp_member where;
      where.endpoint = {asio::ip::make_address("127.0.0.1"), 5000};
      where.network = tutti::detail::network_identity(tutti::detail::host_identity());
      REQUIRE(rank_1.say_here(job, where));
    });
    const outcome ended = outcome_of([&] { tutti::detail::tcp_meet(io, host); });
    CHECK(ended == outcome{});
    rest.join();
    CHECK(rank_1.hear().kind == tcp_answer::kinds::welcome);
  }
}

TEST_CASE("C10: addresses that ranks on other hosts cannot reach end the start of all") {
  const deadline limit(30s);
  const no_leak descriptors;
  // Rank 2 says that it is on another host.
  for (const bool same : {false, true}) {
    meeting m(3);
    for (int rank = 0; rank < 2; ++rank) m.start(rank);
    const raw_connection rank_2(m.job.master);
    REQUIRE(rank_2.say(hello_of(m.job, 2)));
    REQUIRE(rank_2.hear().kind == tcp_answer::kinds::heard);
    tcp_member where;
    where.network = 1;
    where.endpoint = {asio::ip::make_address(same ? "127.0.0.1" : "192.0.2.77"), 5000};
    REQUIRE(rank_2.say_here(m.job, where));
    REQUIRE(rank_2.hear().kind == tcp_answer::kinds::refused);
    shutdown(rank_2.descriptor(), SHUT_RDWR);
    m.all_failed("usage_error", -1,
                 {"tcp start: rank 1 listens at 127.0.0.1:", ", where rank 2 on another host cannot reach it",
                  same ? ": it has the same address itself; give rank 1 an address or interface (TUTTI_ADDRESS"
                       : "; give rank 1 an address or interface (TUTTI_ADDRESS"});
  }
}
