// SPDX-License-Identifier: BSL-1.0

// Faults of semantics and numbers that other libraries have had. The conformance suite covers the same ground widely;
// each case here is one of those faults, in few lines.

#include "communicator/outcome.hpp"
#include "deadline.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using namespace test;
using namespace std::chrono_literals;

namespace {

using communicator = tutti::communicator<tutti::threads>;

void expect(bool right, const std::string& what) {
  if (!right) throw std::logic_error("wrong: " + what);
}

template <class F>
void check_run(int ranks, F&& work) {
  CAPTURE(ranks);
  CHECK(outcome_of([&] { tutti::run(ranks, work); }) == outcome{});
}

/// `f.template operator()<A>()` for every algorithm of allreduce.
template <class F>
void for_each_allreduce(F&& f) {
  const auto all = [&]<class... A>() { (f.template operator()<A>(), ...); };
  all.template operator()<tutti::automatic, tutti::naive, tutti::flat, tutti::single_master, tutti::binomial,
                          tutti::ring, tutti::circulant, tutti::pat, tutti::bruck, tutti::recursive_doubling,
                          tutti::halving_doubling, tutti::recursive_multiplying<4>>();
}

}  // namespace

TEST_CASE("F7 a reduce does not look at the output of other ranks, and nobody's input changes") {
  const deadline limit(60s);
  for (const int ranks : {2, 3, 5, 8})
    check_run(ranks, [&](communicator& comm) {
      for (const std::size_t n : {1U, 40U, 2000U, 50000U}) {
        for (int call = 0; call < 20; ++call) {
          const int root = call % ranks;
          std::vector<int> in(n, comm.rank() + 1);
          const std::vector<int> before = in;
          std::vector<int> out(comm.rank() == root ? n : 0, -1515870811);
          tutti::reduce(comm, in, out, std::plus{}, root);
          expect(in == before, "the input changed");
          if (comm.rank() == root) expect(out == std::vector<int>(n, ranks * (ranks + 1) / 2), "the sum");
          // A poisoned output of full size on ranks that are not the root stays as it is.
          std::vector<int> poisoned(n, -1515870811);
          tutti::reduce<tutti::binomial>(comm, in, poisoned, std::plus{}, root);
          expect(poisoned[n - 1] == (comm.rank() == root ? ranks * (ranks + 1) / 2 : -1515870811), "poison");
          expect(in == before, "the input changed");
          // And none at all.
          tutti::reduce(comm, in, std::span<int>(out.data(), out.size()), std::plus{}, root);
        }
      }
    });
}

TEST_CASE("F9 operations that do not commute are applied in rank order, and write to neither operand") {
  const deadline limit(60s);
  struct matrix {
    std::array<unsigned, 4> m;
    bool operator==(const matrix&) const = default;
  };
  const auto product = [](const matrix& a, const matrix& b) {
    return matrix{{a.m[0] * b.m[0] + a.m[1] * b.m[2], a.m[0] * b.m[1] + a.m[1] * b.m[3],
                   a.m[2] * b.m[0] + a.m[3] * b.m[2], a.m[2] * b.m[1] + a.m[3] * b.m[3]}};
  };
  const auto of = [](int rank, std::size_t i) {
    return matrix{
        {static_cast<unsigned>(rank) + 1, static_cast<unsigned>(i % 7), 1, static_cast<unsigned>(rank * rank)}};
  };
  for (const int ranks : {2, 3, 4, 5, 7, 8})
    for (const std::size_t n : {1U, 10U, 1000U})
      check_run(ranks, [&](communicator& comm) {
        std::vector<matrix> in(n);
        std::vector<matrix> expected(n);
        for (std::size_t i = 0; i < n; ++i) {
          in[i] = of(comm.rank(), i);
          expected[i] = of(0, i);
          for (int rank = 1; rank < ranks; ++rank) expected[i] = product(expected[i], of(rank, i));
        }
        const std::vector<matrix> before = in;
        std::vector<matrix> out(n);
        const auto check = [&](const char* algorithm) {
          expect(in == before, std::string("the input changed by ") + algorithm);
          expect(out == expected, std::string("order of ") + algorithm);
          out.assign(n, matrix{});
        };
        tutti::allreduce(comm, in, out, product);
        check("automatic");
        tutti::allreduce<tutti::naive>(comm, in, out, product);
        check("naive");
        tutti::allreduce<tutti::flat>(comm, in, out, product);
        check("flat");
        tutti::allreduce<tutti::recursive_doubling>(comm, in, out, product);
        check("recursive_doubling");
        tutti::allreduce<tutti::halving_doubling>(comm, in, out, product);
        check("halving_doubling");
        for (int root = 0; root < ranks; ++root) {
          tutti::reduce(comm, in, out, product, root);
          if (comm.rank() == root) check("reduce");
        }
      });
}

TEST_CASE("F10 a NaN on any rank makes minimum and maximum NaN on every rank") {
  const deadline limit(60s);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int ranks = 2; ranks <= 9; ++ranks)
    check_run(ranks, [&](communicator& comm) {
      for (int holder = 0; holder < ranks; ++holder) {
        for_each_allreduce([&]<class A>() {
          const std::string name(A::name);
          std::vector<double> data(19, comm.rank() == holder ? nan : 5.0 + comm.rank());
          tutti::allreduce<A>(comm, data, tutti::maximum{});
          for (const double d : data) expect(std::isnan(d), "maximum by " + name);
          data.assign(19, comm.rank() == holder ? nan : 5.0 + comm.rank());
          tutti::allreduce<A>(comm, data, tutti::minimum{});
          for (const double d : data) expect(std::isnan(d), "minimum by " + name);
          // Of zeros, the negative one is less.
          data.assign(19, comm.rank() == holder ? -0.0 : 0.0);
          tutti::allreduce<A>(comm, data, tutti::minimum{});
          for (const double d : data) expect(std::signbit(d), "minimum of zeros by " + name);
          data.assign(19, comm.rank() == holder ? 0.0 : -0.0);
          tutti::allreduce<A>(comm, data, tutti::maximum{});
          for (const double d : data) expect(!std::signbit(d), "maximum of zeros by " + name);
        });
      }
    });
}

TEST_CASE("F11 averages of integers are exact, by every algorithm") {
  const deadline limit(60s);
  for (const int ranks : {1, 2, 3, 5, 8})
    check_run(ranks, [&](communicator& comm) {
      const auto check = [&]<class A, class T>(T mine, T expected) {
        std::vector<T> data(11, mine);
        tutti::allreduce<A>(comm, data, tutti::average{});
        expect(data == std::vector<T>(11, expected),
               std::string(A::name) + ": " + std::to_string(data[0]) + " is not " + std::to_string(expected));
      };
      const int rank = comm.rank();
      for_each_allreduce([&]<class A>() {
        const auto largest = std::numeric_limits<int>::max();
        check.template operator()<A, int>(largest, largest);
        check.template operator()<A, int>(std::numeric_limits<int>::min(), std::numeric_limits<int>::min());
        // Rounded toward zero, after the sum and not before.
        check.template operator()<A, int>(-rank, -(ranks - 1) * ranks / 2 / ranks);
        check.template operator()<A, int>(rank == 0 ? 1 : 0, ranks == 1 ? 1 : 0);
      });
      const auto automatic = [&]<class T>() {
        for (const T value : {std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), T(1), T(0)})
          check.template operator()<tutti::automatic, T>(value, value);
      };
      automatic.template operator()<std::int8_t>();
      automatic.template operator()<std::uint8_t>();
      automatic.template operator()<std::int64_t>();
      automatic.template operator()<std::uint64_t>();
    });
}

TEST_CASE("F13 every rank has the same bits, and every run") {
  const deadline limit(60s);
  for (const int ranks : {2, 3, 5, 8}) {
    for_each_allreduce([&]<class A>() {
      const std::string name(A::name);
      CAPTURE(name);
      for (const std::size_t n : {1U, 63U, 5000U}) {
        std::vector<std::vector<float>> results;
        for (int repetition = 0; repetition < 3; ++repetition) {
          std::vector<std::vector<float>> of(static_cast<std::size_t>(ranks));
          check_run(ranks, [&](communicator& comm) {
            std::mt19937 random(static_cast<unsigned>(comm.rank()) + 1);
            std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
            std::vector<float> data(n);
            for (float& x : data) x = uniform(random) * std::pow(10.0F, static_cast<float>(random() % 12));
            tutti::allreduce<A>(comm, data, std::plus{});
            of[static_cast<std::size_t>(comm.rank())] = std::move(data);
          });
          results.insert(results.end(), of.begin(), of.end());
        }
        for (const auto& result : results) CHECK(std::memcmp(result.data(), results[0].data(), n * sizeof(float)) == 0);
      }
    });
  }
}
