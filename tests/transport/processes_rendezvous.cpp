// SPDX-License-Identifier: BSL-1.0

// Ranks that meet as they should, that come late or not at all, that do not fit together, and that fail.

#include <tutti/transport/processes/rendezvous.hpp>

#include <doctest/doctest.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "deadline.hpp"
#include "transport/meeting.hpp"

using namespace test;
using namespace std::chrono_literals;
using tutti::detail::refuse_all;
using tutti::detail::rendezvous_host;
using tutti::detail::share_descriptor;
using what = rendezvous_note::what;

TEST_CASE("every rank gets the descriptor of rank 0, whoever comes first") {
  const deadline limit(30s);
  const no_leak descriptors;
  const descriptor_owner segment = memory();
  for (const int size : {1, 2, 3, 8, 17}) {
    for (const bool host_first : {true, false}) {
      CAPTURE(size);
      CAPTURE(host_first);
      const std::string job = new_job();
      crew ranks;
      for (int i = 0; i < size; ++i) ranks.start_rank(host_first ? i : size - 1 - i, size, job, for_ever(), segment);
      all_well(ranks);
    }
  }
}

TEST_CASE("64 processes meet") {
  const deadline limit(60s);
  const no_leak descriptors;
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  std::vector<child> ranks;
  const auto begin = std::chrono::steady_clock::now();
  for (int rank = 63; rank >= 0; --rank) {
    ranks.emplace_back([&, rank] {
      const descriptor_owner got = share_descriptor(rank, 64, job, rank == 0 ? segment.get() : -1);
      return rank == 0 || handed_over(segment, got) ? 0 : 1;
    });
  }
  for (child& rank : ranks) CHECK(rank.wait() == 0);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  MESSAGE("took ", took.count(), " ms");
}

TEST_CASE("nobody returns before all have attached") {
  const deadline limit(30s);
  constexpr int size = 4;
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  std::atomic<int> attached{0};
  crew ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.start([&, rank] {
      const auto attach = [&](int descriptor) {
        struct stat a {};
        struct stat b {};
        if (fstat(descriptor, &a) != 0 || fstat(segment.get(), &b) != 0 || a.st_ino != b.st_ino)
          throw std::runtime_error("another descriptor");
        ++attached;
      };
      share_descriptor(rank, size, job, rank == 0 ? segment.get() : -1, for_ever(), attach);
      if (attached != size) throw std::runtime_error("returned too soon");
    });
  }
  all_well(ranks);
}

TEST_CASE("B3 a job of the same name meets again at once, however the last one ended") {
  const deadline limit(60s);
  const no_leak descriptors;
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  for (int round = 0; round < 20; ++round) {
    child rank_0([&] {
      share_descriptor(0, 3, job, segment.get(), for_ever(), [](int) {});
      return 1;
    });
    const raw_socket rank_1(job);
    REQUIRE(rank_1.say(hello_of(job, 1, 3)));
    REQUIRE(rank_1.hear().kind == what::welcome);
    rank_0.kill(SIGKILL);
    CHECK(rank_0.wait() == -SIGKILL);
    CHECK(rank_1.closed());
  }
  for (int round = 0; round < 100; ++round) {
    crew ranks;
    for (int rank = 0; rank < 3; ++rank) ranks.start_rank(rank, 3, job, for_ever(), segment);
    all_well(ranks);
  }
}

TEST_CASE("C5 64 ranks come at once where the system keeps one connection") {
  const deadline limit(60s);
  const no_leak descriptors;
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  rendezvous_options options = for_ever();
  options.backlog = 1;
  crew ranks;
  for (int rank = 64; rank >= 0; --rank) ranks.start_rank(rank, 65, job, options, segment);
  all_well(ranks);
}

TEST_CASE("C16 ranks that never come end the wait of all, by name") {
  const deadline limit(30s);
  const no_leak descriptors;
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  {
    rendezvous_host host(6, job, within(1ms));
    const raw_socket rank_1(job);
    const raw_socket rank_3(job);
    REQUIRE(rank_1.say(hello_of(job, 1, 6)));
    REQUIRE(rank_3.say(hello_of(job, 3, 6)));
    const outcome ended = outcome_of([&] { host.share(segment.get(), [](int) {}); });
    CHECK(ended.kind == "timed_out");
    CHECK(ended.peer == 2);
    CHECK(contains(ended.text, "rendezvous of job \"" + job + "\": ranks 2, 4, 5 of 6 had not come after 1 ms"));
    for (const raw_socket* const rank : {&rank_1, &rank_3}) {
      CHECK(rank->hear().kind == what::welcome);
      const rendezvous_note told = rank->hear();
      REQUIRE(told.kind == what::refused);
      CHECK(outcome_of([&] { told.reason().raise(); }) == ended);
      CHECK(rank->closed());
    }
  }
  // One that comes after that ends by its own limit.
  const outcome late = outcome_of([&] { share_descriptor(2, 6, job, -1, 20ms); });
  CHECK(late.kind == "timed_out");
  CHECK(late.peer == 0);
  CHECK(contains(late.text, "rank 2 of 6 had no answer of rank 0 for 20 ms: nobody holds the name @tutti-"));
}

TEST_CASE("C16 a rank that has come when the limit passes is in time") {
  const deadline limit(30s);
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  rendezvous_host host(2, job, within(1ms));
  const raw_socket rank_1(job);
  REQUIRE(rank_1.say(hello_of(job, 1, 2)));
  REQUIRE(rank_1.say(what::attached));
  const auto end = tutti::detail::time_limit::in(2ms);
  while (!end.passed()) sched_yield();
  const outcome ended = outcome_of([&] { host.share(segment.get(), [](int) {}); });
  CHECK(ended == outcome{});
  CHECK(rank_1.hear().kind == what::welcome);
  const rendezvous_note handed = rank_1.hear();
  CHECK(handed.kind == what::descriptor);
  CHECK(handed.remaining_ns > 0);  // it has as much time to attach as it had to come
  CHECK(rank_1.hear().kind == what::complete);
  CHECK(rank_1.closed());
}

TEST_CASE("C16 one that does not attach ends the wait of all, by name") {
  const deadline limit(30s);
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  rendezvous_host host(3, job, within(1ms));
  const raw_socket rank_1(job);
  const raw_socket rank_2(job);
  REQUIRE(rank_1.say(hello_of(job, 1, 3)));
  REQUIRE(rank_1.say(what::attached));
  REQUIRE(rank_2.say(hello_of(job, 2, 3)));
  const outcome ended = outcome_of([&] { host.share(segment.get(), [](int) {}); });
  CHECK(ended.kind == "timed_out");
  CHECK(ended.peer == 2);
  CHECK(contains(ended.text, "rank 2 of 3 had not attached after 1 ms"));
  for (const raw_socket* const rank : {&rank_1, &rank_2}) {
    CHECK(rank->hear().kind == what::welcome);
    CHECK(rank->hear().kind == what::descriptor);
    CHECK(outcome_of([&] { rank->hear().reason().raise(); }) == ended);
  }
}

TEST_CASE("C16 a rank 0 that falls silent is noticed by what it said before") {
  const deadline limit(30s);
  const std::string job = new_job();
  const tutti::detail::rendezvous_name name(tutti::detail::job_hash::of(job, geteuid()), geteuid());
  const descriptor_owner listener = tutti::detail::make_rendezvous_socket();
  REQUIRE(bind(listener.get(), name.address(), name.size()) == 0);
  REQUIRE(listen(listener.get(), 8) == 0);
  rendezvous_options options = for_ever();
  options.hello_limit = 10ms;
  crew ranks;
  ranks.start([&] { share_descriptor(1, 2, job, -1, options, [](int) {}); });
  pollfd comes{listener.get(), POLLIN, 0};
  while (comes.revents == 0) tutti::detail::wait_for_sockets(&comes, 1, tutti::detail::time_limit::never());
  const descriptor_owner rank_1(accept(listener.get(), nullptr, nullptr));
  rendezvous_note welcome;
  welcome.kind = what::welcome;
  welcome.remaining_ns = 1'000'000;
  REQUIRE(tutti::detail::send_packet(rank_1, welcome) == 0);
  all_failed(ranks, "timed_out", 0,
             {"rank 0 (process " + std::to_string(getpid()) + ") answered rank 1, but is silent"});
}

TEST_CASE("B8 rank 0 cannot create the segment: every rank is told") {
  const deadline limit(30s);
  const no_leak descriptors;
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  crew ranks;
  for (int rank = 3; rank > 0; --rank) ranks.start_rank(rank, 4, job, for_ever(), segment);
  refuse_all(0, 4, job, {tutti::errc::resource, 0, "no memory: 4711 bytes needed"}, for_ever());
  all_failed(ranks, "resource_error", -1, {"no memory: 4711 bytes needed"});
}

TEST_CASE("B8 another rank cannot take part: every rank is told") {
  const deadline limit(30s);
  const no_leak descriptors;
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  crew ranks;
  for (const int rank : {0, 1, 3}) ranks.start_rank(rank, 4, job, for_ever(), segment);
  refuse_all(2, 4, job, {tutti::errc::peer_failed, 2, "rank 2 has no room"}, for_ever());
  all_failed(ranks, "peer_failed", 2, {"rank 2 has no room"});
}

TEST_CASE("B8 one rank cannot attach: it throws its own, and every other rank is told") {
  const deadline limit(30s);
  const no_leak descriptors;
  const descriptor_owner segment = memory();
  for (int culprit = 0; culprit < 3; ++culprit) {
    CAPTURE(culprit);
    const std::string job = new_job();
    crew others;
    crew one;
    for (int rank = 0; rank < 3; ++rank) {
      (rank == culprit ? one : others).start([&, rank] {
        const auto attach = [&](int) {
          if (rank == culprit) throw std::runtime_error("cannot map");
        };
        share_descriptor(rank, 3, job, rank == 0 ? segment.get() : -1, for_ever(), attach);
      });
    }
    all_failed(others, "peer_failed", culprit, {"rank " + std::to_string(culprit) + " failed to attach: cannot map"});
    CHECK(one.join().front() == outcome{"other", "cannot map", -1});
  }
}

TEST_CASE("refuse_all comes to an end where nobody comes") {
  const deadline limit(30s);
  const no_leak descriptors;
  refuse_all(0, 3, new_job(), {tutti::errc::resource, 0, "nothing"}, 20ms);
  refuse_all(2, 3, new_job(), {tutti::errc::resource, 0, "nothing"}, 20ms);
  refuse_all(0, 1, new_job(), {tutti::errc::resource, 0, "nothing"});
  refuse_all(3, 3, new_job(), {tutti::errc::resource, 0, "nothing"});
}

TEST_CASE("A3 a rank that dies before all have come is noticed by all") {
  const deadline limit(30s);
  const no_leak descriptors;
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  rendezvous_host host(4, job, for_ever());
  crew ranks;
  ranks.start([&] { host.share(segment.get(), [](int) {}); });
  {
    const raw_socket rank_2(job);
    REQUIRE(rank_2.say(hello_of(job, 2, 4)));
    REQUIRE(rank_2.hear().kind == what::welcome);
    ranks.start_rank(1, 4, job, for_ever(), segment);
  }
  ranks.start_rank(3, 4, job, for_ever(), segment);
  all_failed(ranks, "peer_failed", 2, {"rank 2 (process ", ") left before all had come"});
}

TEST_CASE("A3 a rank that is killed while it attaches is noticed by all") {
  const deadline limit(60s);
  const no_leak descriptors;
  const descriptor_owner segment = memory();
  for (int victim = 0; victim < 3; ++victim) {
    CAPTURE(victim);
    const std::string job = new_job();
    child killed([&] {
      share_descriptor(victim, 3, job, victim == 0 ? segment.get() : -1, for_ever(), [](int) { raise(SIGKILL); });
      return 1;
    });
    const std::string process = "(process " + std::to_string(killed.id()) + ")";
    crew ranks;
    for (int rank = 0; rank < 3; ++rank)
      if (rank != victim) ranks.start_rank(rank, 3, job, for_ever(), segment);
    all_failed(ranks, "peer_failed", victim,
               {"rank " + std::to_string(victim) + " " + process + " left before all had attached"});
    CHECK(killed.wait() == -SIGKILL);
  }
}

TEST_CASE("F16 a rank of another version, layout or size: every rank is told both values") {
  const deadline limit(30s);
  const no_leak descriptors;
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  rendezvous_options other = for_ever();
  int other_size = 4;
  std::vector<std::string> expected;
  SUBCASE("version") {
    other.version = 7;
    expected = {"rank 3 (process ", "speaks version 7, but rank 0", "speaks version 1"};
  }
  SUBCASE("layout") {
    other.layout = 4711;
    expected = {"rank 3 (process ", "has memory of layout 4711, but rank 0",
                "has memory of layout " + std::to_string(tutti::detail::native_layout)};
  }
  SUBCASE("size") {
    other_size = 5;
    expected = {"rank 3 (process ", "has a job of size 5, but rank 0", "has a job of size 4"};
  }
  rendezvous_host host(4, job, for_ever());
  crew ranks;
  ranks.start([&] { host.share(segment.get(), [](int) {}); });
  for (int rank = 1; rank < 3; ++rank) ranks.start_rank(rank, 4, job, for_ever(), segment);
  ranks.start_rank(3, other_size, job, other, segment);
  all_failed(ranks, "mismatch", -1, expected);
}

TEST_CASE("two processes that say they are the same rank: every rank is told") {
  const deadline limit(30s);
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  rendezvous_options options = for_ever();
  options.farewell = 1ms;
  rendezvous_host host(4, job, options);
  std::vector<raw_socket> ranks;
  for (const int rank : {1, 2, 2}) {
    ranks.emplace_back(job);
    REQUIRE(ranks.back().say(hello_of(job, rank, 4)));
  }
  const outcome ended = outcome_of([&] { host.share(segment.get(), [](int) {}); });
  CHECK(ended.kind == "mismatch");
  const std::string process = "process " + std::to_string(getpid());
  CHECK(contains(ended.text, process + " and " + process + " both say that they are rank 2 of 4"));
  CHECK(ranks[0].hear().kind == what::welcome);
  CHECK(ranks[1].hear().kind == what::welcome);
  for (const raw_socket& rank : ranks) CHECK(outcome_of([&] { rank.hear().reason().raise(); }) == ended);
}

TEST_CASE("a rank that says what it may not say ends the meeting") {
  const deadline limit(30s);
  const descriptor_owner segment = memory();
  for (const what kind : {what::welcome, what::descriptor, what::attached, what::complete, what{}, what{77}}) {
    const std::string job = new_job();
    rendezvous_options options = for_ever();
    options.farewell = 1ms;
    rendezvous_host host(3, job, options);
    const raw_socket rank_1(job);
    REQUIRE(rank_1.say(hello_of(job, 1, 3)));
    REQUIRE(rank_1.say(kind));
    crew ranks;
    ranks.start([&] { host.share(segment.get(), [](int) {}); });
    all_failed(ranks, "mismatch", -1, {"rank 1 (process ", "said what it may not say now"});
    CHECK(rank_1.hear().kind == what::welcome);
    CHECK(rank_1.hear().kind == what::refused);
  }
}

TEST_CASE("E1 signals interrupt nothing") {
  const deadline limit(60s);
  struct sigaction act {};
  struct sigaction before {};
  act.sa_handler = [](int) {};  // without SA_RESTART
  REQUIRE(sigaction(SIGALRM, &act, &before) == 0);
  const itimerval each_millisecond{{0, 1000}, {0, 1000}};
  REQUIRE(setitimer(ITIMER_REAL, &each_millisecond, nullptr) == 0);
  const descriptor_owner segment = memory();
  for (int round = 0; round < 30; ++round) {
    const std::string job = new_job();
    crew ranks;
    for (int rank = 7; rank >= 0; --rank) ranks.start_rank(rank, 8, job, for_ever(), segment);
    all_well(ranks);
  }
  const itimerval never{};
  REQUIRE(setitimer(ITIMER_REAL, &never, nullptr) == 0);
  REQUIRE(sigaction(SIGALRM, &before, nullptr) == 0);
}

TEST_CASE("E9 rank 0 may not open enough descriptors: every rank is told the limit") {
  const deadline limit(30s);
  const no_leak descriptors;
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  const auto allowed = static_cast<rlim_t>(open_descriptors() + 9);
  child rank_0([&] {
    const rlimit few{allowed, allowed};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 2;
    const outcome ended = outcome_of([&] { share_descriptor(0, 32, job, segment.get(), for_ever(), [](int) {}); });
    return ended.kind == "resource_error" && contains(ended.text, "descriptors are allowed") ? 0 : 1;
  });
  crew ranks;
  for (int rank = 1; rank < 32; ++rank) ranks.start_rank(rank, 32, job, for_ever(), segment);
  CHECK(rank_0.wait() == 0);
  int told = 0;
  for (const outcome& o : ranks.join()) told += contains(o.text, std::to_string(allowed) + " descriptors are allowed");
  CHECK(told == 31);
}

TEST_CASE("E9 a rank may open no more descriptors: every rank is told") {
  const deadline limit(30s);
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  rendezvous_host host(3, job, for_ever());
  child rank_2([&] {
    const rlimit few{64, 64};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 2;
    int last = -1;
    for (int next = 0; next >= 0; next = open("/dev/null", O_RDONLY | O_CLOEXEC)) last = next;
    close(last);  // one for its socket, none for what it is handed
    const outcome ended = outcome_of([&] { share_descriptor(2, 3, job, -1, for_ever(), [](int) {}); });
    return ended.kind == "resource_error" && contains(ended.text, "gave rank 2 no descriptor") ? 0 : 1;
  });
  crew ranks;
  ranks.start([&] { host.share(segment.get(), [](int) {}); });
  ranks.start_rank(1, 3, job, for_ever(), segment);
  CHECK(rank_2.wait() == 0);
  all_failed(ranks, "resource_error", -1, {"the system gave rank 2 no descriptor"});
}

TEST_CASE("what one rank can see is wrong is refused at once") {
  const descriptor_owner segment = memory();
  const auto refusal = [&](int rank, int size, int descriptor, std::chrono::nanoseconds span = 1s) {
    const outcome o = outcome_of([&] { share_descriptor(rank, size, "mine", descriptor, span); });
    CHECK(o.kind == "usage_error");
    return o.text;
  };
  CHECK(contains(refusal(3, 3, -1), "job \"mine\": rank is 3 of 3"));
  CHECK(contains(refusal(-1, 3, -1), "rank is -1 of 3"));
  CHECK(contains(refusal(0, 0, segment.get()), "rank is 0 of 0"));
  CHECK(contains(refusal(0, 2, -1), "descriptor is -1 on rank 0"));
  CHECK(contains(refusal(0, 1, 999999), "descriptor is 999999 on rank 0"));
  CHECK(contains(refusal(1, 2, segment.get()), "must be -1 except on rank 0"));
  CHECK(contains(refusal(0, 2, segment.get(), 0ns), "the limit is 0 ns, must be positive"));
}

TEST_CASE("what a rank said before it closed is heard, also if it had not read everything") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  descriptor_owner leaving(ends[0]);
  const descriptor_owner staying(ends[1]);
  rendezvous_note note;
  CHECK(tutti::detail::receive_packet(staying, note).how == tutti::detail::received::result::nothing);
  REQUIRE(tutti::detail::send_packet(staying, rendezvous_hello{}) == 0);
  REQUIRE(tutti::detail::send_packet(leaving, rendezvous_note::refusal({tutti::errc::timed_out, 3, "why"})) == 0);
  leaving.reset();
  CHECK(tutti::detail::receive_packet(staying, note).how == tutti::detail::received::result::packet);
  CHECK(note.reason().text == "why");
  CHECK(note.reason().peer == 3);
  CHECK(note.reason().kind == tutti::errc::timed_out);
  CHECK(tutti::detail::receive_packet(staying, note).how == tutti::detail::received::result::closed);
  CHECK(tutti::detail::send_packet(staying, note) == EPIPE);  // and no signal
}

TEST_CASE("a reason is cut where it is too long, and bad numbers in it do no harm") {
  const std::string longest(2000, 'x');
  rendezvous_note note = rendezvous_note::refusal({tutti::errc::mismatch, 1, longest});
  CHECK(note.reason().text == longest.substr(0, sizeof note.text));
  note.text_size = 0xffffffff;
  note.error = 4711;
  CHECK(note.reason().text.size() == sizeof note.text);
  CHECK(note.reason().kind == tutti::errc::peer_failed);
}

TEST_CASE("jobs and users have names of their own") {
  using tutti::detail::job_hash;
  std::set<std::string> seen;
  for (int i = 0; i < 5000; ++i) {
    for (const uid_t user : {0u, 1000u}) {
      const std::string name = job_hash::of("parent process " + std::to_string(i), user).hexadecimal();
      CHECK(name.size() == 32);
      seen.insert(name.substr(0, 16));
      seen.insert(name.substr(16));
    }
  }
  CHECK(seen.size() == 20000);
  CHECK(job_hash::of("a", 1) == job_hash::of("a", 1));
  CHECK_FALSE(job_hash::of("", 1) == job_hash::of(std::string(1, '\0'), 1));
  CHECK_FALSE(job_hash::of("ab", 1) == job_hash::of("ba", 1));
  const tutti::detail::rendezvous_name name(job_hash::of("a", 7), 7);
  CHECK(name.shown() == "@tutti-7-" + job_hash::of("a", 7).hexadecimal());
}

TEST_CASE("ranks in words") {
  const auto listed = [](std::set<int> ranks) {
    tutti::message text;
    tutti::detail::list_ranks(text, 10, [&](int rank) { return ranks.contains(rank); });
    return text.str();
  };
  CHECK(listed({3}) == "rank 3");
  CHECK(listed({1, 2}) == "ranks 1, 2");
  CHECK(listed({0, 4, 5, 6, 9}) == "ranks 0, 4-6, 9");
  CHECK(listed({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) == "ranks 0-9");
}
