// SPDX-License-Identifier: BSL-1.0

// Every collective by every algorithm on the simplest transport that there can be, which only sends and receives: the
// way of the executor without views and shared rounds.

#include "transport/queues.hpp"

#include "communicator/outcome.hpp"
#include "deadline.hpp"

#include <doctest/doctest.h>
#include <tutti/tutti.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

using namespace test;
using namespace std::chrono_literals;

namespace {

using communicator = tutti::communicator<queues>;
using ints = std::vector<int>;
using tutti::collective;

int value(int rank, std::size_t i) { return rank * 1000 + static_cast<int>(i % 997); }
ints values(int rank, std::size_t first, std::size_t n) {
  ints result(n);
  for (std::size_t i = 0; i < n; ++i) result[i] = value(rank, first + i);
  return result;
}
ints sums(int ranks, std::size_t n) {
  ints result(n);
  for (int rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < n; ++i) result[i] += value(rank, i);
  return result;
}
/// The ranks' values one after the other.
ints joined(int ranks, std::size_t n) {
  ints result;
  for (int rank = 0; rank < ranks; ++rank) {
    const ints part = values(rank, 0, n);
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

/// Does not commute, and is associative: affine maps x -> ax + b of a ring of integers, one after the other.
struct affine {
  unsigned a;
  unsigned b;
  friend bool operator==(const affine&, const affine&) = default;
};
affine compose(affine f, affine g) { return {f.a * g.a, g.a * f.b + g.b}; }

void expect(bool right, const std::string& what) {
  if (!right) throw std::logic_error("wrong: " + what);
}

struct checked_call {
  std::string name;
  std::function<void(communicator&, std::size_t n)> check;
};

template <class A>
void add_rooted(std::vector<checked_call>& calls) {
  const auto name = std::string(tutti::name_of<A>());
  const auto for_each_root = [&](const std::string& verb, auto check) {
    calls.push_back({verb + " by " + name, [=](communicator& comm, std::size_t n) {
                       for (int root = 0; root < comm.size(); ++root)
                         check(comm, n, root, static_cast<std::size_t>(comm.size()));
                     }});
  };
  if constexpr (tutti::implements<A, collective::broadcast>)
    for_each_root("broadcast", [](communicator& comm, std::size_t n, int root, std::size_t) {
      ints data = values(comm.rank(), 0, n);
      tutti::broadcast<A>(comm, data, root);
      expect(data == values(root, 0, n), "broadcast");
    });
  if constexpr (tutti::implements<A, collective::scatter>)
    for_each_root("scatter", [](communicator& comm, std::size_t n, int root, std::size_t p) {
      ints own(n);
      tutti::scatter<A>(comm, comm.rank() == root ? values(root, 0, n * p) : ints{}, own, root);
      expect(own == values(root, static_cast<std::size_t>(comm.rank()) * n, n), "scatter");
    });
  if constexpr (tutti::implements<A, collective::gather>)
    for_each_root("gather", [](communicator& comm, std::size_t n, int root, std::size_t p) {
      ints all(comm.rank() == root ? n * p : 0);
      tutti::gather<A>(comm, values(comm.rank(), 0, n), all, root);
      if (comm.rank() == root) expect(all == joined(comm.size(), n), "gather");
    });
  if constexpr (tutti::implements<A, collective::reduce>)
    for_each_root("reduce", [](communicator& comm, std::size_t n, int root, std::size_t) {
      ints data = values(comm.rank(), 0, n);
      tutti::reduce<A>(comm, data, std::plus{}, root);
      expect(data == (comm.rank() == root ? sums(comm.size(), n) : values(comm.rank(), 0, n)), "reduce");
    });
}

template <class A>
void add_unrooted(std::vector<checked_call>& calls) {
  const auto name = std::string(tutti::name_of<A>());
  if constexpr (tutti::implements<A, collective::reduce_scatter>)
    calls.push_back({"reduce_scatter by " + name, [](communicator& comm, std::size_t n) {
                       const tutti::layout blocks(n, comm.size());
                       ints own(blocks.size(comm.rank()));
                       tutti::reduce_scatter<A>(comm, values(comm.rank(), 0, n), own, std::plus{});
                       const ints all = sums(comm.size(), n);
                       const auto begin = all.begin() + static_cast<std::ptrdiff_t>(blocks.offset(comm.rank()));
                       expect(own == ints(begin, begin + static_cast<std::ptrdiff_t>(own.size())), "reduce_scatter");
                     }});
  if constexpr (tutti::implements<A, collective::allgather>)
    calls.push_back({"allgather by " + name, [](communicator& comm, std::size_t n) {
                       ints all(n * static_cast<std::size_t>(comm.size()));
                       tutti::allgather<A>(comm, values(comm.rank(), 0, n), all);
                       expect(all == joined(comm.size(), n), "allgather");
                     }});
  if constexpr (tutti::implements<A, collective::allreduce>) {
    calls.push_back({"allreduce by " + name, [](communicator& comm, std::size_t n) {
                       ints data = values(comm.rank(), 0, n);
                       tutti::allreduce<A>(comm, data, std::plus{});
                       expect(data == sums(comm.size(), n), "allreduce");
                     }});
    calls.push_back({"iallreduce by " + name, [](communicator& comm, std::size_t n) {
                       ints sum(n);
                       const ints in = values(comm.rank(), 0, n);
                       auto pending = tutti::iallreduce<A>(comm, in, sum, std::plus{});
                       tutti::barrier(comm);
                       while (comm.rank() == 0 && !pending.test()) std::this_thread::yield();
                       pending.wait();
                       expect(sum == sums(comm.size(), n), "iallreduce");
                     }});
    if constexpr (tutti::schedule_for<collective::allreduce, A>::rank_ordered)
      calls.push_back({"allreduce in rank order by " + name, [](communicator& comm, std::size_t n) {
                         const auto map = [](int rank, std::size_t i) {
                           return affine{static_cast<unsigned>(value(rank, i)) + 1, static_cast<unsigned>(rank)};
                         };
                         std::vector<affine> data(n);
                         std::vector<affine> expected(n, affine{1, 0});
                         for (std::size_t i = 0; i < n; ++i) {
                           data[i] = map(comm.rank(), i);
                           for (int rank = 0; rank < comm.size(); ++rank)
                             expected[i] = compose(expected[i], map(rank, i));
                         }
                         tutti::allreduce<A>(comm, data, compose);
                         expect(data == expected, "allreduce in rank order");
                       }});
  }
  if constexpr (tutti::implements<A, collective::alltoall>)
    calls.push_back({"alltoall by " + name, [](communicator& comm, std::size_t n) {
                       const auto p = static_cast<std::size_t>(comm.size());
                       ints out(n * p);
                       tutti::alltoall<A>(comm, values(comm.rank(), 0, n * p), out);
                       ints expected;
                       for (int rank = 0; rank < comm.size(); ++rank) {
                         const ints part = values(rank, static_cast<std::size_t>(comm.rank()) * n, n);
                         expected.insert(expected.end(), part.begin(), part.end());
                       }
                       expect(out == expected, "alltoall");
                     }});
  if constexpr (tutti::implements<A, collective::barrier>)
    calls.push_back({"barrier by " + name, [](communicator& comm, std::size_t) { tutti::barrier<A>(comm); }});
}

struct checked_algorithm {
  std::vector<checked_call> calls;
  bool (*supports)(int);
};

template <class... A>
std::vector<checked_algorithm> algorithms() {
  std::vector<checked_algorithm> all;
  const auto add = [&]<class B>() {
    all.push_back({{}, [](int ranks) { return tutti::supports<B>(ranks); }});
    add_rooted<B>(all.back().calls);
    add_unrooted<B>(all.back().calls);
  };
  (add.template operator()<A>(), ...);
  return all;
}

}  // namespace

TEST_CASE("every collective by every algorithm, without views and shared rounds") {
  const deadline limit(120s);
  const auto all =
      algorithms<tutti::flat, tutti::ring, tutti::circulant, tutti::pat, tutti::bruck, tutti::hypercube_halving,
                 tutti::hypercube_doubling, tutti::halving_doubling, tutti::recursive_doubling,
                 tutti::recursive_multiplying<4>, tutti::binomial, tutti::naive, tutti::single_master,
                 tutti::scatter_allgather, tutti::reduce_scatter_gather, tutti::dissemination>();
  for (const bool lends : {false, true}) {
    for (const int ranks : {1, 2, 3, 4, 5, 8}) {
      CAPTURE(lends);
      CAPTURE(ranks);
      const auto run = [&] {
        run_on_queues(ranks, lends, [&](communicator& comm) {
          for (const checked_algorithm& algorithm : all) {
            if (!algorithm.supports(ranks)) continue;
            for (const checked_call& call : algorithm.calls) {
              for (const std::size_t n : {0U, 1U, 2U, 7U, 100U}) {
                try {
                  call.check(comm, n);
                } catch (const std::logic_error& e) {
                  throw std::logic_error(call.name + " of " + std::to_string(n) + ": " + e.what());
                }
              }
            }
          }
        });
      };
      CHECK_NOTHROW(run());
    }
  }
}

TEST_CASE("the choice of an algorithm, and averages, on queues") {
  const deadline limit(60s);
  for (const int ranks : {1, 2, 5}) {
    run_on_queues(ranks, true, [](communicator& comm) {
      for (const std::size_t n : {1U, 1000U, 100000U}) {
        ints data = values(comm.rank(), 0, n);
        tutti::allreduce(comm, data, std::plus{});
        expect(data == sums(comm.size(), n), "allreduce");
        ints same(n, 7);
        tutti::allreduce(comm, same, tutti::average{});
        expect(same == ints(n, 7), "average");
        tutti::broadcast(comm, data, comm.size() - 1);
        tutti::barrier(comm);
      }
    });
  }
}

TEST_CASE("messages between two ranks on queues") {
  const deadline limit(60s);
  for (const bool lends : {false, true}) {
    CAPTURE(lends);
    run_on_queues(3, lends, [](communicator& comm) {
      for (const std::size_t n : {0U, 1U, 100000U}) {
        ints in(n);
        const int next = (comm.rank() + 1) % 3;
        const int before = (comm.rank() + 2) % 3;
        tutti::sendrecv(comm, next, values(comm.rank(), 0, n), before, in);
        expect(in == values(before, 0, n), "sendrecv");
        if (comm.rank() == 0) tutti::send(comm, 1, in);
        if (comm.rank() == 1) tutti::recv(comm, 0, in);
        if (comm.rank() == 1) expect(in == values(2, 0, n), "send and recv");
      }
    });
    const auto differing = outcome_of([&] {
      run_on_queues(2, lends, [](communicator& comm) {
        ints data(comm.rank() == 0 ? 10 : 20);
        if (comm.rank() == 0) tutti::send(comm, 1, data);
        if (comm.rank() == 1) tutti::recv(comm, 0, data);
      });
    });
    CHECK(differing.kind == "mismatch");
  }
}

TEST_CASE("failures, mismatches and deadlines on queues") {
  const deadline limit(60s);
  for (const bool lends : {false, true}) {
    CAPTURE(lends);
    const auto failing = outcome_of([&] {
      run_on_queues(3, lends, [](communicator& comm) {
        const auto op = tutti::commutative([bad = comm.rank() == 1](int a, int b) {
          if (bad) throw std::runtime_error("no shoes");
          return a + b;
        });
        const auto end = outcome_of([&] { tutti::allreduce<tutti::ring>(comm, ints(1000), op); });
        if (comm.rank() != 1) {
          expect(end.kind == "peer_failed" && end.peer == 1, "the others' error");
          throw std::runtime_error("a consequence");
        }
        throw std::runtime_error(end.text);
      });
    });
    CHECK(failing.text == "no shoes");

    const auto differing = outcome_of([&] {
      run_on_queues(2, lends, [](communicator& comm) {
        tutti::allreduce<tutti::flat>(comm, ints(comm.rank() == 0 ? 10 : 20), std::plus{});
      });
    });
    CHECK(differing.kind == "mismatch");

    const auto late = outcome_of([&] {
      run_on_queues(2, lends, [](communicator& comm) {
        comm.timeout(20ms);
        if (comm.rank() == 1) std::this_thread::sleep_for(100ms);
        tutti::barrier(comm);
      });
    });
    CHECK(late.kind == "timed_out");
  }
}
