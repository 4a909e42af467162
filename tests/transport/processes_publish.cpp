// SPDX-License-Identifier: BSL-1.0

// A litmus test of how messages are published between processes: what lies in a slot, and what it points to, is there
// when its turn is.

#include <tutti/transport/processes/group.hpp>

#include "child_process.hpp"

#include <doctest/doctest.h>

#include <sched.h>
#include <unistd.h>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

using tutti::detail::channel;
using tutti::detail::message_slot;
using tutti::detail::processes_group;

namespace {

/// Messages of so many bytes in turn: each way in which a slot is written, and a copy outside of it.
constexpr std::size_t sizes[] = {8, 24, 96, 256, 56, 4, 40, 33};
constexpr std::size_t largest = 256;

/// Word i of a message.
std::uint64_t word(std::uint64_t message, std::size_t i) { return message * 0x9E3779B97F4A7C15ULL + i; }

/// Waits a little, for processes that share a processor.
class patience {
 public:
  void wait() {
    if (++looks_ % 256 == 0) {
      sched_yield();
    } else {
      tutti::cpu_pause();
    }
  }

 private:
  unsigned looks_ = 0;
};

/// Sends messages 1 to `last` as a lane does: up to a ring ahead of the receiver, the larger ones from copies that are
/// written over as soon as they have been consumed.
void send_all(processes_group& group, channel& to, std::byte* copies, std::uint64_t last) {
  patience patient;
  std::byte data[largest];
  for (std::uint64_t message = 1; message <= last; ++message) {
    while (message > channel::capacity && to.consumed.load(std::memory_order_acquire) < message - channel::capacity)
      patient.wait();
    const std::size_t bytes = sizes[message % std::size(sizes)];
    for (std::size_t i = 0; i < (bytes + 7) / 8; ++i) {
      const std::uint64_t w = word(message, i);
      std::memcpy(data + 8 * i, &w, 8);
    }
    message_slot& s = to.slot(message - 1);
    if (bytes <= message_slot::inline_bytes) {
      s.hold(data, bytes);
      s.where = 0;
    } else {
      std::byte* const copy = copies + message % channel::capacity * largest;
      std::memcpy(copy, data, bytes);
      s.where = group.where(copy);
    }
    s.fingerprint = message ^ 0x5bd1e995;
    s.describe(bytes, bytes > message_slot::inline_bytes);
    s.consumed = static_cast<std::uint32_t>(message);
    s.turn.store(static_cast<std::uint32_t>(message), std::memory_order_release);
    group.state(1).bell.ring();
  }
}

/// How many of the messages 1 to `last` did not arrive as they were sent.
std::uint64_t receive_all(processes_group& group, channel& from, std::uint64_t last) {
  patience patient;
  std::uint64_t wrong = 0;
  for (std::uint64_t message = 1; message <= last; ++message) {
    const message_slot& s = from.slot(message - 1);
    while (!s.arrived(message)) patient.wait();
    const std::size_t bytes = sizes[message % std::size(sizes)];
    bool good = s.size() == bytes && s.direct() == (bytes > message_slot::inline_bytes) &&
                s.fingerprint == (message ^ 0x5bd1e995) && s.consumed == static_cast<std::uint32_t>(message);
    const std::byte* const data = s.where == 0 ? s.payload : group.at(s.where);
    for (std::size_t i = 0; i < bytes / 8; ++i) {
      std::uint64_t w = 0;
      std::memcpy(&w, data + 8 * i, 8);
      good &= w == word(message, i);
    }
    wrong += good ? 0 : 1;
    from.consumed.store(message, std::memory_order_release);
    group.state(0).bell.ring();
  }
  return wrong;
}

/// So many messages between two processes: how many were wrong.
std::uint64_t exchange(std::uint64_t messages) {
  processes_group group(2);
  channel& between = group.connect(0, 0, 1);
  std::byte* const copies = group.make_memory(channel::capacity * largest).data();
  const pid_t sender = fork();
  if (sender < 0) std::abort();
  if (sender == 0) {
    test::take_signals_by_default();
    group.attach(0);
    send_all(group, between, copies, messages);
    _exit(0);
  }
  group.attach(1);
  const std::uint64_t wrong = receive_all(group, between, messages);
  CHECK(test::await_end(sender) == 0);
  return wrong;
}

}  // namespace

TEST_CASE("what a message says is there when its turn is") {
  // More of them, such as 100000000: TUTTI_LITMUS_MESSAGES.
  const char* const asked = std::getenv("TUTTI_LITMUS_MESSAGES");
  const std::uint64_t messages = asked == nullptr ? 1'000'000 : std::strtoull(asked, nullptr, 10);
  const test::alarm_limit limit(asked == nullptr ? 60 : 3600);
  CHECK(exchange(messages) == 0);
}
