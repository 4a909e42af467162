// SPDX-License-Identifier: BSL-1.0

// Vectors of many pieces to many peers, which once ran out of copies; and F15: memory does not grow with the number of
// calls.

#include "transport/processes_run.hpp"

#include "deadline.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

using namespace test;

namespace {

using comm_type = process_communicator;
using tutti::flat;
using tutti::ring;

void expect(bool right, const char* what) {
  if (!right) throw std::logic_error(std::string("wrong result of ") + what);
}

/// Twelve bytes, of which a piece of 32768 holds no whole number.
struct triple {
  std::int32_t a, b, c;
  friend triple operator+(const triple& x, const triple& y) { return {x.a + y.a, x.b + y.b, x.c + y.c}; }
  friend bool operator==(const triple&, const triple&) = default;
};
/// One element of more than three pieces.
struct giant {
  std::array<std::int32_t, 25'000> values;
  friend giant operator+(const giant& x, const giant& y) {
    giant sum{};
    for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] = x.values[i] + y.values[i];
    return sum;
  }
};
constexpr auto add = tutti::commutative([](const auto& x, const auto& y) { return x + y; });

triple triple_of(int rank, std::size_t i) {
  const auto n = static_cast<std::int32_t>(i % 1000);
  return {rank + n, 2 * rank, n};
}
triple sum_of(int ranks, std::size_t i) {
  const auto n = static_cast<std::int32_t>(i % 1000);
  const int all = ranks * (ranks - 1) / 2;
  return {all + ranks * n, 2 * all, ranks * n};
}

enum class how { automatic, flat, ring };

template <class Buffer>
void sum(comm_type& comm, Buffer& data, how by) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = triple_of(comm.rank(), i);
  if (by == how::automatic) tutti::allreduce(comm, data, add);
  if (by == how::flat) tutti::allreduce<flat>(comm, data, add);
  if (by == how::ring) tutti::allreduce<ring>(comm, data, add);
  for (std::size_t i = 0; i < data.size(); i += i % 97 + 1)
    expect(data[i] == sum_of(comm.size(), i), "a sum of triples");
  if (!data.empty()) expect(data[data.size() - 1] == sum_of(comm.size(), data.size() - 1), "the last of a sum");
}

constexpr std::size_t large = std::size_t{1} << 21;  // bytes

/// How much memory of each kind there is.
struct memory_use {
  std::uint64_t addresses;  // of the segment
  std::int64_t shared;      // bytes of the segment that are memory
  std::int64_t own;         // bytes of this process that are no file's
};
memory_use memory_of(comm_type& comm) {
  tutti::detail::segment& s = static_cast<tutti::detail::shared_heap&>(comm.transport().memory()).memory();
  struct stat file {};
  fstat(s.descriptor(), &file);
  std::ifstream statm("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  std::int64_t of_files = 0;
  statm >> size >> resident >> of_files;
  return {s.taken(), file.st_blocks * 512, (resident - of_files) * 4096};
}

/// The kind of call that is pending for a while.
constexpr std::uint64_t pending_kind = 6;

/// Call number `i` of many, of a size and a kind that follow from the number unless the size is given.
void one_of_many(comm_type& comm, std::vector<int>& data, std::uint64_t i, std::size_t size = 0) {
  const std::uint64_t chance = (i * 6364136223846793005ULL + 1442695040888963407ULL) >> 33;
  const auto ranks = static_cast<std::size_t>(comm.size());
  if (size == 0) size = chance % 64 == 0 ? chance / 64 % 40'000 : chance / 64 % 300;
  const std::span<int> part(data.data(), size / ranks * ranks);
  switch (i % 8) {
    case 0:
      tutti::allreduce(comm, part, std::plus{});
      break;
    case 1:
      tutti::allreduce<ring>(comm, part, std::plus{});
      break;
    case 2:
      tutti::allreduce<flat>(comm, part, std::plus{});
      break;
    case 3:
      tutti::alltoall(comm, part);
      break;
    case 4:
      tutti::broadcast(comm, part, static_cast<int>(chance % ranks));
      break;
    case 5:
      tutti::allgather(comm, part);
      break;
    case pending_kind:
      tutti::iallreduce<ring>(comm, part, std::plus{}).wait();
      break;
    default:
      tutti::reduce_scatter(comm, part, std::plus{});
      break;
  }
}

/// Runs the test case once for each way in which what lies in private memory goes to others, and once by choice. It is
/// read by the kernel only between two ranks, and if that is allowed here.
void in_each_way() {
  using tutti::detail::delivery;
  auto& forced = tutti::detail::delivery_choice::forced;
  SUBCASE("by choice") { forced.reset(); }
  SUBCASE("read by the kernel") { forced = delivery::read; }
  SUBCASE("copied") { forced = delivery::cached; }
  SUBCASE("copied past the caches") { forced = delivery::streamed; }
}

}  // namespace

TEST_CASE("two megabytes to seven peers, of any number of pieces and in either kind of memory") {
  const alarm_limit limit(sanitized ? 240 : 120);
  in_each_way();
  const auto ended = outcomes_of_processes(8, [](comm_type& comm, rank_report&) {
    for (const std::size_t bytes : {large, large - 12, large + 12 * 7, std::size_t{32'768} * 8 + 12}) {
      if (sanitized && bytes > large) continue;
      const std::size_t count = bytes / sizeof(triple);
      std::vector<triple> data(count);
      auto shared = comm.allocate<triple>(count);
      for (const how by : {how::automatic, how::flat, how::ring}) {
        sum(comm, data, by);
        if (!sanitized) sum(comm, shared, by);
      }
    }
  });
  CHECK(ended.run == outcome{});
}

TEST_CASE("two megabytes from each to each") {
  const alarm_limit limit(sanitized ? 240 : 120);
  in_each_way();
  const auto ended = outcomes_of_processes(8, [](comm_type& comm, rank_report&) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    const auto check = [&](auto& data) {
      const std::size_t each = data.size() / ranks;
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = triple_of(comm.rank(), i);
      tutti::alltoall(comm, data);
      const std::size_t from = static_cast<std::size_t>(comm.rank()) * each;
      for (std::size_t rank = 0; rank < ranks; ++rank)
        for (std::size_t i = 0; i < each; i += i % 97 + 1)
          expect(data[rank * each + i] == triple_of(static_cast<int>(rank), from + i), "alltoall");
    };
    for (const std::size_t each : {large / 8 / sizeof(triple), large / 8 / sizeof(triple) + 1, std::size_t{2731}}) {
      std::vector<triple> data(each * ranks);
      check(data);
      auto shared = comm.allocate<triple>(each * ranks);
      check(shared);
      tutti::alltoall<flat>(comm, data);
    }
    if (sanitized) return;
    std::vector<triple> whole(large / sizeof(triple) * ranks);  // two megabytes for each
    check(whole);
  });
  CHECK(ended.run == outcome{});
}

TEST_CASE("one element of a hundred kilobytes, which cannot be cut") {
  const alarm_limit limit(sanitized ? 240 : 120);
  in_each_way();
  for (const int ranks : {2, 3, 8}) {
    CAPTURE(ranks);
    const auto ended = outcomes_of_processes(ranks, [](comm_type& comm, rank_report&) {
      const std::int32_t all = comm.size() * (comm.size() - 1) / 2;
      const auto check = [&](auto& data) {
        const auto fill = [&] {
          for (auto& each : data) each.values.fill(comm.rank());
        };
        fill();
        tutti::allreduce<flat>(comm, data, add);
        for (auto& each : data) expect(each.values.front() == all && each.values.back() == all, "flat of giants");
        fill();
        tutti::allreduce(comm, data, add);
        for (auto& each : data) expect(each.values.front() == all && each.values.back() == all, "a sum of giants");
        fill();
        tutti::broadcast(comm, data, comm.size() - 1);
        for (auto& each : data) expect(each.values.back() == comm.size() - 1, "broadcast of giants");
      };
      std::vector<giant> one(1);
      check(one);
      auto shared = comm.allocate<giant>(1);
      check(shared);
      std::vector<giant> several(static_cast<std::size_t>(comm.size()));
      check(several);
      for (giant& each : several) each.values.fill(comm.rank());
      tutti::alltoall(comm, several);
      for (std::size_t i = 0; i < several.size(); ++i)
        expect(several[i].values.back() == static_cast<int>(i), "alltoall of giants");
    });
    CHECK(ended.run == outcome{});
  }
}

TEST_CASE("F15 memory does not grow with the number of calls") {
  const alarm_limit limit(sanitized ? 240 : 120);
  // Which copies are needed else depends on who is faster.
  tutti::detail::delivery_choice::forced = tutti::detail::delivery::cached;
  const char* const sweep = std::getenv("TUTTI_SWEEP");
  const bool thorough = sweep != nullptr && std::string_view(sweep) == "all";
  for (const int ranks : {2, 3}) {
    if (sanitized && ranks == 3) continue;
    const std::uint64_t calls = sanitized ? 1'000 : thorough ? 100'000 : 5'000;
    const auto ended = outcomes_of_processes(ranks, [&](comm_type& comm, rank_report&) {
      std::vector<int> data(40'000);
      for (std::uint64_t i = 0; i < calls / 10; ++i) one_of_many(comm, data, i);
      // Each lane of what is pending has copies of its own, small and large ones.
      for (const std::size_t size : {39'996U, 300U})
        for (std::uint64_t kind = 0; kind < 8; ++kind)
          for (int i = 0; i < (kind == pending_kind ? comm_type::max_pending : 1); ++i)
            one_of_many(comm, data, kind, size);
      tutti::barrier(comm);
      const memory_use before = memory_of(comm);
      for (std::uint64_t i = 0; i < calls; ++i) one_of_many(comm, data, i);
      tutti::barrier(comm);
      const memory_use after = memory_of(comm);
      const std::string text = "segment " + std::to_string(before.addresses) + " to " +
                               std::to_string(after.addresses) + ", memory " + std::to_string(before.shared) + " to " +
                               std::to_string(after.shared) + ", own " + std::to_string(before.own) + " to " +
                               std::to_string(after.own);
      if (after.addresses != before.addresses || after.shared != before.shared ||
          (!sanitized && after.own > before.own + (1 << 18)))
        throw std::logic_error(text);
    });
    CAPTURE(ended.run.text);
    CHECK(ended.run == outcome{});
  }
}
