// SPDX-License-Identifier: BSL-1.0

// MPI's own collectives give what the library's do: every type and operation, more elements than MPI counts, callables
// with a state and such as throw.

#include "transport/mpi_ranks.hpp"

#include <tutti/tutti.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "communicator/outcome.hpp"

namespace {

using communicator = tutti::communicator<tutti::mpi>;

/// Associative, and it does not commute: the last one wins, unless it is nothing.
struct last {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return b == T{} ? a : b;
  }
};

struct alignas(64) wide {
  int value;
  friend bool operator==(const wide&, const wide&) = default;
};
struct odd {
  std::array<char, 7> bytes;
  friend bool operator==(const odd&, const odd&) = default;
};

template <class T>
std::vector<T> contribution(int rank, std::size_t n) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const int number = (rank * 5 + static_cast<int>(i) * 3) % 7;
    if constexpr (std::is_same_v<T, odd>) {
      values[i].bytes.fill(static_cast<char>(number));
    } else if constexpr (std::is_same_v<T, wide>) {
      values[i] = {number};
    } else {
      values[i] = static_cast<T>(number);
    }
  }
  return values;
}

template <class T>
bool same(std::span<const T> a, std::span<const T> b) {
  if constexpr (std::is_same_v<T, wide>) return std::equal(a.begin(), a.end(), b.begin(), b.end());  // it has padding
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// Every reduction of n elements, native beside flat, which keeps rank order.
template <class T, class Op>
bool folds_alike(communicator& comm, Op op, std::size_t n = 11) {
  bool right = true;
  const std::vector<T> in = contribution<T>(comm.rank(), n);
  std::vector<T> expected(n);
  tutti::allreduce<tutti::flat>(comm, in, expected, op);
  std::vector<T> out(n);
  tutti::allreduce<tutti::native>(comm, in, out, op);
  right &= same<T>(out, expected);
  out = in;
  tutti::allreduce<tutti::native>(comm, out, op);
  right &= same<T>(out, expected);
  out = in;
  tutti::reduce<tutti::native>(comm, out, op, 1);
  right &= same<T>(out, comm.rank() == 1 ? expected : in);
  const tutti::layout blocks(n, comm.size());
  const auto own = std::span<const T>(expected).subspan(blocks.offset(comm.rank()), blocks.size(comm.rank()));
  out = in;
  right &= same<T>(tutti::reduce_scatter<tutti::native>(comm, out, op), own);
  std::vector<T> block(own.size());
  tutti::reduce_scatter<tutti::native>(comm, in, block, op);
  right &= same<T>(block, own);
  return right;
}
/// And the prefixes.
template <class T, class Op>
bool scans_alike(communicator& comm, Op op, std::size_t n = 11) {
  bool right = true;
  const std::vector<T> in = contribution<T>(comm.rank(), n);
  std::vector<T> expected(n), out(n);
  tutti::scan<tutti::recursive_doubling>(comm, in, expected, op);
  tutti::scan<tutti::native>(comm, in, out, op);
  right &= same<T>(out, expected);
  expected = out = in;
  tutti::exscan<tutti::recursive_doubling>(comm, expected, op);
  tutti::exscan<tutti::native>(comm, out, op);
  right &= same<T>(out, expected);
  return right;
}

template <class T>
void check_numbers(communicator& comm) {
  CAPTURE(tutti::type_name<T>());
  CHECK(folds_alike<T>(comm, std::plus<>{}));
  CHECK(folds_alike<T>(comm, std::multiplies<T>{}));
  if constexpr (!std::is_same_v<T, std::complex<double>>) {
    CHECK(folds_alike<T>(comm, tutti::minimum{}));
    CHECK(folds_alike<T>(comm, tutti::maximum{}));
  }
  if constexpr (std::is_integral_v<T>) {
    CHECK(folds_alike<T>(comm, std::bit_and<>{}));
    CHECK(folds_alike<T>(comm, std::bit_or<>{}));
    CHECK(folds_alike<T>(comm, std::bit_xor<T>{}));
  }
  if constexpr (std::is_arithmetic_v<T>) {
    CHECK(folds_alike<T>(comm, std::logical_and<>{}));
    CHECK(folds_alike<T>(comm, std::logical_or<>{}));
  }
}

// A rank that calls what others do not come to does not wait for them then.
bool broadcasts = true;

}  // namespace

// In front of MPI's own.
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  return broadcasts ? PMPI_Bcast(data, count, type, root, comm) : MPI_SUCCESS;
}

TEST_CASE("native folds every type by every operation") {
  const test::deadline limit(std::chrono::seconds(100));
  test::run_mpi_on(4, [](communicator& comm) {
    check_numbers<char>(comm);
    check_numbers<std::uint16_t>(comm);
    check_numbers<int>(comm);
    check_numbers<unsigned long long>(comm);
    std::array<bool, 2> both{comm.rank() != 2, true}, either{comm.rank() == 2, false}, odd_ones = both;
    tutti::allreduce<tutti::native>(comm, both, std::logical_and<>{});
    tutti::allreduce<tutti::native>(comm, either, std::logical_or<>{});
    tutti::allreduce<tutti::native>(comm, odd_ones, std::bit_xor<>{});
    CHECK(both == std::array{false, true});
    CHECK(either == std::array{true, false});
    CHECK(odd_ones == std::array{true, false});
    check_numbers<float>(comm);
    check_numbers<std::complex<double>>(comm);
    CHECK(folds_alike<int>(comm, tutti::average{}));
    CHECK(folds_alike<double>(comm, tutti::average{}));
    CHECK(folds_alike<tutti::bfloat16>(comm, std::plus<>{}));
    CHECK(folds_alike<float>(comm, tutti::reproducible_sum{}));
    CHECK(folds_alike<odd>(comm, last{}));
    CHECK(folds_alike<wide>(comm, last{}));
    CHECK(folds_alike<int>(comm, tutti::commutative(std::plus<>{})));
    CHECK(scans_alike<int>(comm, std::plus<>{}));
    CHECK(scans_alike<wide>(comm, last{}));
    std::vector<float> values(3, comm.rank() == 2 ? std::numeric_limits<float>::quiet_NaN() : 1.0F);
    tutti::allreduce<tutti::native>(comm, values, tutti::maximum{});
    CHECK(std::isnan(values[1]));
  });
}

TEST_CASE("native takes more elements than MPI counts") {
  const test::deadline limit(std::chrono::seconds(100));
  const std::size_t usual = std::exchange(tutti::detail::mpi_most_elements, 7);
  test::run_mpi_on(3, [](communicator& comm) {
    for (const std::size_t n : {std::size_t{7}, std::size_t{24}, std::size_t{100}}) {
      CHECK(folds_alike<int>(comm, std::plus<>{}, n));
      CHECK(folds_alike<odd>(comm, last{}, n));
      CHECK(scans_alike<int>(comm, std::plus<>{}, n));
      const std::vector<odd> mine = contribution<odd>(comm.rank(), n);
      const std::vector<odd> mine_for_each = contribution<odd>(comm.rank(), 3 * n);
      std::vector<odd> all(3 * n), expected(3 * n), block(n), expected_block(n);
      tutti::allgather(comm, mine, expected);
      tutti::allgather<tutti::native>(comm, mine, all);
      CHECK(all == expected);
      all = {};
      all.resize(3 * n);
      tutti::gather<tutti::native>(comm, mine, all, 1);
      if (comm.rank() == 1) CHECK(all == expected);
      tutti::scatter(comm, mine_for_each, expected_block, 2);
      tutti::scatter<tutti::native>(comm, mine_for_each, block, 2);
      CHECK(block == expected_block);
      tutti::alltoall(comm, mine_for_each, expected);
      tutti::alltoall<tutti::native>(comm, mine_for_each, all);
      CHECK(all == expected);
      all = mine_for_each;
      tutti::alltoall<tutti::native>(comm, all);
      CHECK(all == expected);
      all = mine_for_each;
      tutti::broadcast<tutti::native>(comm, all, 1);
      CHECK(all == contribution<odd>(1, 3 * n));
    }
  });
  tutti::detail::mpi_most_elements = usual;
}

TEST_CASE("native calls the caller's own object, also where one call lies within another") {
  const test::deadline limit(std::chrono::seconds(100));
  test::run_mpi_on(2, [](communicator& comm) {
    for (int modulus : {5, 11}) {
      int folds = 0;
      std::vector<int> values(10, 3 + comm.rank());
      tutti::allreduce<tutti::native>(comm, values, [&folds, modulus](int a, int b) {
        ++folds;
        return (a + b) % modulus;
      });
      CHECK(values[9] == 7 % modulus);
      std::array<int, 1> total{folds};
      tutti::allreduce<tutti::native>(comm, total, std::plus{});
      CHECK(total[0] >= 10);
    }
  });
}

TEST_CASE("an operation that throws in MPI's call fails the group once it has returned") {
  const test::deadline limit(std::chrono::seconds(100));
  std::string text;
  try {
    test::run_mpi_on(2, [](communicator& comm) {
      std::vector<int> values(10, 1);
      tutti::allreduce<tutti::native>(comm, values, [](int a, int b) -> int {
        if (a + b == 2) throw std::runtime_error("no sum");
        return a;
      });
      for (;;) tutti::barrier(comm);
    });
  } catch (const std::exception& e) {
    text = e.what();
  }
  if (test::world_rank() < 2) CHECK(text.find("no sum") != std::string::npos);
}

TEST_CASE("a rank that never comes to the first native call is told like any other") {
  const test::deadline limit(std::chrono::seconds(100));
  std::string text;
  try {
    test::run_mpi_on(3, [](communicator& comm) {
      if (comm.rank() == 1) throw std::runtime_error("not with me");
      tutti::barrier<tutti::native>(comm);
    });
  } catch (const std::exception& e) {
    text = e.what();
  }
  if (test::world_rank() < 3) CHECK(text.find("not with me") != std::string::npos);
}

TEST_CASE("ranks that have made different native calls find it out in the end") {
  const test::deadline limit(std::chrono::seconds(100));
  std::string text;
  try {
    test::run_mpi_on(2, [](communicator& comm) {
      std::vector<int> values(10, 1);
      tutti::barrier<tutti::native>(comm);
      if (comm.rank() == 0) {
        tutti::allreduce<tutti::native>(comm, values, std::plus{});
      } else {
        tutti::allreduce<tutti::native>(comm, values, std::plus<int>{});
      }
    });
  } catch (const tutti::mismatch& e) {
    text = e.what();
  }
  if (test::world_rank() < 2) {
    CHECK(text.find(std::string(tutti::type_name<std::plus<>>()) + " by native, call 3") != std::string::npos);
    CHECK(text.find("std::plus<int> by native, call 3") != std::string::npos);
  }
}

TEST_CASE("what happens between two native calls is seen to before the second, on every communicator of the rank") {
  const test::deadline limit(std::chrono::seconds(100));
  for (const bool on_whole : {true, false}) {
    CAPTURE(on_whole);
    const test::outcome ended = test::outcome_of([&] {
      test::run_mpi_on(2, [&](communicator& comm) {
        communicator part = comm.dup();
        for (int i = 0; i < 2; ++i) {
          tutti::barrier<tutti::native>(comm);
          tutti::barrier<tutti::native>(part);
        }
        CHECK(comm.transport().native_collectives().calm());
        CHECK(part.transport().native_collectives().calm());
        std::vector<int> data(1, 1);
        communicator& ends = on_whole ? comm : part;
        if (comm.rank() == 0) {
          std::thread([&] { ends.abort("enough"); }).join();
        } else {
          test::outcome_of([&] {
            for (;;) ends.transport().check();  // until it has heard of it
          });
        }
        // Where it were not seen to, the root of a broadcast would go on.
        const test::outcome of_part =
            test::outcome_of([&] { tutti::broadcast<tutti::native>(part, data, part.rank()); });
        CHECK(of_part.kind == "peer_failed");
        CHECK(test::contains(of_part.text, "aborted: enough"));
        if (!on_whole) tutti::barrier<tutti::native>(comm);
      });
    });
    if (test::world_rank() >= 2) continue;
    CHECK(ended.kind == (on_whole ? "peer_failed" : "none"));
  }
}

TEST_CASE("a rank that looks what another calls is told when that makes a native call") {
  const test::deadline limit(std::chrono::seconds(100));
  const test::outcome ended = test::outcome_of([] {
    test::run_mpi_on(2, [](communicator& comm) {
      for (int i = 0; i < 2; ++i) tutti::barrier<tutti::native>(comm);
      if (comm.rank() == 0) tutti::barrier(comm);
      auto own = comm.transport().native_collectives();
      CHECK(own.calm());
      while (own.calm()) comm.transport().check();  // until rank 0 has asked
      std::vector<int> data(1, 1);
      broadcasts = false;
      tutti::broadcast<tutti::native>(comm, data, 1);
      broadcasts = true;
      for (;;) tutti::barrier(comm);
    });
  });
  if (test::world_rank() >= 2) return;
  CHECK(ended.kind == "mismatch");
  CHECK(test::contains(ended.text, "rank 0 called barrier by "));
  CHECK(test::contains(ended.text, "; rank 1 called broadcast of 1 x int"));
}
