// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/owned_array.hpp>
#include <tutti/transport/simulated/virtual_time.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace tutti::detail {

struct lane_end;

/// A message on its way, or waiting to be taken.
struct simulated_message {
  int from = 0;  // in the whole
  int to = 0;
  lane_end* sender = nullptr;
  lane_end* receiver = nullptr;
  std::uint64_t number = 0;  // of those from `from` to `to`
  std::uint64_t fingerprint = 0;
  std::size_t bytes = 0;
  const std::byte* source = nullptr;  // where the sender has the bytes; null once they are copied
  owned_array<std::byte> copy = {};
  virtual_time leaves = 0;  // when its last byte has left the sender
  bool delivered = false;
  bool dropped = false;
  simulated_message* next = nullptr;  // behind it in its queue

  /// As late as can be, so that whoever writes what is being sent is found out.
  void take_bytes() {
    copy = owned_array<std::byte>(bytes, "a message");
    if (bytes != 0) std::memcpy(copy.data(), source, bytes);
    source = nullptr;
  }
};

/// What one rank has sent to one other on one lane and that one has not taken yet, in order.
class message_queue {
 public:
  message_queue() = default;
  message_queue(const message_queue&) = delete;
  message_queue& operator=(const message_queue&) = delete;
  ~message_queue() {
    while (head_ != nullptr) delete pop();
  }

  simulated_message* front() const { return head_; }
  void push(simulated_message* m) {
    (head_ == nullptr ? head_ : tail_->next) = m;
    tail_ = m;
  }
  simulated_message* pop() { return std::exchange(head_, head_->next); }

  virtual_time last_arrival = 0;
  virtual_time last_delivery = 0;

 private:
  simulated_message* head_ = nullptr;
  simulated_message* tail_ = nullptr;
};

}  // namespace tutti::detail
