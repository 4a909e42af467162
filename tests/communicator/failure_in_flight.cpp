// SPDX-License-Identifier: BSL-1.0

// A rank fails in the middle of a collective and frees its buffers at once, while others may be reading them where they
// are: nobody touches them afterwards, and nobody hangs. To be run under the address and the thread sanitizer.

#include "communicator/outcome.hpp"
#include "deadline.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace test;
using namespace std::chrono_literals;

namespace {

using communicator = tutti::communicator<tutti::threads>;

/// Large enough not to be copied by the sender, so that few of them make a long story: the n-th application of an
/// operation is a place in the middle of it.
struct element {
  std::array<int, 1300> values;
};

/// What ends the rank: thrown by its operation.
struct enough {};

/// Adds, and throws at the application whose number, counted on the rank, is `last`.
struct progress {
  int applications = 0;
  bool thrown = false;
};
auto adding(progress& made, int last) {
  return tutti::commutative([&made, last](const element& a, const element& b) {
    if (++made.applications == last) {
      made.thrown = true;
      throw enough{};
    }
    element sum;
    for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] = a.values[i] + b.values[i];
    return sum;
  });
}
using operation = decltype(adding(std::declval<progress&>(), 0));

/// The n-th application throws on each rank in turn, for n from 1 until the collective comes to its end without it.
/// `call(comm, data, op)` must leave nobody out; `data` is on the heap and gone when the call has thrown. `comes_out`:
/// what the operation throws is what the call throws, and not kept by a pending collective that nobody asks.
template <class Call>
void sweep(const std::string& name, Call call, bool comes_out = true) {
  for (const int ranks : {2, 3, 4, 5}) {
    for (int bad = 0; bad < ranks; ++bad) {
      for (int last = 1;; ++last) {
        CAPTURE(name);
        CAPTURE(ranks);
        CAPTURE(bad);
        CAPTURE(last);
        std::vector<progress> made(static_cast<std::size_t>(ranks));
        const auto ended = outcomes_of_run(ranks, [&](communicator& comm) {
          auto data = std::make_unique<std::vector<element>>(static_cast<std::size_t>(2 * ranks));
          for (element& e : *data) e.values.fill(comm.rank());
          call(comm, *data, adding(made[static_cast<std::size_t>(comm.rank())], comm.rank() == bad ? last : -1));
          data.reset();
          tutti::barrier(comm);
        });
        if (!made[static_cast<std::size_t>(bad)].thrown) {
          CHECK(ended.run == outcome{});
          break;
        }
        if (comes_out) CHECK(ended.run == outcome{"other", "", -1});
        for (int rank = 0; rank < ranks; ++rank) {
          if (rank == bad) continue;
          CHECK(ended.of[static_cast<std::size_t>(rank)].kind == "peer_failed");
          CHECK(ended.of[static_cast<std::size_t>(rank)].peer == bad);
        }
        REQUIRE(last < 1000);
      }
    }
  }
}

template <class A>
void sweep_allreduce() {
  sweep("allreduce by " + std::string(A::name), [](communicator& comm, std::vector<element>& data,
                                                   const operation& op) { tutti::allreduce<A>(comm, data, op); });
}

template <class A>
void sweep_allreduce_out_of_place() {
  sweep("allreduce, out of place, by " + std::string(A::name),
        [](communicator& comm, std::vector<element>& data, const operation& op) {
          const auto result = std::make_unique<std::vector<element>>(data.size());
          tutti::allreduce<A>(comm, data, *result, op);
        });
}

template <class A>
void sweep_iallreduce() {
  sweep("iallreduce by " + std::string(A::name),
        [](communicator& comm, std::vector<element>& data, const operation& op) {
          auto pending = tutti::iallreduce<A>(comm, data, op);
          if (comm.rank() % 2 == 0) {
            while (!pending.test()) std::this_thread::yield();
          } else {
            pending.wait();
          }
        });
}

}  // namespace

TEST_CASE("an allreduce fails at every point of its way") {
  const deadline limit(120s);
  sweep_allreduce<tutti::naive>();
  sweep_allreduce<tutti::flat>();
  sweep_allreduce<tutti::ring>();
  sweep_allreduce<tutti::circulant>();
  sweep_allreduce<tutti::recursive_doubling>();
  sweep_allreduce<tutti::halving_doubling>();
  sweep_allreduce_out_of_place<tutti::naive>();
  sweep_allreduce_out_of_place<tutti::flat>();
  sweep_allreduce_out_of_place<tutti::ring>();
}

TEST_CASE("an iallreduce fails at every point of its way") {
  const deadline limit(120s);
  sweep_iallreduce<tutti::naive>();
  sweep_iallreduce<tutti::ring>();
  sweep_iallreduce<tutti::circulant>();
}

TEST_CASE("a reduce fails at every point of its way") {
  const deadline limit(120s);
  const auto reduce = []<class A>() {
    sweep("reduce by " + std::string(A::name), [](communicator& comm, std::vector<element>& data, const operation& op) {
      for (int root = 0; root < comm.size(); ++root) tutti::reduce<A>(comm, data, op, root);
    });
  };
  reduce.operator()<tutti::flat>();
  reduce.operator()<tutti::binomial>();
  reduce.operator()<tutti::pat>();
}

TEST_CASE("a reduce_scatter fails at every point of its way") {
  const deadline limit(120s);
  const auto reduce_scatter = []<class A>() {
    sweep("reduce_scatter by " + std::string(A::name),
          [](communicator& comm, std::vector<element>& data, const operation& op) {
            tutti::reduce_scatter<A>(comm, data, op);
          });
  };
  reduce_scatter.operator()<tutti::flat>();
  reduce_scatter.operator()<tutti::ring>();
  reduce_scatter.operator()<tutti::bruck>();
  reduce_scatter.operator()<tutti::pat>();
}

TEST_CASE("several pending collectives, one of which fails") {
  const deadline limit(120s);
  sweep(
      "three at once",
      [](communicator& comm, std::vector<element>& data, const operation& op) {
        std::vector<element> second(data);
        std::vector<element> third(data);
        auto first_pending = tutti::iallreduce<tutti::ring>(comm, data, op);
        auto second_pending = tutti::iallreduce<tutti::flat>(comm, second, op);
        auto third_pending = tutti::iallreduce<tutti::circulant>(comm, third, op);
        tutti::barrier(comm);
        second_pending.wait();
        first_pending.wait();
        third_pending.wait();
      },
      false);
}

TEST_CASE("a rank fails at some moment while others move large messages") {
  const deadline limit(240s);
  std::mt19937 random(7);
  struct named_move {
    std::string name;
    std::function<void(communicator&, std::vector<int>&)> move;
  };
  const std::vector<named_move> moves{
      {"broadcast", [](communicator& c, std::vector<int>& data) { tutti::broadcast(c, data, 0); }},
      {"broadcast by binomial",
       [](communicator& c, std::vector<int>& data) { tutti::broadcast<tutti::binomial>(c, data, 1); }},
      {"broadcast by scatter_allgather",
       [](communicator& c, std::vector<int>& data) { tutti::broadcast<tutti::scatter_allgather>(c, data, 1); }},
      {"scatter", [](communicator& c, std::vector<int>& data) { tutti::scatter(c, data, 0); }},
      {"scatter by binomial",
       [](communicator& c, std::vector<int>& data) { tutti::scatter<tutti::binomial>(c, data, 1); }},
      {"gather", [](communicator& c, std::vector<int>& data) { tutti::gather(c, data, 1); }},
      {"gather by binomial",
       [](communicator& c, std::vector<int>& data) { tutti::gather<tutti::binomial>(c, data, 0); }},
      {"allgather", [](communicator& c, std::vector<int>& data) { tutti::allgather(c, data); }},
      {"allgather by ring", [](communicator& c, std::vector<int>& data) { tutti::allgather<tutti::ring>(c, data); }},
      {"alltoall", [](communicator& c, std::vector<int>& data) { tutti::alltoall(c, data); }},
      {"alltoall by bruck", [](communicator& c, std::vector<int>& data) { tutti::alltoall<tutti::bruck>(c, data); }},
      {"allreduce", [](communicator& c, std::vector<int>& data) { tutti::allreduce(c, data, std::plus{}); }},
      {"allreduce by halving_doubling",
       [](communicator& c, std::vector<int>& data) {
         tutti::allreduce<tutti::halving_doubling>(c, data, std::plus{});
       }},
      {"iallreduce", [](communicator& c, std::vector<int>& data) { tutti::iallreduce(c, data, std::plus{}).wait(); }},
  };
  for (const named_move& m : moves) {
    for (int repetition = 0; repetition < (sanitized ? 15 : 40); ++repetition) {
      const int ranks = 2 + repetition % 4;
      const int bad = static_cast<int>(random() % static_cast<unsigned>(ranks));
      const auto wait = std::chrono::microseconds(random() % (sanitized ? 2000 : 500));
      CAPTURE(m.name);
      CAPTURE(ranks);
      CAPTURE(bad);
      // The rank does not come to the call at all: the others are in it, some of them reading each other's buffers.
      const auto ended = outcomes_of_run(ranks, [&](communicator& comm) {
        if (comm.rank() == bad) {
          std::this_thread::sleep_for(wait);
          throw enough{};
        }
        for (;;) {
          const auto data = std::make_unique<std::vector<int>>(static_cast<std::size_t>(ranks) * 30000, 1);
          m.move(comm, *data);
        }
      });
      CHECK(ended.run == outcome{"other", "", -1});
      for (int rank = 0; rank < ranks; ++rank) {
        if (rank == bad) continue;
        CHECK(ended.of[static_cast<std::size_t>(rank)].peer == bad);
      }
      // The rank takes part for a while, and then its deadline passes in the middle: everybody frees at once.
      if (ranks < 3) continue;
      const auto late = outcomes_of_run(ranks, [&](communicator& comm) {
        comm.timeout(std::chrono::microseconds(100) + wait);
        for (int call = 0;; ++call) {
          const auto data = std::make_unique<std::vector<int>>(static_cast<std::size_t>(ranks) * 30000, 1);
          m.move(comm, *data);
          if (comm.rank() == bad && call == 3) std::this_thread::sleep_for(5ms);
        }
      });
      CHECK(late.run.kind == "timed_out");
    }
  }
}
