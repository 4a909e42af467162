// SPDX-License-Identifier: BSL-1.0

// A5, A11, F1, F2: ranks that are processes and call different things, or leave, or throw: everybody hears the same.

#include "transport/processes_run.hpp"

#include "deadline.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace test;

namespace {

using comm_type = process_communicator;
constexpr tutti::call_site usual_place{"usual.cpp", 1};
constexpr tutti::call_site odd_place{"odd.cpp", 2};

/// A call of so many elements for each rank.
struct arguments {
  std::size_t each;
  int root;
  tutti::call_site where;
};
using verb = void (*)(comm_type&, const arguments&);

template <class T>
std::vector<T> whole(comm_type& comm, const arguments& a) {
  return std::vector<T>(a.each * static_cast<std::size_t>(comm.size()), T(1));
}
template <class A, class T, class Op = std::plus<>>
void allreduce(comm_type& comm, const arguments& a) {
  tutti::allreduce<A>(comm, whole<T>(comm, a), Op{}, a.where);
}
/// Of memory that the others read where it is.
template <class A>
void shared_allreduce(comm_type& comm, const arguments& a) {
  auto shared = comm.allocate<int>(a.each * static_cast<std::size_t>(comm.size()));
  tutti::allreduce<A>(comm, shared, std::plus<>{}, a.where);
}
template <class A, class T>
void broadcast(comm_type& comm, const arguments& a) {
  tutti::broadcast<A>(comm, whole<T>(comm, a), a.root, a.where);
}
template <class A>
void reduce(comm_type& comm, const arguments& a) {
  tutti::reduce<A>(comm, whole<int>(comm, a), std::plus<>{}, a.root, a.where);
}
template <class A>
void alltoall(comm_type& comm, const arguments& a) {
  tutti::alltoall<A>(comm, whole<int>(comm, a), a.where);
}
void iallreduce(comm_type& comm, const arguments& a) {
  auto data = whole<int>(comm, a);
  tutti::iallreduce<tutti::ring>(comm, data, std::plus<>{}, a.where).wait();
}
void barrier(comm_type& comm, const arguments& a) { tutti::barrier(comm, a.where); }

/// What all but one call, what that one calls, and what is said of both.
struct difference {
  const char* field;
  verb usual;
  verb odd;
  std::size_t odd_count;  // numerator of halves of the usual one
  bool other_root;
  std::string usual_text;
  std::string odd_text;
};

using tutti::binomial;
using tutti::flat;
using tutti::ring;

const std::vector<difference> differences{
    {"count, more", allreduce<ring, int>, allreduce<ring, int>, 4, false, "x int", "x int"},
    {"count, less", allreduce<flat, int>, allreduce<flat, int>, 1, false, "x int", "x int"},
    {"count of shared buffers", shared_allreduce<ring>, shared_allreduce<ring>, 4, false, "x int", "x int"},
    {"type", allreduce<ring, int>, allreduce<ring, float>, 2, false, "x int", "x float"},
    {"operation", allreduce<flat, int>, allreduce<flat, int, std::multiplies<>>, 2, false, "with std::plus",
     "with std::multiplies"},
    {"algorithm", allreduce<ring, int>, allreduce<flat, int>, 2, false, "by ring", "by flat"},
    {"algorithm of shared buffers", shared_allreduce<flat>, shared_allreduce<ring>, 2, false, "by flat", "by ring"},
    {"root of broadcast", broadcast<binomial, int>, broadcast<binomial, int>, 2, true, "root ", "root "},
    {"root of reduce", reduce<flat>, reduce<flat>, 2, true, "root ", "root "},
    {"count of broadcast", broadcast<flat, int>, broadcast<flat, int>, 1, false, "x int", "x int"},
    {"count of alltoall", alltoall<flat>, alltoall<flat>, 4, false, "x int", "x int"},
    {"collective", allreduce<ring, int>, alltoall<flat>, 2, false, "allreduce of", "alltoall of"},
    {"collective without data", broadcast<flat, int>, barrier, 2, false, "broadcast of", "barrier by"},
    {"pending or not", iallreduce, allreduce<ring, int>, 2, false, "iallreduce of", "called allreduce of"},
};

/// Every way to wait for others.
struct way {
  std::string name;
  void (*wait)(comm_type&);
};
const std::vector<way> ways_to_wait{
    {"broadcast",
     [](comm_type& c) {
       tutti::broadcast(c, std::vector<int>(3), c.size() - 1);
       tutti::barrier(c);  // a root that sends waits for nobody
     }},
    {"reduce",
     [](comm_type& c) {
       tutti::reduce(c, std::vector<int>(3), std::plus{}, 0);
       tutti::barrier(c);
     }},
    {"allreduce", [](comm_type& c) { tutti::allreduce(c, std::vector<int>(3), std::plus{}); }},
    {"large allreduce by ring", [](comm_type& c) { tutti::allreduce<ring>(c, std::vector<int>(50000), std::plus{}); }},
    {"large allreduce by flat", [](comm_type& c) { tutti::allreduce<flat>(c, std::vector<int>(50000), std::plus{}); }},
    {"large allreduce of shared buffers",
     [](comm_type& c) {
       auto shared = c.allocate<int>(50000);
       tutti::allreduce<ring>(c, shared, std::plus{});
     }},
    {"alltoall", [](comm_type& c) { tutti::alltoall(c, std::vector<int>(static_cast<std::size_t>(c.size()) * 5000)); }},
    {"barrier", [](comm_type& c) { tutti::barrier(c); }},
    {"iallreduce and wait",
     [](comm_type& c) {
       std::vector<int> data(3);
       tutti::iallreduce(c, data, std::plus{}).wait();
     }},
    {"iallreduce and test",
     [](comm_type& c) {
       std::vector<int> data(3);
       auto pending = tutti::iallreduce(c, data, std::plus{});
       while (!pending.test()) sched_yield();
     }},
};

}  // namespace

TEST_CASE("F1 F2 mismatch: every rank hears what both sides called, and so does the run") {
  const alarm_limit limit(sanitized ? 240 : 120);
  for (const int ranks : {2, 3, 5}) {
    for (const std::size_t each : {2U, 200U, 20'000U}) {
      if (sanitized && ranks != 3) continue;
      int number = 0;
      for (const difference& d : differences) {
        const int odd = ++number % ranks;
        const int root = ranks / 2;
        const int odd_root = d.other_root ? (root + 1) % ranks : root;
        const std::string name = std::string(d.field) + " differs on rank " + std::to_string(odd) + " of " +
                                 std::to_string(ranks) + ", " + std::to_string(each) + " elements each";
        CAPTURE(name);
        const auto ended = outcomes_of_processes(ranks, [&](comm_type& comm, rank_report&) {
          tutti::barrier(comm);
          const auto call = [&] {
            if (comm.rank() == odd) {
              d.odd(comm, {each * d.odd_count / 2, odd_root, odd_place});
            } else {
              d.usual(comm, {each, root, usual_place});
            }
            tutti::barrier(comm);
            tutti::barrier(comm);
          };
          const outcome first = outcome_of(call);
          const outcome again = outcome_of([&] { tutti::allreduce(comm, std::vector<int>(3), std::plus{}); });
          if (!(first == again)) throw std::logic_error("not the same twice: " + first.text + ", then " + again.text);
          tutti::barrier(comm);
        });
        const std::string& text = ended.run.text;
        CAPTURE(text);
        CHECK(ended.run.kind == "mismatch");
        for (const outcome& o : ended.of) CHECK(o == ended.run);
        CHECK(contains(text, "rank " + std::to_string(odd) + " called "));
        CHECK(contains(text, "odd.cpp:2"));
        CHECK(contains(text, "usual.cpp:1"));
        CHECK(contains(text, d.usual_text));
        CHECK(contains(text, d.odd_text));
        const std::size_t all = each * static_cast<std::size_t>(ranks);
        if (d.odd_count != 2) CHECK(contains(text, "of " + std::to_string(all * d.odd_count / 2) + " x "));
        if (d.odd_count != 2) CHECK(contains(text, "of " + std::to_string(all) + " x "));
        if (d.other_root) CHECK(contains(text, "root " + std::to_string(odd_root)));
        if (d.other_root) CHECK(contains(text, "root " + std::to_string(root)));
      }
    }
  }
}

TEST_CASE("F2 mismatch: the last call of all differs, and nobody waits for anybody after it") {
  const alarm_limit limit(60);
  for (const int ranks : {2, 3, 5}) {
    for (int odd = 0; odd < ranks; ++odd) {
      const auto ended = outcomes_of_processes(ranks, [&](comm_type& comm, rank_report&) {
        tutti::barrier(comm);
        // A root that sends does not hear from others.
        if (comm.rank() == odd) {
          tutti::broadcast<flat>(comm, std::vector<int>(4), odd, odd_place);
        } else {
          tutti::broadcast<flat>(comm, std::vector<int>(4), (odd + 1) % ranks, usual_place);
        }
      });
      CHECK(ended.run.kind == "mismatch");
      CHECK(contains(ended.run.text, "odd.cpp:2"));
      CHECK(contains(ended.run.text, "usual.cpp:1"));
    }
  }
}

TEST_CASE("A11 a rank that leaves early is an error for those who wait for it") {
  const alarm_limit limit(sanitized ? 120 : 60);
  for (const int ranks : {2, 3, 5}) {
    for (const way& w : ways_to_wait) {
      CAPTURE(ranks);
      CAPTURE(w.name);
      const int gone = ranks - 1;
      const auto ended = outcomes_of_processes(ranks, [&](comm_type& comm, rank_report&) {
        tutti::barrier(comm);
        if (comm.rank() == gone) return;
        w.wait(comm);
      });
      CHECK(ended.on(gone).kind == "none");
      CHECK(ended.run.kind == "peer_failed");
      CHECK(ended.run.peer == gone);
      CAPTURE(ended.run.text);
      CHECK(contains(ended.run.text, "rank " + std::to_string(gone) + " left while rank "));
      for (int rank = 0; rank < gone; ++rank) CHECK(ended.on(rank) == ended.run);
    }
  }
}

TEST_CASE("A11 what a rank sent before it left still arrives") {
  const alarm_limit limit(sanitized ? 120 : 60);
  // The last to be waited for leaves at the very moment at which it is waited for.
  for (int repetition = 0; repetition < (sanitized ? 20 : 200); ++repetition) {
    const int ranks = 2 + repetition % 4;
    const std::size_t each = repetition % 3 == 0 ? 1 : repetition % 3 == 1 ? 1000 : 30'000;
    const auto ended = outcomes_of_processes(ranks, [&](comm_type& comm, rank_report&) {
      std::vector<int> all(static_cast<std::size_t>(ranks) * each);
      for (std::size_t i = 0; i < each; ++i) all[static_cast<std::size_t>(comm.rank()) * each + i] = comm.rank() + 1;
      tutti::gather(comm, all, 0);
      for (int rank = 0; rank < ranks && comm.rank() == 0; ++rank)
        if (all[static_cast<std::size_t>(rank + 1) * each - 1] != rank + 1) throw std::logic_error("wrong");
    });
    REQUIRE(ended.run == outcome{});
  }
}

TEST_CASE("A5 a rank that throws between calls ends every way of waiting for it") {
  const alarm_limit limit(sanitized ? 120 : 60);
  for (const int ranks : {2, 3, 5}) {
    for (const way& w : ways_to_wait) {
      CAPTURE(ranks);
      CAPTURE(w.name);
      const int bad = ranks / 2;
      const auto ended = outcomes_of_processes(ranks, [&](comm_type& comm, rank_report&) {
        const outcome first = outcome_of([&] { tutti::barrier(comm); });
        if (comm.rank() == bad) throw std::runtime_error("no shoes");
        const outcome second = first == outcome{} ? outcome_of([&] { w.wait(comm); }) : first;
        // What was thrown once is thrown by every later call.
        const outcome third = outcome_of([&] { w.wait(comm); });
        if (!(second == third)) throw std::logic_error("not the same twice");
        tutti::barrier(comm);
      });
      for (int rank = 0; rank < ranks; ++rank) {
        if (rank == bad) continue;
        CHECK(ended.on(rank).kind == "peer_failed");
        CHECK(ended.on(rank).peer == bad);
        CHECK(contains(ended.on(rank).text, "rank " + std::to_string(bad) + " failed: no shoes"));
      }
      CHECK(ended.run.kind == "peer_failed");
      CHECK(ended.run.peer == bad);
      CHECK(contains(ended.run.text, "no shoes"));
    }
  }
}

TEST_CASE("A5 an operation that throws ends the call on every rank") {
  const alarm_limit limit(60);
  for (const int ranks : {2, 3, 5}) {
    for (const std::size_t count : {1U, 500U, 50'000U}) {
      CAPTURE(ranks);
      CAPTURE(count);
      const int bad = ranks - 1;
      const auto ended = outcomes_of_processes(ranks, [&](comm_type& comm, rank_report&) {
        const auto op = tutti::commutative([rank = comm.rank(), bad](int a, int b) {
          if (rank == bad) throw std::runtime_error("no shoes");
          return a + b;
        });
        tutti::allreduce<flat>(comm, std::vector<int>(count * 5), op);
        tutti::barrier(comm);
      });
      CHECK(ended.on(bad).kind == "other");
      for (int rank = 0; rank < bad; ++rank) {
        CHECK(ended.on(rank).kind == "peer_failed");
        CHECK(ended.on(rank).peer == bad);
        CHECK(contains(ended.on(rank).text, "rank " + std::to_string(bad) + " failed in allreduce of "));
        CHECK(contains(ended.on(rank).text, "no shoes"));
      }
      CHECK(contains(ended.run.text, "no shoes"));
    }
  }
}

TEST_CASE("A5 unwinding past a pending collective does not block, and the others hear of it") {
  const alarm_limit limit(60);
  for (const int ranks : {2, 3, 5}) {
    for (const std::size_t count : {3U, 50'000U}) {
      const auto ended = outcomes_of_processes(ranks, [&](comm_type& comm, rank_report&) {
        std::vector<int> data(count);
        auto pending = tutti::iallreduce<ring>(comm, data, std::plus{});
        if (comm.rank() == 0) throw std::runtime_error("no shoes");
        pending.wait();
        tutti::barrier(comm);
      });
      for (int rank = 1; rank < ranks; ++rank) {
        CHECK(ended.on(rank).kind == "peer_failed");
        CHECK(ended.on(rank).peer == 0);
      }
      CHECK(ended.run.peer == 0);
    }
  }
}
