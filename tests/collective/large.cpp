// SPDX-License-Identifier: BSL-1.0

// Vectors of more than 2^31 elements: at compile time everywhere, and run where there is the memory.

#include <tutti/tutti.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collective/conformance.hpp"
#include "deadline.hpp"

namespace {

using namespace conformance;

// Counts keep their width on the way from the caller's buffer to the bytes.
static_assert(std::same_as<decltype(std::declval<tutti::call>().count), std::size_t>);
static_assert(std::same_as<decltype(std::declval<tutti::layout>().size(0)), std::size_t>);
static_assert(std::same_as<decltype(std::declval<tutti::detail::vector_storage<char>>().elements(tutti::one_block(0))),
                           std::size_t>);
static_assert(tutti::layout(std::size_t{1} << 40, 3).offset(2) > std::numeric_limits<std::uint32_t>::max());

/// Bytes that the system could give now; 0 where it does not say.
std::size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) return std::stoull(line.substr(13)) * 1024;
  }
  return 0;
}
const bool too_small = test::sanitized || available_memory() < std::size_t{16} << 30;

using byte = unsigned char;
constexpr std::size_t beyond = (std::size_t{1} << 31) + 17;

/// A number for each byte, so that a block that lands 2^31 or 2^32 bytes off is seen: cheap, and of no power-of-two
/// period.
constexpr std::size_t period = 251;
void fill(std::span<byte> data, std::size_t from) {
  for (std::size_t i = 0; i < data.size(); i += period) {
    const std::size_t piece = std::min(period, data.size() - i);
    for (std::size_t j = 0; j < piece; ++j) data[i + j] = static_cast<byte>((from + j) % period);
  }
}
/// Whether every byte is that of `fill` times a factor.
bool holds(std::span<const byte> data, std::size_t from, unsigned factor = 1) {
  byte pattern[period];
  for (std::size_t j = 0; j < period; ++j) pattern[j] = static_cast<byte>((from + j) % period * factor);
  for (std::size_t i = 0; i < data.size(); i += period) {
    if (std::memcmp(&data[i], pattern, std::min(period, data.size() - i)) != 0) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("collectives of more than 2^31 elements (skipped where less than 16 GiB are free, and under sanitizers)" *
          doctest::skip(too_small)) {
  on_ranks<threads>(2, [](auto& comm, findings& found) {
    std::vector<byte> data(beyond);
    found.about("broadcast of ", beyond, " bytes");
    if (comm.rank() == 1) fill(data, 5);
    tutti::broadcast(comm, data, 1);
    found.check(holds(data, 5), "the vector is not the root's");

    found.about("allreduce of ", beyond, " bytes");
    tutti::allreduce(comm, data, std::plus<>{});
    found.check(holds(data, 5, 2), "the sum is wrong");

    // More than 2^31 elements in all, fewer from each rank.
    const std::size_t each = beyond / 2;
    const auto rank = static_cast<std::size_t>(comm.rank());
    const std::span<byte> both = std::span(data).first(2 * each);
    found.about("allgather of ", each, " bytes from each");
    fill(both.subspan(rank * each, each), 11 * rank);
    std::memset(both.subspan((1 - rank) * each, each).data(), 0xA5, each);
    tutti::allgather(comm, both);
    found.check(holds(both.first(each), 0) && holds(both.last(each), 11), "a block is wrong");
  });
}
