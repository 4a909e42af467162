// SPDX-License-Identifier: BSL-1.0

// Buffers from `comm.allocate`: on a transport that has ordinary memory only, and on one that has a segment.

#include <tutti/transport/processes/shared_heap.hpp>
#include <tutti/tutti.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "deadline.hpp"
#include "descriptors.hpp"

namespace {

using namespace std::chrono_literals;
using tutti::shared_buffer;
using tutti::detail::segment;
using tutti::detail::shared_heap;

using buffer = shared_buffer<float>;
static_assert(std::movable<buffer> && !std::copyable<buffer>);
static_assert(std::is_nothrow_move_constructible_v<buffer> && std::is_nothrow_move_assignable_v<buffer>);
static_assert(std::is_nothrow_destructible_v<buffer> && std::is_nothrow_default_constructible_v<buffer>);
static_assert(std::ranges::contiguous_range<buffer> && std::ranges::sized_range<buffer>);
static_assert(std::ranges::contiguous_range<const buffer> && std::ranges::common_range<buffer>);
static_assert(std::convertible_to<buffer&, std::span<float>>);
static_assert(std::convertible_to<buffer&, std::span<const float>>);
static_assert(std::convertible_to<const buffer&, std::span<const float>>);
static_assert(!std::convertible_to<const buffer&, std::span<float>>, "what a constant buffer holds is constant");

/// A group of threads of which each rank has a heap in a segment of its own.
struct group_with_heaps : tutti::detail::threads_group {
  explicit group_with_heaps(int size) : threads_group(size) {
    for (int rank = 0; rank < size; ++rank) heaps.push_back(shared_heap::create(segment::create(segment::least_range)));
  }
  std::vector<tutti::kept<shared_heap>> heaps;
};

/// Threads, with such memory.
class with_segment : public tutti::threads {
 public:
  using group_type = group_with_heaps;
  with_segment(group_with_heaps& group, int rank)
      : threads(group, rank), heap_(&*group.heaps[static_cast<std::size_t>(rank)]) {}
  tutti::memory_owner& memory() { return *heap_; }
  shared_heap& heap() { return *heap_; }

 private:
  shared_heap* heap_;
};

static_assert(tutti::allocating_transport<with_segment>);
static_assert(!tutti::allocating_transport<tutti::threads>);

/// Runs `f(comm)` on each of `size` ranks.
template <class Transport, class F>
void run(int size, F f) {
  tutti::detail::ranks<Transport> all(size);
  tutti::detail::run_ranks(all, f);
}

template <class Error, class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct sample {
  double value = 1.5;
  int weight = 2;
};

}  // namespace

TEST_CASE_TEMPLATE("a buffer begins with zeros, or as its elements begin, on whole cache lines", Transport,
                   tutti::threads, with_segment) {
  const test::deadline limit(20s);
  run<Transport>(2, [](auto& comm) {
    const auto check = [&] {
      auto ints = comm.template allocate<int>(1000);
      REQUIRE(ints.size() == 1000);
      CHECK(std::ranges::all_of(ints, [](int i) { return i == 0; }));
      CHECK(reinterpret_cast<std::uintptr_t>(ints.data()) % 64 == 0);
      std::iota(ints.begin(), ints.end(), 7);  // the next one may get the same memory
      auto samples = comm.template allocate<sample>(77);
      for (const sample& s : samples) CHECK(s.value + s.weight == 3.5);
      auto numbers = comm.template allocate<std::complex<double>>(3);
      CHECK(numbers[2] == 0.0);
      auto large = comm.template allocate<char>((std::size_t{1} << 21) + 1);
      CHECK(reinterpret_cast<std::uintptr_t>(large.data()) % (std::size_t{1} << 21) == 0);
      CHECK(large[std::size_t{1} << 21] == 0);
      CHECK(ints[999] == 1006);
    };
    check();
    check();
    CHECK(comm.template allocate<int>(0).empty());
  });
}

TEST_CASE_TEMPLATE("every verb takes a buffer", Transport, tutti::threads, with_segment) {
  const test::deadline limit(40s);
  run<Transport>(3, [](auto& comm) {
    const auto p = static_cast<std::size_t>(comm.size());
    const auto rank = static_cast<std::size_t>(comm.rank());
    for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, std::size_t{100'000}}) {
      auto mine = comm.template allocate<std::int64_t>(n);
      auto all = comm.template allocate<std::int64_t>(n * p);
      const auto fill = [&] {
        std::ranges::fill(mine, comm.rank() + 1);
        std::ranges::fill(all, comm.rank() + 1);
      };
      const auto is = [](const auto& b, std::int64_t v) {
        return std::ranges::all_of(b, [=](auto x) { return x == v; });
      };
      const auto ascending = [&] {
        bool right = true;
        for (std::size_t i = 0; i < all.size(); ++i) right = right && all[i] == static_cast<std::int64_t>(i / n + 1);
        return right;
      };

      fill(), tutti::allreduce(comm, mine, std::plus{});
      CHECK(is(mine, 6));
      fill();
      auto pending = tutti::iallreduce(comm, mine, std::plus{});
      pending.wait();
      CHECK(is(mine, 6));
      fill(), tutti::broadcast(comm, mine, 2);
      CHECK(is(mine, 3));
      fill(), tutti::reduce(comm, mine, std::plus{}, 1);
      if (rank == 1) CHECK(is(mine, 6));
      fill(), tutti::allgather(comm, std::as_const(mine), all);
      CHECK(ascending());
      auto exchanged = comm.template allocate<std::int64_t>(n * p);
      fill(), tutti::alltoall(comm, std::as_const(all), exchanged);
      std::swap(all, exchanged);
      CHECK(ascending());
      fill(), tutti::reduce_scatter(comm, std::as_const(all), mine, std::plus{});
      CHECK(is(mine, 6));
      fill(), tutti::scan(comm, mine, std::plus{});
      CHECK(is(mine, static_cast<std::int64_t>((rank + 1) * (rank + 2) / 2)));
      fill(), tutti::gather(comm, std::as_const(mine), all, 0);
      if (rank == 0) CHECK(ascending());
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i / n) + 10;
      tutti::scatter(comm, std::as_const(all), mine, 0);
      CHECK(is(mine, static_cast<std::int64_t>(rank + 10)));
    }
  });
}

TEST_CASE("a buffer comes from the transport's own memory, and goes back there") {
  const test::deadline limit(20s);
  run<with_segment>(2, [](auto& comm) {
    shared_heap& heap = comm.transport().heap();
    {
      auto first = comm.template allocate<double>(1000);
      CHECK(heap.memory().holds(reinterpret_cast<const std::byte*>(first.data()), 8000));
      CHECK(heap.live() == 8000);
      auto second = std::move(first);
      CHECK(first.empty());  // NOLINT(bugprone-use-after-move): it has become a buffer of no elements
      CHECK(first.data() == nullptr);
      CHECK(heap.live() == 8000);
      second = comm.template allocate<double>(8);
      CHECK(heap.live() == 64);
      auto& same = second;
      second = std::move(same);
      CHECK(second.size() == 8);
      second = {};
      CHECK(heap.live() == 0);
    }
    CHECK(heap.live() == 0);
  });
}

TEST_CASE("a buffer may outlive communicator, group and transport, and end on any thread in any order") {
  const test::deadline limit(20s);
  const int before = test::open_descriptors();
  std::vector<std::optional<shared_buffer<int>>> kept_buffers(8);
  run<with_segment>(2, [&](auto& comm) {
    for (std::size_t i = 0; i < 4; ++i) {
      auto& place = kept_buffers[4 * static_cast<std::size_t>(comm.rank()) + i];
      place = comm.template allocate<int>(100'000);
      std::ranges::fill(*place, comm.rank());
    }
  });
  CHECK((*kept_buffers[5])[99'999] == 1);
  CHECK(test::open_descriptors() == before + 2);  // two segments
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      kept_buffers[t].reset();
      (*kept_buffers[7 - t])[0] = 1;
      kept_buffers[7 - t].reset();
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(test::open_descriptors() == before);
}

TEST_CASE("buffers may end on one thread while their rank takes others") {
  const test::deadline limit(20s);
  run<with_segment>(1, [](auto& comm) {
    for (int round = 0; round < 20; ++round) {
      std::vector<shared_buffer<int>> taken;
      for (std::size_t i = 0; i < 50; ++i) taken.push_back(comm.template allocate<int>(10 * i));
      std::thread other([old = std::move(taken)]() mutable { old.clear(); });
      for (std::size_t i = 0; i < 50; ++i) {
        auto mine = comm.template allocate<int>(7 * i);
        std::ranges::fill(mine, 1);
        CHECK(std::ranges::all_of(mine, [](int x) { return x == 1; }));
      }
      other.join();
    }
    CHECK(comm.transport().heap().live() == 0);
  });
}

TEST_CASE_TEMPLATE("what cannot be is an error that names rank, count and type, and harms nothing", Transport,
                   tutti::threads, with_segment) {
  const test::deadline limit(20s);
  run<Transport>(2, [](auto& comm) {
    const std::string rank = std::to_string(comm.rank());
    for (const std::size_t n : {~std::size_t{0}, ~std::size_t{0} / 8 + 2, (~std::size_t{0} >> 1) / 8 + 1}) {
      CHECK(has(refusal<tutti::usage_error>([&] { (void)comm.template allocate<double>(n); }),
                "allocate on rank " + rank + " of " + std::to_string(n) +
                    " elements of type double, of 8 bytes each: more than there can be"));
    }
    if (!test::sanitized || tutti::allocating_transport<Transport>) {  // a sanitizer ends who asks for so much
      const std::size_t n = std::size_t{1} << 58;
      const std::string text = refusal<tutti::resource_error>([&] { (void)comm.template allocate<short>(n); });
      CHECK(has(text, "allocate on rank " + rank + " of 288230376151711744 elements of type short"));
      CHECK(has(text, ": 576460752303423488 bytes needed"));
      if constexpr (tutti::allocating_transport<Transport>) CHECK(has(text, "bytes available in this segment"));
    }
    auto after = comm.template allocate<int>(5);
    after[4] = comm.rank();
    tutti::allreduce(comm, after, std::plus{});
    CHECK(after[4] == 1);
  });
}
