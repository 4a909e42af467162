// SPDX-License-Identifier: BSL-1.0

// What is chosen, why, and that calls take what the explanation says.

#include <tutti/collective/explain.hpp>
#include <tutti/run_simulated.hpp>
#include <tutti/tutti.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "deadline.hpp"

using namespace std::chrono_literals;
using tutti::collective;

namespace {

/// What the text of a mismatch says that this rank called: the algorithm that it took.
template <class Algorithm>
std::string taken_by_allreduce(int ranks, std::size_t floats) {
  std::string text;
  try {
    tutti::run(ranks, [&](auto& comm) {
      std::vector<float> data(floats);
      if (comm.rank() == 0) {
        tutti::allreduce<Algorithm>(comm, data, std::plus{});
      } else {
        tutti::barrier(comm);
      }
    });
  } catch (const tutti::mismatch& e) {
    text = e.what();
  }
  const std::string by = " by ";
  const std::size_t begin = text.find(by, text.find("allreduce of")) + by.size();
  return text.substr(begin, text.find(',', begin) - begin);
}

}  // namespace

TEST_CASE("the explanation names the candidate with the least predicted time, and calls take that one") {
  const test::deadline limit(60s);
  for (const int ranks : {2, 3, 8}) {
    for (const std::size_t floats : {std::size_t{1}, std::size_t{100}, std::size_t{10000}, std::size_t{1000000}}) {
      CAPTURE(ranks);
      CAPTURE(floats);
      tutti::explanation e;
      tutti::run(ranks, [&](auto& comm) {
        if (comm.rank() == 0) e = tutti::explain<collective::allreduce>(comm, floats * sizeof(float));
      });
      REQUIRE(e.candidates.size() > 1);
      const tutti::candidate* best = nullptr;
      for (const tutti::candidate& c : e.candidates) {
        CHECK(c.seconds > 0);
        CHECK(c.refused.empty());
        if (best == nullptr || c.seconds < best->seconds) best = &c;
      }
      CHECK(e.chosen == best->algorithm);
      CHECK(taken_by_allreduce<tutti::automatic>(ranks, floats) == e.chosen);
      const bool tie = std::count_if(e.candidates.begin(), e.candidates.end(),
                                     [&](const tutti::candidate& c) { return c.seconds == best->seconds; }) > 1;
      CHECK(e.reason.starts_with(tie ? "predicted to be as fast as " : "predicted to be faster than "));
    }
  }
}

TEST_CASE("a named algorithm is never replaced") {
  const test::deadline limit(60s);
  CHECK(taken_by_allreduce<tutti::ring>(3, 1) == "ring");
  tutti::run(3, [](auto& comm) {
    const tutti::explanation e = tutti::explain<collective::allreduce, tutti::ring>(comm, 4);
    CHECK(e.chosen == "ring");
    CHECK(e.reason == "the caller named it");
    REQUIRE(e.candidates.size() == 1);
    CHECK(e.candidates[0].rounds == 4);
    CHECK_THROWS_AS((tutti::explain<collective::allreduce, tutti::hypercube_halving>(comm, 4)), tutti::usage_error);
  });
}

TEST_CASE("what may not be taken says why") {
  const test::deadline limit(60s);
  tutti::run(6, [](auto& comm) {
    const auto refusal_of = [](const tutti::explanation& e, const std::string& algorithm) {
      for (const tutti::candidate& c : e.candidates)
        if (c.algorithm == algorithm) return std::string(c.refused);
      return std::string("no such candidate");
    };
    const auto in_order = tutti::explain<collective::reduce_scatter, tutti::automatic, false>(comm, 1000);
    CHECK(refusal_of(in_order, "circulant") == "does not keep rank order");
    CHECK(refusal_of(in_order, "flat").empty());
    CHECK(in_order.chosen == "flat");
    const auto tree = tutti::explain<collective::allreduce, tutti::ordered>(comm, 1000);
    CHECK(refusal_of(tree, "recursive_doubling") == "does not fold along the canonical tree");
    CHECK(refusal_of(tree, "binomial").empty());
  });
}

TEST_CASE("an explanation prints as a table with the choice marked") {
  const test::deadline limit(60s);
  tutti::run(4, [](auto& comm) {
    std::ostringstream out;
    const tutti::explanation e = tutti::explain<collective::allreduce>(comm, 8);
    out << e;
    const std::string text = out.str();
    CHECK(text.starts_with("allreduce of 8 bytes on 4 ranks: " + std::string(e.chosen)));
    for (const tutti::candidate& c : e.candidates) CHECK(text.find(std::string(c.algorithm)) != std::string::npos);
    CHECK(text.find("  * " + std::string(e.chosen)) != std::string::npos);
    CHECK(out.precision() == std::ostringstream().precision());
  });
}

TEST_CASE("a long broadcast travels in segments where messages cost latency, in as many as the explanation tells") {
  const test::deadline limit(60s);
  constexpr std::size_t floats = 1'000'000;
  for (const int ranks : {8, 64}) {
    CAPTURE(ranks);
    tutti::explanation e;
    const auto automatic = tutti::run_simulated(ranks, {}, [&](auto& comm) {
      if (comm.rank() == 0) e = tutti::explain<collective::broadcast>(comm, floats * sizeof(float));
      std::vector<float> data(floats);
      tutti::broadcast(comm, data, 0);
    });
    REQUIRE(e.chosen == "circulant_pipelined");
    const tutti::candidate& taken = *std::find_if(e.candidates.begin(), e.candidates.end(),
                                                  [&](const tutti::candidate& c) { return c.algorithm == e.chosen; });
    CHECK(taken.segments > 1);
    CHECK(static_cast<int>(automatic.messages) == taken.segments * (ranks - 1));
    const auto whole = tutti::run_simulated(ranks, {}, [](auto& comm) {
      std::vector<float> data(floats);
      tutti::broadcast<tutti::binomial>(comm, data, 0);
    });
    CHECK(automatic.makespan < whole.makespan);
  }
}

TEST_CASE("a network that costs nothing gets no more segments than are worth handling") {
  const test::deadline limit(60s);
  const auto report = tutti::run_simulated(3, {.net = {0, 0, 0, 0, 0, 1}}, [](auto& comm) {
    std::vector<float> data(200'000, 1.0F);
    tutti::scan<tutti::chain>(comm, data, std::plus{});
    CHECK(data.back() == static_cast<float>(comm.rank() + 1));
  });
  CHECK(report.messages <= 2 * 4096);
}
