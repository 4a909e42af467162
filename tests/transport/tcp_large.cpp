// SPDX-License-Identifier: BSL-1.0

// Payloads beyond what 32 bits count, in memory that is there once and mapped again and again.

#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include "deadline.hpp"
#include "transport/tcp_ranks.hpp"

namespace {

// So many bytes that are the same two megabytes over and over. What is written to the wrong place, unless that is a
// multiple of two megabytes away, spoils another byte's value.
class repeated_memory {
 public:
  static constexpr std::size_t period = std::size_t{2} << 20;

  explicit repeated_memory(std::size_t bytes) : bytes_(bytes), mapped_((bytes + period - 1) / period * period) {
    const int file = memfd_create("repeated", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, period) != 0) std::abort();
    void* const at = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) std::abort();
    begin_ = static_cast<std::uint8_t*>(at);
    for (std::size_t i = 0; i < mapped_; i += period)
      if (mmap(begin_ + i, period, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) std::abort();
    close(file);
  }
  repeated_memory(const repeated_memory&) = delete;
  repeated_memory& operator=(const repeated_memory&) = delete;
  ~repeated_memory() { munmap(begin_, mapped_); }
  std::span<std::uint8_t> all() const { return {begin_, bytes_}; }
  std::span<std::uint8_t> once() const { return {begin_, period}; }

 private:
  std::size_t bytes_, mapped_;
  std::uint8_t* begin_ = nullptr;
};

std::uint8_t value(std::size_t i) { return static_cast<std::uint8_t>(i * 31 + i / 4093); }

void fill(std::span<std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = value(i);
}
void check(std::span<const std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != value(i)) throw std::runtime_error("wrong byte " + std::to_string(i));
}

TEST_CASE("E5 more bytes than 32 bits count, in one broadcast") {
  const test::deadline limit(std::chrono::seconds(100));
  const std::size_t bytes = (test::sanitized ? std::size_t{1} << 26 : std::size_t{1} << 32) + 17;
  const test::listening_job job(2);
  const auto outcomes = test::outcomes_of_tcp(job.options, [&](test::tcp_comm& comm) {
    const repeated_memory memory(bytes);
    if (comm.rank() == 0) fill(memory.once());
    tutti::broadcast<tutti::binomial>(comm, memory.all(), 0);
    check(memory.once());
    // And what follows is where it belongs.
    std::vector<std::int32_t> sum(3, comm.rank() + 1);
    tutti::allreduce<tutti::recursive_doubling>(comm, sum, std::plus{});
    if (sum != std::vector<std::int32_t>(3, 3)) throw std::runtime_error("wrong sum");
  });
  for (const auto& each : outcomes) CHECK(each == test::outcome{});
}

}  // namespace
