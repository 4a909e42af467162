// SPDX-License-Identifier: BSL-1.0

// What all ranks of a job over TCP throw when one of them throws, leaves, is late, calls something else or aborts: the
// same. Ranks are threads here, each with a group of its own; processes that die are in tcp_deaths.

#include <doctest/doctest.h>
#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "deadline.hpp"
#include "transport/tcp_job.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using comm_type = tcp_communicator;

void add(comm_type& comm, std::size_t count = 100) {
  std::vector<float> values(count, 1.0f);
  tutti::allreduce(comm, values, std::plus{});
}

void check_all(const std::vector<outcome>& of, const outcome& expected) {
  for (std::size_t rank = 0; rank < of.size(); ++rank) {
    CAPTURE(rank);
    CHECK(of[rank] == expected);
  }
}
/// All have thrown the same, of that kind, about that rank, with that in the text.
void check_same(const std::vector<outcome>& of, const std::string& kind, int peer, const std::string& text) {
  CHECK(of[0].kind == kind);
  CHECK(of[0].peer == peer);
  CAPTURE(of[0].text);
  CHECK(contains(of[0].text, text));
  check_all(of, of[0]);
}

/// Waits, as a rank that computes does, until the group has failed.
void compute_until_failed(comm_type& comm) {
  for (;;) {
    comm.transport().check();
    std::this_thread::yield();
  }
}

}  // namespace

TEST_CASE("A5 a rank that throws is named by all others, with its text, and keeps its own exception") {
  const deadline limit(60s);
  for (const int ranks : {2, 3, 5}) {
    for (int victim = 0; victim < ranks; ++victim) {
      CAPTURE(ranks);
      CAPTURE(victim);
      auto of = outcomes_on_threads(ranks, [&](comm_type& comm) {
        add(comm);
        if (comm.rank() == victim) throw std::runtime_error("no shoes");
        for (;;) add(comm);
      });
      CHECK(of[static_cast<std::size_t>(victim)] == outcome{"other", "no shoes", -1});
      of.erase(of.begin() + victim);
      check_all(of, {"peer_failed", "rank " + std::to_string(victim) + " failed: no shoes: peer failed", victim});
    }
  }
}

TEST_CASE("A5 what run_tcp rethrows is the exception of the rank that failed") {
  const deadline limit(30s);
  CHECK(outcome_of([] {
          tutti::run_tcp(3, [](auto& comm) {
            if (comm.rank() == 1) throw std::runtime_error("no shoes");
            tutti::barrier(comm);
          });
        }) == outcome{"other", "no shoes", -1});
  const auto of = outcomes_on_threads(2, [](comm_type& comm) {
    if (comm.rank() == 1) throw 42;
    tutti::barrier(comm);
  });
  CHECK(of[0] == outcome{"peer_failed", "rank 1 failed: an exception that is no std::exception: peer failed", 1});
  CHECK(outcome_of([] { tutti::run_tcp(0, [](auto&) {}); }).kind == "usage_error");
}

TEST_CASE("a rank that deals with the failure of another cannot end as if nothing had been") {
  const deadline limit(30s);
  const auto of = outcomes_on_threads(3, [](comm_type& comm) {
    if (comm.rank() == 2) throw std::runtime_error("no shoes");
    CHECK_THROWS_AS(tutti::barrier(comm), tutti::peer_failed);
    CHECK_THROWS_AS(tutti::barrier(comm), tutti::peer_failed);
  });
  CHECK(of[0].peer == 2);
  CHECK(of[1] == of[0]);
}

TEST_CASE("F1 ranks that call different things all throw the same mismatch, with both calls") {
  const deadline limit(60s);
  struct difference {
    const char* part;
    void (*one)(comm_type&);
    void (*other)(comm_type&);
  };
  const std::vector<difference> differences{
      {"101 x float", [](comm_type& c) { add(c, 100); }, [](comm_type& c) { add(c, 101); }},
      {"by ring", [](comm_type& c) { add(c, 100); },
       [](comm_type& c) {
         std::vector<float> values(100);
         tutti::allreduce<tutti::ring>(c, values, std::plus{});
       }},
      {"barrier", [](comm_type& c) { add(c, 100); }, [](comm_type& c) { tutti::barrier(c); }},
  };
  for (const difference& d : differences) {
    for (const int odd : {0, 2}) {
      CAPTURE(d.part);
      CAPTURE(odd);
      const auto of = outcomes_on_threads(3, [&](comm_type& comm) {
        tutti::barrier(comm);
        (comm.rank() == odd ? d.other : d.one)(comm);
        for (;;) add(comm, 7);
      });
      check_same(of, "mismatch", -1, d.part);
      CHECK(contains(of[0].text, "rank " + std::to_string(odd) + " called"));
      CHECK(contains(of[0].text, "call 2 at "));
    }
  }
}

TEST_CASE("F1 a mismatch is found where nobody sends anything") {
  const deadline limit(30s);
  const auto of = outcomes_on_threads(2, [](comm_type& comm) {
    std::vector<int> values(10);
    tutti::broadcast(comm, values, 1 - comm.rank());  // each waits for the other
  });
  check_same(of, "mismatch", -1, "root 0");
  CHECK(contains(of[0].text, "root 1"));
}

TEST_CASE("F1 a mismatch is found in the end, and where one rank has left in another call") {
  const deadline limit(30s);
  const auto in_the_end = outcomes_on_threads(3, [](comm_type& comm) {
    std::vector<int> values(10);
    if (comm.rank() == 1) tutti::broadcast(comm, values, 1);
  });
  check_same(in_the_end, "mismatch", -1, "rank 0 called nothing that fits; rank 1 called broadcast");
  const auto left = outcomes_on_threads(2, [](comm_type& comm) {
    std::vector<int> values(10);
    if (comm.rank() == 0) tutti::broadcast(comm, values, 0);
    if (comm.rank() == 1) tutti::barrier(comm);
  });
  check_same(left, "mismatch", -1, "rank 0 called broadcast");
}

TEST_CASE("A11 a rank that leaves early is an error for those who wait for it, not a hang") {
  const deadline limit(30s);
  for (const int early : {0, 1, 2}) {
    CAPTURE(early);
    const auto of = outcomes_on_threads(3, [&](comm_type& comm) {
      add(comm);
      if (comm.rank() != early) tutti::barrier(comm);
    });
    check_same(of, "peer_failed", early, "rank " + std::to_string(early) + " left while rank ");
    CHECK(contains(of[0].text, "call 2 at"));
  }
  // Ranks with nothing to add take part all the same.
  const auto of = outcomes_on_threads(3, [](comm_type& comm) {
    std::vector<int> all(static_cast<std::size_t>(comm.rank() == 0 ? 0 : 1));
    std::vector<int> none;
    tutti::allreduce(comm, none, std::plus{});
    tutti::barrier(comm);
  });
  check_all(of, {});
}

TEST_CASE("A11 in a gather, which only the root waits in, a rank comes late and leaves, or leaves without coming") {
  const deadline limit(30s);
  for (const bool comes : {true, false}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{100'000}}) {
      CAPTURE(comes);
      CAPTURE(count);
      std::atomic<int> gathered{0};
      const auto of = outcomes_on_threads(4, [&](comm_type& comm) {
        std::vector<int> mine(count, comm.rank() + 1);
        std::vector<int> all(comm.rank() == 0 ? 4 * count : 0);
        if (comm.rank() == 2)
          while (gathered.load() < 2) std::this_thread::yield();
        if (comm.rank() == 2 && !comes) return;
        tutti::gather<tutti::flat>(comm, mine, all, 0);
        ++gathered;
        if (comm.rank() == 0) CHECK((all.front() == 1 && all[2 * count] == 3 && all.back() == 4));
      });
      if (comes)
        check_all(of, {});
      else
        check_same(of, "peer_failed", 2, "rank 2 left while rank 0 waited for it in round 0 of gather");
    }
  }
}

TEST_CASE("C14 ranks leave at different times, and what they sent before arrives") {
  const deadline limit(60s);
  for (int round = 0; round < 40; ++round) {
    const int ranks = 2 + round % 4;
    const auto of = outcomes_on_threads(ranks, [&](comm_type& comm) {
      std::vector<int> values(static_cast<std::size_t>(round * round * 10), comm.rank() == 0 ? round : 0);
      for (int i = 0; i < round % 5 * 200 * comm.rank(); ++i) std::this_thread::yield();
      tutti::broadcast(comm, values, 0);
      if (!values.empty()) CHECK(values.back() == round);
    });
    check_all(of, {});
  }
}

TEST_CASE("who is late is named by all, the late one too") {
  const deadline limit(60s);
  for (const std::pair<int, int>& each : {std::pair{2, 0}, std::pair{2, 1}, std::pair{4, 2}}) {
    const int ranks = each.first;
    const int late = each.second;
    CAPTURE(ranks);
    CAPTURE(late);
    const auto of = outcomes_on_threads(ranks, [&](comm_type& comm) {
      tutti::barrier(comm);
      comm.timeout(60ms);
      if (comm.rank() == late) compute_until_failed(comm);
      add(comm);
    });
    check_same(of, "timed_out", late, "rank " + std::to_string(late) + " was late: rank ");
    CHECK(contains(of[0].text, "call 2 at"));
    CHECK(contains(of[0].text, ", which that rank has not called"));
  }
}

namespace {

/// Kinds of collective, in which rank 0 waits for rank 2 of 3.
struct kind {
  const char* name;
  void (*call)(comm_type&);
};
const std::vector<kind> waits{
    {"barrier", [](comm_type& comm) { tutti::barrier(comm); }},
    {"allreduce", [](comm_type& comm) { add(comm); }},
    {"large allreduce",
     [](comm_type& comm) {
       std::vector<float> values(1'000'000);
       tutti::allreduce<tutti::ring>(comm, values, std::plus{});
     }},
    {"broadcast",
     [](comm_type& comm) {
       std::vector<int> values(10);
       tutti::broadcast(comm, values, 2);
     }},
    // There is no room for so much in the system: it waits to send.
    {"large scatter",
     [](comm_type& comm) {
       std::vector<int> values(comm.rank() == 0 ? 9'000'000 : 0);
       std::vector<int> mine(3'000'000);
       tutti::scatter(comm, values, mine, 0);
       tutti::barrier(comm);
     }},
    {"iallreduce, waited for",
     [](comm_type& comm) {
       std::vector<float> values(10);
       auto pending = tutti::iallreduce(comm, values, std::plus{});
       pending.wait();
     }},
    {"iallreduce, tested",
     [](comm_type& comm) {
       std::vector<float> values(10);
       auto pending = tutti::iallreduce(comm, values, std::plus{});
       while (!pending.test()) std::this_thread::yield();
     }},
};

}  // namespace

TEST_CASE("A8 abort from another thread ends whatever its rank waits for") {
  const deadline limit(60s);
  for (const kind& k : waits) {
    CAPTURE(k.name);
    std::atomic<int> thrown{0};
    const auto of = outcomes_on_threads(3, [&](comm_type& comm) {
      if (comm.rank() == 2)  // comes only when the others have done without
        while (thrown.load() < 2) std::this_thread::yield();
      std::thread aborts;
      if (comm.rank() == 0) aborts = std::thread([&] { comm.abort("no more shoes"); });
      const outcome o = outcome_of([&] { k.call(comm); });
      if (o.kind != "none") ++thrown;
      if (aborts.joinable()) aborts.join();
      k.call(comm);
    });
    check_all(of, {"peer_failed", "rank 0 aborted: no more shoes: peer failed", 0});
  }
}

TEST_CASE("A8 where several abort at once, in whatever order, all end and name one of them") {
  const deadline limit(30s);
  for (int round = 0; round < 10; ++round) {
    const auto of = outcomes_on_threads(4, [&](comm_type& comm) {
      tutti::barrier(comm);
      if (comm.rank() != round % 4) comm.abort("rank " + std::to_string(comm.rank()) + " has had enough");
      for (;;) add(comm);
    });
    CHECK(of[0].kind == "peer_failed");
    CHECK(of[0].peer != round % 4);
    check_all(of, of[0]);
  }
}

TEST_CASE("one rank alone opens nothing, and fails as others do") {
  const deadline limit(30s);
  const int before = open_descriptors();
  const tutti::tcp_options alone;
  const auto run = [&](auto&& f) {
    return outcome_of([&] { tutti::run_tcp(alone, [&](comm_type& comm) { f(comm); }); });
  };
  CHECK(run([&](comm_type& comm) {
          CHECK(open_descriptors() == before);
          add(comm);
          tutti::barrier(comm);
        }) == outcome{});
  CHECK(run([](comm_type&) { throw std::runtime_error("no shoes"); }) == outcome{"other", "no shoes", -1});
  CHECK(run([](comm_type& comm) {
          comm.abort("no shoes");
          tutti::barrier(comm);
        }) == outcome{"peer_failed", "rank 0 aborted: no shoes: peer failed", 0});
  tutti::tcp_options patient;
  patient.heartbeat = std::chrono::milliseconds(7'000);
  CHECK(tutti::detail::tcp_group(patient).tuning().grace == patient.heartbeat);
  tutti::tcp_options wrong;
  wrong.rank = 1;
  CHECK(outcome_of([&] { tutti::run_tcp(wrong, [](auto&) {}); }).kind == "usage_error");
}

TEST_CASE("no descriptor is left, however a job ends") {
  const deadline limit(30s);
  outcomes_on_threads(3, [](comm_type& comm) { add(comm); });
  const int before = open_descriptors();
  for (int how = 0; how < 4; ++how) {
    outcomes_on_threads(4, [&](comm_type& comm) {
      add(comm);
      if (comm.rank() == 3 && how == 1) throw std::runtime_error("no shoes");
      if (comm.rank() == 0 && how == 2) throw std::runtime_error("no shoes");
      if (comm.rank() == 2 && how == 3) comm.abort("no shoes");
      tutti::barrier(comm);
    });
    CHECK(open_descriptors() == before);
  }
}
