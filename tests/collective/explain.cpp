// SPDX-License-Identifier: BSL-1.0

// What is chosen, why, and that calls take what the explanation says.

#include <tutti/collective/explain.hpp>
#include <tutti/run_simulated.hpp>
#include <tutti/tutti.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iomanip>
#include <locale>
#include <sstream>
#include <string>
#include <vector>

#include "deadline.hpp"

using namespace std::chrono_literals;
using tutti::collective;

namespace {

/// What the text of a mismatch says that this rank called: the algorithm that it took.
template <class Algorithm, class T = float, class Op = std::plus<>, class Run>
std::string taken_by_allreduce(Run&& run, std::size_t elements) {
  std::string text;
  try {
    run([&](auto& comm) {
      std::vector<T> data(elements);
      if (comm.rank() == 0) {
        tutti::allreduce<Algorithm>(comm, data, Op{});
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

/// Calls take what the explanation that is told element type and operation says. Returns how often the bytes alone
/// would have said something else.
template <class T, class Op>
int check_choices() {
  int told_otherwise = 0;
  for (const int ranks : {3, 8}) {
    const auto run = [&](auto&& f) { tutti::run_simulated(ranks, {}, f); };
    for (std::size_t elements = 1; elements < 20'000; elements = elements * 2 + 1) {
      CAPTURE(ranks);
      CAPTURE(elements);
      tutti::explanation e;
      tutti::explanation by_bytes;
      run([&](auto& comm) {
        if (comm.rank() != 0) return;
        e = tutti::explain<collective::allreduce, tutti::automatic, T, Op>(comm, elements);
        by_bytes = tutti::explain<collective::allreduce>(comm, elements * sizeof(T));
      });
      CHECK(e.elements == elements);
      CHECK(e.bytes == elements * sizeof(T));
      CHECK(taken_by_allreduce<tutti::automatic, T, Op>(run, elements) == e.chosen);
      for (const tutti::candidate& c : e.candidates) CHECK(c.bytes == elements * sizeof(tutti::accumulator_t<T, Op>));
      told_otherwise += e.chosen != by_bytes.chosen ? 1 : 0;
    }
  }
  return told_otherwise;
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
      CHECK(taken_by_allreduce<tutti::automatic>([&](auto&& f) { tutti::run(ranks, f); }, floats) == e.chosen);
      const bool tie = std::count_if(e.candidates.begin(), e.candidates.end(),
                                     [&](const tutti::candidate& c) { return c.seconds == best->seconds; }) > 1;
      CHECK(e.reason.starts_with(tie ? "predicted to be as fast as " : "predicted to be faster than "));
    }
  }
}

TEST_CASE("told element type and operation, the explanation counts accumulators, as calls do") {
  const test::deadline limit(60s);
  CHECK(check_choices<float, std::plus<>>() == 0);
  CHECK(check_choices<int, tutti::average>() > 0);
  CHECK(check_choices<float, tutti::reproducible_sum>() > 0);
  CHECK(check_choices<tutti::bfloat16, std::plus<>>() > 0);
  // Threads have candidates that fold all at once, and send elements as they are.
  tutti::run(4, [](auto& comm) {
    for (const auto& c :
         tutti::explain<collective::allreduce, tutti::automatic, std::int8_t, tutti::average>(comm, 1000).candidates)
      CHECK(c.bytes == (c.algorithm == "flat" || c.algorithm == "naive" ? 1000 : 8000));
  });
  tutti::run_simulated(5, {}, [](auto& comm) {
    const auto e = tutti::explain<collective::allreduce, tutti::automatic, std::int8_t, tutti::average>(comm, 1000);
    const auto wide = tutti::explain<collective::allreduce>(comm, 8000);
    CHECK(e.bytes == 1000);
    CHECK(e.chosen == wide.chosen);
    REQUIRE(e.candidates.size() == wide.candidates.size());
    for (std::size_t i = 0; i < e.candidates.size(); ++i) {
      CHECK(e.candidates[i].bytes == 8000);
      CHECK(e.candidates[i].seconds == wide.candidates[i].seconds);
    }
    const auto named = tutti::explain<collective::scan, tutti::chain, float, std::plus<>>(comm, 3);
    CHECK(named.chosen == "chain");
    CHECK(named.candidates[0].segments <= 3);  // of an element each
    const auto in_order = tutti::explain<collective::reduce_scatter, tutti::automatic, int, std::minus<>>(comm, 10);
    CHECK(in_order.chosen == "flat");
    CHECK(in_order.reason == "the only one that may be taken");
  });
}

TEST_CASE("a named algorithm is never replaced") {
  const test::deadline limit(60s);
  CHECK(taken_by_allreduce<tutti::ring>([](auto&& f) { tutti::run(3, f); }, 1) == "ring");
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
    const auto typed = tutti::explain<collective::allreduce, tutti::ring, int, tutti::average>(comm, 100);
    std::ostringstream of_typed;
    of_typed << typed;
    CHECK(of_typed.str().starts_with("allreduce of 100 x int with " + std::string(tutti::type_name<tutti::average>()) +
                                     " on 4 ranks: ring, the caller named it\n  * ring "));
    CHECK(of_typed.str().ends_with(", a vector of 800 bytes\n"));
  });
}

TEST_CASE("how the stream shows numbers has no part in an explanation, and stays") {
  const test::deadline limit(60s);
  tutti::run_simulated(20, {}, [](auto& comm) {
    if (comm.rank() != 0) return;
    const auto e = tutti::explain<collective::broadcast>(comm, 1'234'567);
    std::ostringstream plain;
    plain << e;
    CHECK(plain.str().starts_with("broadcast of 1234567 bytes on 20 ranks: "));
    struct points : std::numpunct<char> {
      char do_decimal_point() const override { return ';'; }
      char do_thousands_sep() const override { return '_'; }
      std::string do_grouping() const override { return "\3"; }
    };
    std::ostringstream odd;
    odd.imbue(std::locale(std::locale::classic(), new points));
    odd << std::hex << std::showbase << std::showpos << std::uppercase << std::scientific << std::left
        << std::setprecision(1) << std::setfill('*');
    const auto flags = odd.flags();
    odd << e;
    CHECK(odd.str() == plain.str());
    CHECK(odd.flags() == flags);
    CHECK(odd.precision() == 1);
    CHECK(odd.fill() == '*');
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
