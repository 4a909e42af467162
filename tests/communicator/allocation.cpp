// SPDX-License-Identifier: BSL-1.0

// Memory: blocking calls allocate nothing once they have been done once, and when memory is refused nobody hangs.

#include "communicator/outcome.hpp"
#include "counted_new.hpp"
#include "deadline.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

using namespace test;
using namespace std::chrono_literals;

namespace {

using communicator = tutti::communicator<tutti::threads>;
using buffer = std::vector<float>;

struct named_call {
  std::string name;
  /// Both buffers have a multiple of the number of ranks of elements.
  std::function<void(communicator&, buffer& in, buffer& out)> call;
};

std::span<float> block(communicator& comm, buffer& whole) {
  return std::span(whole).first(whole.size() / static_cast<std::size_t>(comm.size()));
}

template <class A>
void add_rooted(std::vector<named_call>& calls) {
  const auto name = std::string(A::name);
  if constexpr (tutti::implements<A, tutti::collective::broadcast>)
    calls.push_back(
        {"broadcast by " + name, [](communicator& c, buffer& in, buffer&) { tutti::broadcast<A>(c, in, 1); }});
  if constexpr (tutti::implements<A, tutti::collective::scatter>) {
    calls.push_back({"scatter by " + name,
                     [](communicator& c, buffer& in, buffer& out) { tutti::scatter<A>(c, in, block(c, out), 1); }});
    calls.push_back(
        {"scatter in place by " + name, [](communicator& c, buffer& in, buffer&) { tutti::scatter<A>(c, in, 1); }});
  }
  if constexpr (tutti::implements<A, tutti::collective::gather>) {
    calls.push_back({"gather by " + name,
                     [](communicator& c, buffer& in, buffer& out) { tutti::gather<A>(c, block(c, in), out, 1); }});
    calls.push_back(
        {"gather in place by " + name, [](communicator& c, buffer& in, buffer&) { tutti::gather<A>(c, in, 1); }});
  }
  if constexpr (tutti::implements<A, tutti::collective::reduce>) {
    calls.push_back({"reduce by " + name,
                     [](communicator& c, buffer& in, buffer& out) { tutti::reduce<A>(c, in, out, std::plus{}, 1); }});
    calls.push_back({"reduce in place by " + name,
                     [](communicator& c, buffer& in, buffer&) { tutti::reduce<A>(c, in, std::plus{}, 1); }});
  }
}

template <class A>
void add_unrooted(std::vector<named_call>& calls) {
  const auto name = std::string(A::name);
  if constexpr (tutti::implements<A, tutti::collective::reduce_scatter>) {
    calls.push_back({"reduce_scatter by " + name, [](communicator& c, buffer& in, buffer& out) {
                       tutti::reduce_scatter<A>(c, in, block(c, out), std::plus{});
                     }});
    calls.push_back({"reduce_scatter in place by " + name,
                     [](communicator& c, buffer& in, buffer&) { tutti::reduce_scatter<A>(c, in, std::plus{}); }});
  }
  if constexpr (tutti::implements<A, tutti::collective::allgather>) {
    calls.push_back({"allgather by " + name,
                     [](communicator& c, buffer& in, buffer& out) { tutti::allgather<A>(c, block(c, in), out); }});
    calls.push_back(
        {"allgather in place by " + name, [](communicator& c, buffer& in, buffer&) { tutti::allgather<A>(c, in); }});
  }
  if constexpr (tutti::implements<A, tutti::collective::allreduce>) {
    if constexpr (tutti::uniform<tutti::schedule_for<tutti::collective::allreduce, A>>) {
      calls.push_back({"allreduce by " + name, [](communicator& c, buffer& in, buffer& out) {
                         tutti::allreduce<A>(c, in, out, tutti::maximum{});
                       }});
      calls.push_back({"allreduce in place by " + name,
                       [](communicator& c, buffer& in, buffer&) { tutti::allreduce<A>(c, in, tutti::maximum{}); }});
    }
  }
  if constexpr (tutti::implements<A, tutti::collective::alltoall>) {
    calls.push_back(
        {"alltoall by " + name, [](communicator& c, buffer& in, buffer& out) { tutti::alltoall<A>(c, in, out); }});
    calls.push_back(
        {"alltoall in place by " + name, [](communicator& c, buffer& in, buffer&) { tutti::alltoall<A>(c, in); }});
  }
  if constexpr (tutti::implements<A, tutti::collective::scan>)
    calls.push_back(
        {"scan by " + name, [](communicator& c, buffer& in, buffer& out) { tutti::scan<A>(c, in, out, std::plus{}); }});
  if constexpr (tutti::implements<A, tutti::collective::exscan>)
    calls.push_back({"exscan in place by " + name,
                     [](communicator& c, buffer& in, buffer&) { tutti::exscan<A>(c, in, std::plus{}); }});
  if constexpr (tutti::implements<A, tutti::collective::barrier>)
    calls.push_back({"barrier by " + name, [](communicator& c, buffer&, buffer&) { tutti::barrier<A>(c); }});
}

template <class... A>
std::vector<named_call> calls_by() {
  std::vector<named_call> calls;
  (add_rooted<A>(calls), ...);
  (add_unrooted<A>(calls), ...);
  return calls;
}

std::vector<named_call> all_calls() {
  auto calls = calls_by<tutti::flat, tutti::ring, tutti::circulant, tutti::pat, tutti::bruck, tutti::binomial,
                        tutti::naive, tutti::recursive_doubling, tutti::halving_doubling, tutti::single_master,
                        tutti::scatter_allgather, tutti::dissemination, tutti::census>();
  calls.push_back({"allreduce of integers to average", [](communicator& c, buffer& in, buffer&) {
                     const std::span integers(reinterpret_cast<int*>(in.data()), in.size());
                     tutti::allreduce(c, integers, tutti::average{});
                   }});
  calls.push_back({"sendrecv", [](communicator& c, buffer& in, buffer& out) {
                     const int p = c.size();
                     tutti::sendrecv(c, (c.rank() + 1) % p, in, (c.rank() + p - 1) % p, out);
                   }});
  calls.push_back({"send and recv", [](communicator& c, buffer& in, buffer& out) {
                     if (c.rank() == c.size() - 1) tutti::recv(c, 0, out);
                     if (c.rank() == 0) tutti::send(c, c.size() - 1, in);
                   }});
  return calls;
}

}  // namespace

TEST_CASE("blocking calls allocate nothing once they have been done once; not under a sanitizer that allocates" *
          doctest::skip(!counting)) {
  const deadline limit(240s);
  const auto calls = all_calls();
  for (const int ranks : {2, 3, 5}) {
    for (const std::size_t each : {1U, 300U, 20000U}) {
      const std::size_t elements = each * static_cast<std::size_t>(ranks);
      const bool large = each == 20000;
      if (ranks == 5 && (large || sanitized)) continue;
      std::vector<std::vector<std::size_t>> made(calls.size(),
                                                 std::vector<std::size_t>(static_cast<std::size_t>(ranks)));
      tutti::run(ranks, [&](communicator& comm) {
        buffer in(elements, 1.0F);
        buffer out(elements);
        for (std::size_t i = 0; i < calls.size(); ++i) {
          // With one rank slow or all others, so that whoever can run ahead does.
          for (int one = 0; one < 2 * ranks; ++one) {
            const bool slow = (comm.rank() == one % ranks) == (one < ranks);
            for (int repetition = 0; repetition < (large ? 1 : 14); ++repetition) {
              if (slow) std::this_thread::sleep_for(20us);
              calls[i].call(comm, in, out);
            }
          }
          tutti::barrier(comm);
          const std::size_t before = allocations;
          for (int repetition = 0; repetition < (large ? 10 : 50); ++repetition) calls[i].call(comm, in, out);
          made[i][static_cast<std::size_t>(comm.rank())] = allocations - before;
          tutti::barrier(comm);
        }
      });
      for (std::size_t i = 0; i < calls.size(); ++i) {
        CAPTURE(calls[i].name);
        CAPTURE(ranks);
        CAPTURE(each);
        for (const std::size_t count : made[i]) CHECK(count == 0);
      }
    }
  }
}

TEST_CASE("a rank that is refused memory throws, and nobody hangs; not under a sanitizer that allocates" *
          doctest::skip(!counting)) {
  const deadline limit(240s);
  auto calls = all_calls();
  calls.push_back({"iallreduce", [](communicator& c, buffer& in, buffer&) {
                     auto pending = tutti::iallreduce<tutti::ring>(c, in, std::plus{});
                     tutti::barrier(c);
                     pending.wait();
                   }});
  calls.push_back({"iallreduce of integers to average", [](communicator& c, buffer& in, buffer&) {
                     const std::span integers(reinterpret_cast<int*>(in.data()), in.size());
                     tutti::iallreduce(c, integers, tutti::average{}).wait();
                   }});
  int named = 0;
  for (const int ranks : {2, 3}) {
    for (const std::size_t each : {1U, 500U, 20000U}) {
      if (sanitized && each == 20000) continue;
      const std::size_t elements = each * static_cast<std::size_t>(ranks);
      for (const named_call& c : calls) {
        for (std::size_t nth = 1;; ++nth) {
          CAPTURE(c.name);
          CAPTURE(ranks);
          CAPTURE(each);
          CAPTURE(nth);
          bool reached = false;
          const auto ended = outcomes_of_run(ranks, [&](communicator& comm) {
            buffer in(elements, 1.0F);
            buffer out(elements);
            const bool bad = comm.rank() == ranks - 1;
            if (bad) refused = nth;
            try {
              for (int repetition = 0; repetition < 2; ++repetition) c.call(comm, in, out);
            } catch (...) {
              if (bad) {
                reached = refused == 0;
                refused = 0;
              }
              throw;
            }
            if (bad) {
              reached = refused == 0;
              refused = 0;
            }
          });
          if (!reached) {
            CHECK(ended.run == outcome{});
            break;
          }
          // Itself, or in the words of the rank's later call, where a pending collective kept it.
          const bool told = contains(ended.run.text, "the system refused ");
          named += told ? 1 : 0;
          CHECK((told || contains(ended.run.text, "bad_alloc")));
          REQUIRE(nth < 200);
        }
      }
    }
  }
  CHECK(named > 0);
}
