// SPDX-License-Identifier: BSL-1.0

// What one rank alone can see to be wrong is thrown on that rank before anything is sent, and does no harm.

#include "communicator/outcome.hpp"
#include "deadline.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

using namespace test;

namespace {

using communicator = tutti::communicator<tutti::threads>;

struct wrong_call {
  std::string says;  // after "COLLECTIVE on rank R of P: "; P stands for the number of ranks, 2P for twice that
  std::string collective;
  std::function<void(communicator&)> call;
};

std::vector<int> ints(std::size_t n) { return std::vector<int>(n); }
std::size_t ranks_of(communicator& c) { return static_cast<std::size_t>(c.size()); }

void replace(std::string& text, const std::string& what, const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

template <class F>
std::vector<wrong_call> bad_roots(const std::string& collective, F call) {
  return {
      {"root -1 is not in [0, P)", collective, [=](communicator& c) { call(c, -1); }},
      {"root P is not in [0, P)", collective, [=](communicator& c) { call(c, c.size()); }},
      {"root 2147483647 is not in [0, P)", collective, [=](communicator& c) { call(c, 2147483647); }},
  };
}

/// With a buffer of 4P + 3 elements.
template <class F>
std::function<void(communicator&)> overlapping(F call) {
  return [=](communicator& c) {
    auto memory = ints(4 * ranks_of(c) + 3);
    const std::span all(memory);
    call(c, all);
  };
}

const std::string overlap = "input and output overlap; use the form with one buffer to work in place";

// The root is the calling rank where only the root's buffers are looked at.
std::vector<wrong_call> wrong_calls() {
  std::vector<wrong_call> all{
      {"the root's input holds 2P1 elements, needs 2P", "scatter",
       [](communicator& c) { tutti::scatter(c, ints(2 * ranks_of(c) + 1), ints(2), c.rank()); }},
      {"the root's input holds 0 elements, needs 2P", "scatter",
       [](communicator& c) { tutti::scatter(c, ints(0), ints(2), c.rank()); }},
      {"the buffer holds 2P1 elements, not a multiple of P ranks", "scatter",
       [](communicator& c) { tutti::scatter(c, ints(2 * ranks_of(c) + 1), 0); }},
      {overlap, "scatter", overlapping([](communicator& c, std::span<int> s) {
         tutti::scatter(c, s.first(4 * ranks_of(c)), s.subspan(1, 4), c.rank());
       })},
      {"the root's output holds 2P1 elements, needs 2P", "gather",
       [](communicator& c) { tutti::gather(c, ints(2), ints(2 * ranks_of(c) + 1), c.rank()); }},
      {"the buffer holds 2P1 elements, not a multiple of P ranks", "gather",
       [](communicator& c) { tutti::gather(c, ints(2 * ranks_of(c) + 1), 0); }},
      {overlap, "gather", overlapping([](communicator& c, std::span<int> s) {
         tutti::gather(c, s.subspan(1, 4), s.first(4 * ranks_of(c)), c.rank());
       })},
      {"the root's output holds 4 elements, needs 5", "reduce",
       [](communicator& c) { tutti::reduce(c, ints(5), ints(4), std::plus{}, c.rank()); }},
      {overlap, "reduce", overlapping([](communicator& c, std::span<int> s) {
         tutti::reduce(c, s.first(4), s.subspan(3, 4), std::plus{}, c.rank());
       })},
      {"the output holds 5 elements, needs 2", "reduce_scatter",
       [](communicator& c) { tutti::reduce_scatter(c, ints(2 * ranks_of(c)), ints(5), std::plus{}); }},
      {overlap, "reduce_scatter", overlapping([](communicator& c, std::span<int> s) {
         tutti::reduce_scatter(c, s.first(4 * ranks_of(c)), s.subspan(1, 4), std::plus{});
       })},
      {"the output holds 2P1 elements, needs 2P", "allgather",
       [](communicator& c) { tutti::allgather(c, ints(2), ints(2 * ranks_of(c) + 1)); }},
      {"the buffer holds 2P1 elements, not a multiple of P ranks", "allgather",
       [](communicator& c) { tutti::allgather(c, ints(2 * ranks_of(c) + 1)); }},
      {overlap, "allgather",
       overlapping([](communicator& c, std::span<int> s) { tutti::allgather(c, s.last(4), s.last(4 * ranks_of(c))); })},
      {"the output holds 6 elements, needs 5", "allreduce",
       [](communicator& c) { tutti::allreduce(c, ints(5), ints(6), std::plus{}); }},
      {"the output holds 0 elements, needs 5", "allreduce",
       [](communicator& c) { tutti::allreduce(c, ints(5), ints(0), std::plus{}); }},
      {overlap, "allreduce", overlapping([](communicator& c, std::span<int> s) {
         tutti::allreduce(c, s.first(4), s.subspan(1, 4), std::plus{});
       })},
      {overlap, "allreduce", overlapping([](communicator& c, std::span<int> s) {
         tutti::allreduce(c, s.first(4), s.first(4), std::plus{});
       })},
      {"the output holds 6 elements, needs 5", "allreduce",
       [](communicator& c) {
         auto out = ints(6);
         tutti::iallreduce(c, ints(5), out, std::plus{}).wait();
       }},
      {overlap, "allreduce", overlapping([](communicator& c, std::span<int> s) {
         tutti::iallreduce(c, s.first(4), s.subspan(3, 4), std::plus{}).wait();
       })},
      {"the input holds 2P1 elements, not a multiple of P ranks", "alltoall",
       [](communicator& c) { tutti::alltoall(c, ints(2 * ranks_of(c) + 1), ints(2 * ranks_of(c) + 1)); }},
      {"the output holds 2P1 elements, needs 2P", "alltoall",
       [](communicator& c) { tutti::alltoall(c, ints(2 * ranks_of(c)), ints(2 * ranks_of(c) + 1)); }},
      {"the buffer holds 2P1 elements, not a multiple of P ranks", "alltoall",
       [](communicator& c) { tutti::alltoall(c, ints(2 * ranks_of(c) + 1)); }},
      {overlap, "alltoall", overlapping([](communicator& c, std::span<int> s) {
         tutti::alltoall(c, s.first(4 * ranks_of(c)), s.last(4 * ranks_of(c)));
       })},
  };
  const auto add = [&](std::vector<wrong_call> more) { all.insert(all.end(), more.begin(), more.end()); };
  add(bad_roots("broadcast", [](communicator& c, int root) { tutti::broadcast(c, ints(3), root); }));
  add(bad_roots("scatter", [](communicator& c, int root) { tutti::scatter(c, ints(0), ints(3), root); }));
  add(bad_roots("scatter", [](communicator& c, int root) { tutti::scatter(c, ints(3 * ranks_of(c)), root); }));
  add(bad_roots("gather", [](communicator& c, int root) { tutti::gather(c, ints(3), ints(0), root); }));
  add(bad_roots("gather", [](communicator& c, int root) { tutti::gather(c, ints(3 * ranks_of(c)), root); }));
  add(bad_roots("reduce", [](communicator& c, int root) { tutti::reduce(c, ints(3), ints(0), std::plus{}, root); }));
  add(bad_roots("reduce", [](communicator& c, int root) { tutti::reduce(c, ints(3), std::plus{}, root); }));
  return all;
}

template <class A>
std::vector<wrong_call> unsupported() {
  const std::string says = "algorithm " + std::string(A::name) + " does not support this number of ranks";
  return {
      {says, "broadcast", [](communicator& c) { tutti::broadcast<A>(c, ints(3), 0); }},
      {says, "scatter", [](communicator& c) { tutti::scatter<A>(c, ints(3 * ranks_of(c)), 0); }},
      {says, "gather", [](communicator& c) { tutti::gather<A>(c, ints(3 * ranks_of(c)), 0); }},
      {says, "reduce", [](communicator& c) { tutti::reduce<A>(c, ints(3), std::plus{}, 0); }},
      {says, "reduce_scatter", [](communicator& c) { tutti::reduce_scatter<A>(c, ints(3), std::plus{}); }},
      {says, "allgather", [](communicator& c) { tutti::allgather<A>(c, ints(3 * ranks_of(c))); }},
      {says, "allreduce", [](communicator& c) { tutti::allreduce<A>(c, ints(3), std::plus{}); }},
      {says, "allreduce",
       [](communicator& c) {
         auto data = ints(3);
         tutti::iallreduce<A>(c, data, std::plus{}).wait();
       }},
      {says, "alltoall", [](communicator& c) { tutti::alltoall<A>(c, ints(3 * ranks_of(c))); }},
      {says, "barrier", [](communicator& c) { tutti::barrier<A>(c); }},
  };
}

void check_usable(communicator& comm) {
  std::vector<int> sum(100, comm.rank());
  tutti::allreduce(comm, sum, std::plus{});
  if (sum != std::vector<int>(100, comm.size() * (comm.size() - 1) / 2)) throw std::logic_error("wrong sum");
}

void check(const std::vector<wrong_call>& calls, int ranks) {
  for (const wrong_call& wrong : calls) {
    std::string says = wrong.says;
    replace(says, "2P1", std::to_string(2 * ranks + 1));
    replace(says, "2P", std::to_string(2 * ranks));
    replace(says, "P", std::to_string(ranks));
    CAPTURE(wrong.collective);
    CAPTURE(says);
    CAPTURE(ranks);
    std::vector<outcome> of(static_cast<std::size_t>(ranks));
    const auto ended = outcomes_of_run(ranks, [&](communicator& comm) {
      check_usable(comm);
      // All ranks, then one alone.
      of[static_cast<std::size_t>(comm.rank())] = outcome_of([&] { wrong.call(comm); });
      check_usable(comm);
      if (comm.rank() == ranks / 2) {
        const auto again = outcome_of([&] { wrong.call(comm); });
        if (!(again == of[static_cast<std::size_t>(comm.rank())]))
          throw std::logic_error("another error: " + again.text);
      }
      check_usable(comm);
    });
    CHECK(ended.run == outcome{});
    for (int rank = 0; rank < ranks; ++rank) {
      const outcome& o = of[static_cast<std::size_t>(rank)];
      CHECK(o.kind == "usage_error");
      CHECK(o.text == wrong.collective + " on rank " + std::to_string(rank) + " of " + std::to_string(ranks) + ": " +
                          says + ": wrong use");
    }
  }
}

}  // namespace

TEST_CASE("wrong roots, sizes and overlaps are told at once, and the communicator stays usable") {
  const deadline limit(std::chrono::seconds(60));
  for (const int ranks : {2, 3, 5}) check(wrong_calls(), ranks);
}

TEST_CASE("the same on one rank alone in the world") {
  const deadline limit(std::chrono::seconds(60));
  auto calls = wrong_calls();
  // Nothing is not a multiple of one, and of buffers of one rank not all overlap.
  std::erase_if(calls, [](const wrong_call& c) { return contains(c.says, "multiple"); });
  check(calls, 1);
}

TEST_CASE("hypercubes refuse numbers of ranks that are no power of two") {
  const deadline limit(std::chrono::seconds(60));
  for (const int ranks : {3, 5, 6, 7}) {
    check(unsupported<tutti::hypercube_halving>(), ranks);
    check(unsupported<tutti::hypercube_doubling>(), ranks);
  }
}

TEST_CASE("fewer ranks than one") {
  for (const int ranks : {0, -1, -2147483647 - 1}) {
    const auto end = outcome_of([&] { tutti::run(ranks, [](auto&) {}); });
    CHECK(end.kind == "usage_error");
    CHECK(contains(end.text, "run: number of ranks is " + std::to_string(ranks) + ", must be at least 1"));
  }
}

TEST_CASE("the codes of errors") {
  const auto code = [](auto&& work) {
    try {
      work();
    } catch (const tutti::error& e) {
      return e.code();
    }
    return std::error_code();
  };
  CHECK(code([] { tutti::run(0, [](auto&) {}); }) == tutti::errc::usage);
  CHECK(code([] { tutti::run(2, [](auto& comm) { tutti::broadcast(comm, ints(3), comm.rank()); }); }) ==
        tutti::errc::mismatch);
  CHECK(code([] {
          tutti::run(2, [](auto& comm) {
            if (comm.rank() == 0) tutti::barrier(comm);
          });
        }) == tutti::errc::peer_failed);
  CHECK(code([] {
          tutti::run(2, [](auto& comm) {
            comm.timeout(std::chrono::milliseconds(5));
            if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
            tutti::barrier(comm);
          });
        }) == tutti::errc::timed_out);
}
