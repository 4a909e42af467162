// SPDX-License-Identifier: BSL-1.0

// Jobs whose ranks encrypt what they send and show each other certificates: that all goes as it does without, who is
// let in, and what is said where somebody is not.

#include <doctest/doctest.h>
#include <tutti/run_tcp.hpp>
#include <tutti/run_tcp_tls.hpp>
#include <tutti/tutti.hpp>

#include <signal.h>
#include <unistd.h>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "deadline.hpp"
#include "transport/tcp_proxy.hpp"
#include "transport/tcp_ranks.hpp"
#include "transport/tcp_tls_job.hpp"
#include "transport/tcp_tls_stranger.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;

void expect(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

/// Collectives of all sizes, blocking and not, by which every rank sends to every other.
template <class Comm>
void work(Comm& comm) {
  const int ranks = comm.size();
  const int sum = ranks * (ranks - 1) / 2;
  for (const int size : {1, 3, 1000, 4090, 4096, 100'000, 600'000}) {
    const auto count = static_cast<std::size_t>(size);
    std::vector<int> values(count);
    std::iota(values.begin(), values.end(), comm.rank());
    auto pending = tutti::iallreduce(comm, values, std::plus{});
    std::vector<int> parameter(count, comm.rank() == ranks - 1 ? 7 : 0);
    tutti::broadcast(comm, parameter, ranks - 1);
    pending.wait();
    expect(values.front() == sum && values.back() == sum + ranks * (size - 1), "a wrong sum");
    expect(parameter.front() == 7 && parameter.back() == 7, "a wrong parameter");
  }
  std::vector<int> out(static_cast<std::size_t>(ranks) * 10'000);
  std::vector<int> in(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = comm.rank() * 100 + static_cast<int>(i / 10'000);
  tutti::alltoall(comm, out, in);
  for (std::size_t i = 0; i < in.size(); ++i)
    expect(in[i] == static_cast<int>(i / 10'000) * 100 + comm.rank(), "wrong blocks");
  tutti::barrier(comm);
}

std::vector<tutti::tcp_options> tls_options(const listening_job& ports) {
  std::vector<tutti::tcp_options> job;
  for (const tutti::tcp_options& o : ports.options) job.push_back(with_files(o, known().files, known().authority.file));
  return job;
}

void all_well(const std::vector<outcome>& ended) {
  for (const outcome& o : ended) CHECK(o == outcome{});
}

bool has(const outcome& o, const std::string& text) { return o.text.find(text) != std::string::npos; }

/// Two ranks of which the second comes with those options. Nobody waits longer than this for them.
constexpr auto soon = 1200ms;
std::vector<outcome> outcomes_of_two(const std::function<void(tutti::tcp_options&, tutti::tcp_options&)>& change,
                                     bool first_encrypts = true, bool second_encrypts = true) {
  auto job = tls_job(2, soon);
  change(job[0], job[1]);
  std::vector<outcome> ended(2);
  const auto run = [&](std::size_t rank, bool encrypts) {
    ended[rank] = encrypts ? outcome_of_tls(job[rank], [](auto& comm) { tutti::barrier(comm); })
                           : outcome_of_tcp(job[rank], [](auto& comm) { tutti::barrier(comm); });
  };
  std::thread second([&] { run(1, second_encrypts); });
  run(0, first_encrypts);
  second.join();
  return ended;
}
void forget_files(tutti::tcp_options& o) {
  o.certificate.clear();
  o.private_key.clear();
  o.authority.clear();
}

}  // namespace

TEST_CASE("collectives come to the same when they are encrypted") {
  const deadline limit(60s);
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    all_well(outcomes_of_tls(tls_job(ranks), [](tls_communicator& comm) { work(comm); }));
  }
}

TEST_CASE("communicators of some of the ranks are encrypted, too, and fail for themselves") {
  const deadline limit(60s);
  all_well(outcomes_of_tls(tls_job(4), [](tls_communicator& comm) {
    auto part = comm.split(comm.rank() % 2, -comm.rank());
    auto copy = part.dup();
    work(part);
    work(copy);
    expect(part.rank() == (comm.rank() < 2 ? 1 : 0), "a wrong rank");
    const outcome o = outcome_of([&] {
      std::vector<int> values(comm.rank() == 3 ? 7 : 8);
      tutti::allreduce(part, values, std::plus{});
      tutti::barrier(part);
    });
    if (comm.rank() % 2 == 0) {
      expect(o == outcome{}, "a failure of another communicator");
    } else {
      expect(o.kind == "mismatch" && has(o, " (ranks of a communicator of ranks 3, 1)"), o.text.c_str());
    }
    work(copy);
    work(comm);
  }));
}

TEST_CASE("E an encrypted data connection that swallows everything: after a heartbeat both say so, and not before") {
  const deadline limit(60s);
  for (const bool swallows : {true, false}) {
    CAPTURE(swallows);
    std::vector<tutti::tcp_options> job = tls_job(2);
    for (auto& each : job) each.heartbeat = 300ms;
    // Rank 1 finds rank 0 there, also when it has something to say: its second connection.
    const tcp_proxy way(static_cast<std::uint16_t>(std::stoi(job[1].master.substr(job[1].master.find(':') + 1))),
                        [&](int i) {
                          proxy_behaviour b;
                          if (i == 1 && swallows) b.onwards.blackhole_after = 1'000'000;
                          return b;
                        });
    job[1].master = "127.0.0.1:" + std::to_string(way.port());
    const auto outcomes = outcomes_of_tls(job, [&](tls_communicator& comm) {
      std::vector<int> values(100'000);
      for (int times = 0; swallows || times < 10; ++times) tutti::broadcast(comm, values, 1);
      // It computes while more is on its way than the system keeps.
      std::vector<int> large(3'000'000);
      const auto begin = std::chrono::steady_clock::now();
      auto pending = tutti::iallreduce(comm, large, std::plus{});
      while (comm.rank() == 1 && std::chrono::steady_clock::now() - begin < 800ms) std::this_thread::yield();
      pending.wait();
    });
    if (swallows) {
      CHECK(outcomes[0].kind == "peer_failed");
      CHECK(contains(outcomes[0].text, "rank 0 lost its connection to rank 1: nothing of what that rank has written"));
      CHECK(outcomes[1] == outcomes[0]);
    } else {
      for (const outcome& each : outcomes) CHECK(each == outcome{});
    }
    CHECK(way.connections() == 2);
  }
}

TEST_CASE("ranks that are processes encrypt") {
  const alarm_limit limit(60);
  const auto ended = outcomes_of_tls_processes(tls_job(3), [](tls_communicator& comm) { work(comm); });
  for (int rank = 0; rank < 3; ++rank) CHECK(ended.on(rank) == outcome{});
}

TEST_CASE("each of two ranks sends more than all buffers hold before it receives") {
  const deadline limit(60s);
  all_well(outcomes_of_tls(tls_job(2), [](tls_communicator& comm) {
    constexpr std::size_t block = 3'000'000;
    std::vector<int> out(2 * block, comm.rank() + 1);
    std::vector<int> in(2 * block);
    tutti::alltoall(comm, out, in);
    expect(in[block * static_cast<std::size_t>(1 - comm.rank()) + block - 1] == 2 - comm.rank(), "wrong blocks");
  }));
}

TEST_CASE("failures have the same texts as without encryption") {
  const deadline limit(60s);
  const auto throws = [](auto& comm) {
    if (comm.rank() == 1) throw std::runtime_error("boom");
    tutti::barrier(comm);
  };
  const auto differs = [](auto& comm) {
    std::vector<float> values(10);
    if (comm.rank() == 1) {
      tutti::broadcast(comm, values, 0);
    } else {
      tutti::allreduce(comm, values, std::plus{});
    }
  };
  const auto both = [](int ranks, const auto& f) {
    const std::vector<outcome> encrypted = outcomes_of_tls(tls_job(ranks), f);
    std::vector<tutti::tcp_options> job = tls_job(ranks);
    for (tutti::tcp_options& o : job) forget_files(o);
    const std::vector<outcome> plain = outcomes_of_tcp(job, f);
    for (std::size_t rank = 0; rank < encrypted.size(); ++rank) {
      CHECK(encrypted[rank].kind != "none");
      CHECK(encrypted[rank] == plain[rank]);
    }
  };
  both(3, throws);
  both(2, differs);
}

TEST_CASE("a rank that is killed is named by all others") {
  const alarm_limit limit(60);
  for (const int victim : {0, 2}) {
    const auto ended = outcomes_of_tls_processes(tls_job(4), [&](tls_communicator& comm) {
      std::vector<float> values(200'000);
      for (int step = 0;; ++step) {
        if (comm.rank() == victim && step == 3) raise(SIGKILL);
        tutti::allreduce(comm, values, std::plus{});
      }
    });
    const outcome expected{"peer_failed", "rank " + std::to_string(victim) + " has ended without a word: peer failed",
                           victim};
    for (int rank = 0; rank < 4; ++rank) CHECK(ended.on(rank) == (rank == victim ? outcome{"died", "", -1} : expected));
  }
}

TEST_CASE("certificates may be signed by one whom the authority has signed, and say for what they are") {
  const deadline limit(60s);
  const certificate_authority between(known().authority, "between");
  const auto files = between.sign({.name = "for both", .purposes = "serverAuth,clientAuth"});
  auto job = tls_job(2);
  job[1] = with_files(job[1], files, known().authority.file);
  all_well(outcomes_of_tls(job, [](tls_communicator& comm) { tutti::barrier(comm); }));
}

TEST_CASE("files that are missing or wrong are named") {
  const auto text_of = [](const std::function<void(tutti::tcp_options&)>& change) {
    tutti::tcp_options o = with_files({}, known().files, known().authority.file);
    change(o);
    const outcome e = outcome_of_tls(o, [](auto&) {});
    CHECK(e.kind == "usage_error");
    return e.text;
  };
  const auto check = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
  };
  const auto& authority = known().authority;
  const std::string nothing = known().folder / "nothing";
  check(text_of(forget_files), "certificate (TUTTI_TLS_CERTIFICATE) is \"\", expected a file");
  check(text_of([](auto& o) { o.private_key.clear(); }), "private_key (TUTTI_TLS_KEY) is \"\", expected a file");
  check(text_of([](auto& o) { o.authority.clear(); }), "authority (TUTTI_TLS_AUTHORITY) is \"\", expected a file");
  check(text_of([&](auto& o) { o.certificate = nothing; }), nothing + "\", expected a file that can be read (No such");
  check(text_of([&](auto& o) { o.private_key = nothing; }), nothing + "\", expected a file that can be read (No such");
  check(text_of([&](auto& o) { o.authority = nothing; }), nothing + "\", expected a file that can be read (No such");
  check(text_of([](auto& o) { o.certificate = o.private_key; }), "expected certificates in PEM format");
  check(text_of([](auto& o) { o.private_key = o.certificate; }), "expected the key of the certificate in PEM format");
  check(text_of([](auto& o) { o.authority = o.private_key; }), "expected certificates in PEM format");
  const auto other = authority.sign({.name = "other"});
  check(text_of([&](auto& o) { o.private_key = other.private_key; }), "key values mismatch");
  const auto secret = authority.sign({.name = "secret"}, "a passphrase");
  check(text_of([&](auto& o) { o = with_files(o, secret, authority.file); }), "not encrypted");
  const auto expired = authority.sign({.name = "expired", .days_until_end = -1});
  check(text_of([&](auto& o) { o = with_files(o, expired, authority.file); }), "(certificate has expired)");
  const auto server = authority.sign({.name = "server", .purposes = "serverAuth"});
  check(text_of([&](auto& o) { o = with_files(o, server, authority.file); }), "for servers and clients");
  const certificate_authority foreign(known().folder, "foreign");
  check(text_of([&](auto& o) { o.authority = foreign.file; }),
        "signed by the authority in \"" + foreign.file + "\" (TUTTI_TLS_AUTHORITY)");
}

TEST_CASE("a program that does not encrypt takes no certificates") {
  for (const int size : {1, 2}) {
    tutti::tcp_options o;
    o.size = size;
    o.master = "127.0.0.1:1";
    o.authority = known().authority.file;
    const outcome e = outcome_of_tcp(o, [](auto&) {});
    CHECK(e.kind == "usage_error");
    CHECK(
        has(e, "authority (TUTTI_TLS_AUTHORITY) is \"" + o.authority + "\", expected none: run_tcp does not encrypt"));
  }
}

TEST_CASE("ranks of two authorities do not meet, and say which they expect") {
  const deadline limit(60s);
  const certificate_authority foreign(known().folder, "foreign to both");
  const auto ended = outcomes_of_two([&](tutti::tcp_options&, tutti::tcp_options& second) {
    second = with_files(second, foreign.sign({}), foreign.file);
  });
  CAPTURE(ended[0].text);
  CAPTURE(ended[1].text);
  CHECK(ended[0].kind == "timed_out");
  CHECK(ended[0].peer == 1);
  CHECK(has(ended[0], "does not accept the certificate \"" + known().files.certificate));
  CHECK(ended[1].kind == "timed_out");
  CHECK(has(ended[1], "has a certificate that is not accepted (self-signed certificate in certificate chain)") !=
        has(ended[1], "has a certificate that is not accepted (unable to get local issuer certificate)"));
  CHECK(has(ended[1], "expected one signed by the authority in \"" + foreign.file + "\" (TUTTI_TLS_AUTHORITY)"));
}

TEST_CASE("a rank whose certificate rank 0 refuses is told so") {
  const deadline limit(60s);
  // Accepts that of rank 0 all the same.
  const certificate_authority foreign(known().folder, "foreign to rank 0");
  const std::string both = known().folder / "both.pem";
  write_file(both, [&](std::FILE* f) {
    PEM_write_X509(f, known().authority.certificate()), PEM_write_X509(f, foreign.certificate());
  });
  const auto ended = outcomes_of_two(
      [&](tutti::tcp_options&, tutti::tcp_options& second) { second = with_files(second, foreign.sign({}), both); });
  CAPTURE(ended[0].text);
  CAPTURE(ended[1].text);
  CHECK(ended[0].kind == "timed_out");
  CHECK(has(ended[0], "has a certificate that is not accepted ("));
  CHECK(has(ended[0], "expected one signed by the authority in \"" + known().authority.file + "\""));
  CHECK(ended[1].kind == "timed_out");
  CHECK(has(ended[1], "does not accept the certificate \"" + known().folder.operator/("foreign to rank 0 a rank.crt")));
}

TEST_CASE("ranks of which only one encrypts do not meet, and say what they expect") {
  const deadline limit(60s);
  const auto second_plain = outcomes_of_two([](auto&, auto& second) { forget_files(second); }, true, false);
  CAPTURE(second_plain[0].text);
  CAPTURE(second_plain[1].text);
  CHECK(second_plain[0].kind == "timed_out");
  CHECK(has(second_plain[0], "is a rank that does not use TLS, expected one signed by the authority in"));
  CHECK(second_plain[1].kind == "timed_out");
  CHECK(has(second_plain[1], "or only one of both uses TLS"));
  const auto first_plain = outcomes_of_two([](auto& first, auto&) { forget_files(first); }, false, true);
  CAPTURE(first_plain[0].text);
  CAPTURE(first_plain[1].text);
  CHECK(first_plain[0].kind == "timed_out");
  CHECK(has(first_plain[0], "began with TLS, which this rank does not use"));
  CHECK(first_plain[1].kind == "timed_out");
  CHECK(has(first_plain[1], "ended the connection in the TLS handshake, as whoever does not use TLS does"));
}

TEST_CASE("strangers disturb nobody, neither at the start nor at the doors of ranks that run") {
  const alarm_limit limit(100);
  const listening_job ports(3);
  const auto job = tls_options(ports);
  const certificate_authority foreign(known().folder, "foreign to all");
  const auto expired = known().authority.sign({.name = "expired stranger", .days_until_end = -1});
  const auto of_foreign = foreign.sign({});
  const auto visit_all = [&](std::uint16_t port) {
    std::vector<std::thread> visitors;
    for (int i = 0; i < 8; ++i) {
      visitors.emplace_back([port] { CHECK(stranger(port).says("GET / HTTP/1.1\r\nHost: me\r\n\r\n").is_dropped()); });
      visitors.emplace_back([port] { CHECK(stranger(port).says(std::string(5000, 'x')).is_dropped()); });
      visitors.emplace_back(
          [port] { CHECK(stranger(port).says(std::string("\x16\x03\x01\x02\x00\x01", 6)).is_dropped()); });
      visitors.emplace_back([port] { CHECK(stranger(port).is_dropped()); });  // silence
      visitors.emplace_back([port] { CHECK(stranger(port).speaks_tls(nullptr).is_dropped()); });
      visitors.emplace_back([&, port] { CHECK(stranger(port).speaks_tls(&of_foreign).is_dropped()); });
      visitors.emplace_back([&, port] { CHECK(stranger(port).speaks_tls(&expired).is_dropped()); });
      // One that is let in as far as TLS goes, and knows neither job nor token.
      visitors.emplace_back([port] { CHECK(stranger(port).speaks_tls(&known().files).says_hello().is_dropped()); });
    }
    for (std::thread& v : visitors) v.join();
  };
  std::vector<outcome> ended(3);
  std::vector<std::thread> ranks;
  const auto run = [&](std::size_t rank) {
    ended[rank] = outcome_of_tls(job[rank], [&](tls_communicator& comm) {
      work(comm);
      if (comm.rank() == 0) visit_all(ports.port(1));  // while ranks 1 and 2 are in the barrier
      tutti::barrier(comm);
      work(comm);
    });
  };
  ranks.emplace_back([&] { run(0); });
  visit_all(ports.port(0));
  ranks.emplace_back([&] { run(1); });
  ranks.emplace_back([&] { run(2); });
  for (std::thread& r : ranks) r.join();
  all_well(ended);
}
