// SPDX-License-Identifier: BSL-1.0

// Ranks that meet as they should, that come late or not at all, that do not fit together, and that fail.

#include <tutti/transport/tcp/start.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "deadline.hpp"
#include "transport/tcp_proxy.hpp"
#include "transport/tcp_start.hpp"

using namespace test;
using namespace std::chrono_literals;
using kinds = tcp_answer::kinds;

namespace {

/// Rank 0, which tells all the others if the start fails, however late they come.
void start_host(meeting& m) {
  tcp_settings settings;
  settings.farewell = 60s;
  m.start(0, settings);
}

/// The test plays rank 0: it takes a hello, and answers that so many milliseconds are left.
descriptor_owner heard_by_test(const meeting& m, std::uint64_t remaining) {
  descriptor_owner taken(accept(m.listener.socket.get(), nullptr, nullptr));
  REQUIRE(taken);
  std::array<std::byte, tcp_hello::bytes> hello{};
  REQUIRE(recv(taken.get(), hello.data(), hello.size(), MSG_WAITALL) == 256);
  tcp_answer heard(kinds::heard, tutti::detail::tcp_credentials::of(m.job.job, m.job.token));
  heard.remaining = remaining;
  REQUIRE(send(taken.get(), heard.encode().data(), tcp_answer::bytes, MSG_NOSIGNAL) == 64);
  return taken;
}

/// A rank that has come, and does no more.
class come_rank : public raw_connection {
 public:
  come_rank(const tcp_options& job, int rank) : raw_connection(job.master) {
    REQUIRE(say(hello_of(job, rank)));
    if (hear().kind != kinds::heard) return;
    tcp_member where;
    where.endpoint = {asio::ip::make_address("127.0.0.1"), 1};
    where.host = tutti::detail::host_identity();
    where.network = tutti::detail::network_identity(where.host);
    say_here(job, where);
  }
};

}  // namespace

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
  meeting m(4);
  m.start_all();
  m.all_well();
  auto& control = m.ranks()[0].membership[0].control;
  REQUIRE(control.size() == 4);
  CHECK_FALSE(control[0].is_open());
  for (std::size_t rank = 1; rank < 4; ++rank) {
    auto& own = m.ranks()[rank].membership[0].control;
    REQUIRE(own.size() == 1);
    CHECK(control[rank].remote_endpoint() == own[0].local_endpoint());
    CHECK(m.ranks()[rank].membership[0].members[0].endpoint == own[0].remote_endpoint());
    CHECK(m.ranks()[rank].membership[0].listener.local_endpoint() == m.ranks()[0].membership[0].members[rank].endpoint);
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
  meeting m(6);
  m.job.start_timeout = 400ms;
  start_host(m);
  m.job.start_timeout = 600s;  // the clock of rank 0 decides
  m.start(1);
  m.start(3);
  m.all_failed("timed_out", 2,
               {"tcp start: ranks 2, 4, 5 of 6 had not come to rank 0 at " + m.listener.master + " after 400 ms"});
}

TEST_CASE("C16: a rank that comes after the limit says where it looked in vain") {
  const deadline limit(30s);
  const no_leak descriptors;
  const std::string master = "127.0.0.1:" + std::to_string(free_port());
  tcp_options job = job_of(6, master);
  job.start_timeout = 200ms;
  ranks_meeting ranks;
  ranks.start(rank_of(job, 5));
  ranks.all_failed("timed_out", 0,
                   {"tcp, rank 5 of 6: no answer of rank 0 at " + master + " for 200 ms: " + master +
                    ": Connection refused; has rank 0 started, and is master (MASTER_ADDR, MASTER_PORT) its address?"});
}

TEST_CASE("C16: a rank that came in vain says what was wrong before, too, where that was something else") {
  const deadline limit(30s);
  const no_leak descriptors;
  listening_socket there;
  tcp_options job = job_of(6, there.master);
  job.start_timeout = 400ms;
  ranks_meeting ranks;
  ranks.start(rank_of(job, 5));
  for (int i = 0; i < 2; ++i) {  // whoever listens there ends what comes
    const descriptor_owner taken(accept(there.socket.get(), nullptr, nullptr));
    CHECK(taken);
    char hello = 0;
    CHECK(recv(taken.get(), &hello, 1, 0) == 1);
  }
  there.socket.reset();
  const outcome ended = ranks.join().front();
  CHECK(ended.kind == "timed_out");
  CHECK(contains(ended.text, there.master + ": Connection refused"));
  CHECK(contains(ended.text, "; before that: " + there.master + ": the connection was closed without an answer"));
}

TEST_CASE("C16: a rank that comes just before the limit is in time") {
  const deadline limit(30s);
  const no_leak descriptors;
  meeting m(3);
  tcp_options host = m.options_of(0);
  host.start_timeout = 60s;
  m.start(host);
  m.start(1);
  {  // rank 0 has waited for a while when it has answered this one
    const raw_connection scan(m.listener.master);
    REQUIRE(scan.say(hello_of(m.job, 2)));
    const tcp_answer heard = scan.hear();
    REQUIRE(heard.kind == kinds::heard);
    CHECK(heard.remaining > 0);
    CHECK(heard.remaining <= 60'000);
  }
  m.start(2);
  m.all_well();
}

TEST_CASE("C4, D4: a rank that does not know the token, or is of another job, is left to wait, and harms nobody") {
  const deadline limit(30s);
  const no_leak descriptors;
  for (const bool other_job : {true, false}) {
    meeting m(2);
    ranks_meeting strangers;
    tcp_options stranger = rank_of(m.job, 1);
    (other_job ? stranger.job : stranger.token) = "another";
    stranger.start_timeout = 300ms;
    m.start(0);
    strangers.start(stranger);
    strangers.all_failed("timed_out", 0,
                         {m.listener.master + ": the connection was closed without an answer, as it is if job "
                                              "(TUTTI_JOB) or token (TUTTI_TOKEN) are not those of rank 0"});
    m.start(1);
    m.all_well();
  }
}

TEST_CASE("C4: rank 0 that waits in vain tells of those it did not know") {
  const deadline limit(30s);
  const no_leak descriptors;
  meeting m(2);
  m.job.start_timeout = 100ms;
  tcp_options other = rank_of(m.job, 1);
  other.token = "guessed";
  const raw_connection left_over(m.listener.master);  // it is there when rank 0 begins
  REQUIRE(left_over.say(hello_of(other, 1)));
  start_host(m);
  CHECK(left_over.closed());
  m.all_failed("timed_out", 1,
               {"rank 1 of 2 had not come", "; 1 connections were not of this job, one of them: 127.0.0.1:",
                " is of another job or has another token"});
  CHECK_FALSE(contains(m.join().front().text, "secret"));
}

TEST_CASE("F16: versions, layouts, sizes and orders of bytes that differ are refused with both values on every rank") {
  const deadline limit(60s);
  const no_leak descriptors;
  struct forgery {
    tcp_settings settings;
    int size;
    std::string text;
  };
  std::vector<forgery> forged(4, forgery{{}, 4, ""});
  forged[0].settings.version = 77;
  forged[0].text = "has version 77, but rank 0 has " + std::to_string(tutti::detail::tcp_version);
  forged[1].settings.layout = 4711;
  forged[1].text = "has layout of data 4711, but rank 0 has " + std::to_string(tutti::detail::tcp_layout);
  forged[2].size = 5;
  forged[2].text = "has size 5, but rank 0 has 4";
  forged[3].settings.byte_order ^= 1;
  forged[3].text = "has byte order ";
  for (const forgery& f : forged) {
    CAPTURE(f.text);
    meeting m(4);
    start_host(m);
    m.start(1);
    tcp_options differs = rank_of(m.job, 3);
    differs.size = f.size;
    m.start(differs, f.settings);
    m.start(2);  // whether it comes before that or after
    m.all_failed("mismatch", -1, {"tcp start: rank 3 (127.0.0.1:", f.text});
  }
}

TEST_CASE("C12, F16: a rank that is there twice, or that there is not, ends the start of all") {
  const deadline limit(30s);
  const no_leak descriptors;
  {
    meeting m(4);
    start_host(m);
    const come_rank first(m.job, 2);
    for (const int rank : {1, 2}) m.start(rank);
    CHECK(first.hear().kind == kinds::refused);
    shutdown(first.descriptor(), SHUT_RDWR);
    m.start(3);
    m.all_failed("mismatch", -1,
                 {"tcp start: two processes, connected from 127.0.0.1:", ", both say that they are rank 2 of 4"});
  }
  for (const int rank : {0, -1, 4, 1 << 30, -(1 << 30)}) {
    meeting m(4);
    start_host(m);
    m.start(1);
    const raw_connection wrong(m.listener.master);
    REQUIRE(wrong.say(hello_of(m.job, rank)));
    const tcp_answer answer = wrong.hear();
    REQUIRE(answer.kind == kinds::refused);
    const std::string text = wrong.text_of(answer);
    CHECK(contains(text, "is none of the ranks from 1 to 3 that rank 0 waits for"));
    CHECK(wrong.closed());
    shutdown(wrong.descriptor(), SHUT_RDWR);
    for (const int late : {2, 3}) m.start(late);
    m.all_failed("mismatch", -1, {"tcp start: rank " + std::to_string(rank) + " (127.0.0.1:"});
  }
}

TEST_CASE("C5: 64 ranks come at once where the system keeps one connection") {
  const deadline limit(60s);
  const no_leak descriptors;
  meeting m(65, "127.0.0.1", 1);
  for (int rank = 64; rank > 0; --rank) m.start(rank);
  start_host(m);
  for (const outcome& o : m.join()) CHECK(o == outcome{});
}

TEST_CASE("C5: a rank whose connection is reset before the answer comes again") {
  const deadline limit(30s);
  const no_leak descriptors;
  meeting m(2);
  m.start(1);
  std::array<std::byte, tcp_hello::bytes> hello{};
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, hello.size()}) {
    descriptor_owner taken(accept(m.listener.socket.get(), nullptr, nullptr));
    REQUIRE(taken);
    if (bytes > 0) CHECK(recv(taken.get(), hello.data(), bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes));
    const struct linger reset = {1, 0};
    setsockopt(taken.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  start_host(m);
  for (const outcome& o : m.join()) CHECK(o == outcome{});
}

TEST_CASE("C4: a rank does not take for rank 0 what only listens there") {
  const deadline limit(30s);
  const no_leak descriptors;
  meeting m(2);
  m.start(1);
  std::array<std::byte, tcp_hello::bytes> bytes{};
  const tcp_answer of_another(kinds::heard, tutti::detail::tcp_credentials::of("another", m.job.token));
  for (int times = 0; times < 4; ++times) {
    const descriptor_owner taken(accept(m.listener.socket.get(), nullptr, nullptr));
    REQUIRE(taken);
    REQUIRE(recv(taken.get(), bytes.data(), bytes.size(), MSG_WAITALL) == 256);
    if (times == 0) send(taken.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);  // its echo
    if (times == 1) send(taken.get(), "HTTP/1.1 400 Bad Request\r\n", 26, MSG_NOSIGNAL);
    if (times == 2) send(taken.get(), of_another.encode().data(), tcp_answer::bytes, MSG_NOSIGNAL);
    // Else nothing, and it ends.
  }
  start_host(m);
  for (const outcome& o : m.join()) CHECK(o == outcome{});
}

TEST_CASE("C4: an attempt that was given up leaves its rank to come again") {
  const deadline limit(30s);
  const no_leak descriptors;
  meeting m(3);
  // They have said hello before rank 0 looks: some have gone since, and one stays and says no more.
  for (int times = 0; times < 20; ++times) {
    const raw_connection gone(m.listener.master);
    REQUIRE(gone.say(hello_of(m.job, 1)));
  }
  const raw_connection stays(m.listener.master);
  REQUIRE(stays.say(hello_of(m.job, 2)));
  m.start_all();
  m.all_well();
  REQUIRE(stays.hear().kind == kinds::heard);
  CHECK(stays.closed());
}

TEST_CASE("A3: a rank that leaves when it has come ends the start of all, by name") {
  const deadline limit(30s);
  const no_leak descriptors;
  meeting m(4);
  start_host(m);
  const come_rank rank_1(m.job, 1);
  { const come_rank rank_2(m.job, 2); }
  const tcp_answer answer = rank_1.hear();
  REQUIRE(answer.kind == kinds::refused);
  CHECK(answer.reason("").kind == tutti::errc::peer_failed);
  CHECK(answer.peer == 2);
  shutdown(rank_1.descriptor(), SHUT_RDWR);
  m.start(3);
  m.all_failed("peer_failed", 2, {"tcp start: rank 2 (127.0.0.1:", ") left before all had come"});
}

TEST_CASE("B8: a rank whose options are wrong tells the others, which throw the same at once") {
  const deadline limit(30s);
  const no_leak descriptors;
  for (const int wrong : {2, 0}) {
    CAPTURE(wrong);
    meeting m(3);  // its ranks wait for ten minutes
    tcp_settings settings;
    settings.farewell = 60s;
    for (const int rank : {1, 2, 0}) {
      tcp_options o = m.options_of(rank);
      if (rank == wrong) o.heartbeat = 0ms;
      m.start(o, settings);
    }
    m.all_failed("usage_error", -1, {"tcp, rank " + std::to_string(wrong) + " of 3: heartbeat", "is 0 ms"});
  }
}

TEST_CASE("B8: a rank whose options are wrong does not wait for others that are not there") {
  const deadline limit(30s);
  const no_leak descriptors;
  for (const int wrong : {1, 0}) {
    tcp_options job = job_of(2, "127.0.0.1:" + std::to_string(free_port()));
    job.heartbeat = 0ms;
    ranks_meeting ranks;
    tcp_settings settings;
    settings.last_words = settings.farewell = 20ms;
    ranks.start(rank_of(job, wrong), settings);
    ranks.all_failed("usage_error", -1, {"is 0 ms"});
  }
}

TEST_CASE("A3: a rank that leaves when it has been answered is waited for a while, and then named") {
  const deadline limit(30s);
  const no_leak descriptors;
  meeting m(3);
  tcp_settings settings;
  settings.farewell = 100ms;  // nobody comes any more
  settings.again = 30ms;
  m.start(0, settings);
  {
    const raw_connection rank_2(m.job.master);
    REQUIRE(rank_2.say(hello_of(m.job, 2)));
    REQUIRE(rank_2.hear().kind == kinds::heard);
  }
  m.start(1);
  m.all_failed("peer_failed", 2,
               {"tcp start: rank 2 (127.0.0.1:", ") left when rank 0 had answered it, and did not come again for"});
}

TEST_CASE("A3: a rank whose connection breaks before it has come comes again") {
  const deadline limit(30s);
  const no_leak descriptors;
  // Before and while it says where it listens.
  for (const std::uint64_t after : {256U, 300U}) {
    CAPTURE(after);
    meeting m(3);
    tcp_proxy way(static_cast<std::uint16_t>(m.listener.port), [=](int i) {
      proxy_behaviour b;
      if (i == 0) b.onwards.reset_after = after;
      return b;
    });
    m.job.master = "127.0.0.1:" + std::to_string(way.port());
    m.start_all();
    m.all_well();
    CHECK(way.connections() == 3);
  }
}

TEST_CASE("A3: rank 0 that leaves ends the start of all that have come") {
  const deadline limit(30s);
  const no_leak descriptors;
  meeting m(3);
  m.start(1);
  {
    const descriptor_owner rank_1 = heard_by_test(m, 600'000);
    std::array<std::byte, 64 + 48> here{};
    REQUIRE(recv(rank_1.get(), here.data(), here.size(), MSG_WAITALL) == 64 + 48);
  }
  m.all_failed("peer_failed", 0, {"rank 0 at " + m.listener.master + " left before all had come"});
}

TEST_CASE("C16: rank 0 that falls silent is noticed by what it said before") {
  const deadline limit(30s);
  const no_leak descriptors;
  meeting m(3);
  tcp_settings settings;
  settings.handshake_limit = 20ms;
  m.start(1, settings);
  const descriptor_owner rank_1 = heard_by_test(m, 1);
  m.all_failed("timed_out", 0, {"rank 0 at " + m.listener.master + " answered, but is silent since"});
}
