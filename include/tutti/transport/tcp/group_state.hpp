// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the two threads of a rank, that of its program and that which serves it, tell each other.

#include <tutti/core/descriptor.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/call_log.hpp>

#include <asio/error.hpp>

#include <sys/eventfd.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <system_error>

namespace tutti::detail {

/// Why the group failed, who has left, what this rank called, and a bell that the thread of the rank sleeps on.
class tcp_group_state {
 public:
  /// How a rank ended that has left.
  struct ending {
    std::atomic<bool> there{false};
    std::uint64_t last = 0;  // the number of its last call
    std::uint64_t fingerprint = 0;
  };

  /// What a rank says that it has written for this one, and since when that is known here.
  struct claim_of_bytes {
    std::atomic<std::uint64_t> written{0};
    std::atomic<std::chrono::steady_clock::duration> since{};
  };

  explicit tcp_group_state(int size)
      : endings_(static_cast<std::size_t>(size < 1 ? 1 : size), "how the ranks ended"),
        claims_(endings_.size(), "what the ranks have written") {
    failure_.text.reserve(least_text);
    if (size <= 1) return;  // nobody has news for it
    bell_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!bell_) throw std::system_error(errno, asio::error::get_system_category());
  }

  call_log log;

  // ---- The thread of the rank

  TUTTI_ALWAYS_INLINE bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  std::uint64_t news() const noexcept { return news_.load(std::memory_order_acquire); }
  int bell() const noexcept { return bell_.get(); }
  void quiet() noexcept {
    std::uint64_t count = 0;
    while (::read(bell_.get(), &count, sizeof count) < 0 && errno == EINTR) {
    }
  }
  bool has_left(int rank) const noexcept { return at(rank).there.load(std::memory_order_acquire); }
  /// Of one that has left.
  const ending& ending_of(int rank) const noexcept { return at(rank); }

  /// What that rank has claimed last.
  const claim_of_bytes& claim_of(int rank) const noexcept { return claims_[static_cast<std::size_t>(rank)]; }

  failure why() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  /// Waits until the group has failed; whether it has within that time.
  bool await_failure(std::chrono::nanoseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return failed(); });
  }
  /// Waits until the group has failed or ended well; whether it has failed.
  bool await_end() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return failed() || parted_; });
    return failed();
  }

  // ---- Any thread

  /// The first reason stays.
  [[gnu::cold]] void fail(const failure& f) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (failed() || parted_) return;
      failure_.kind = f.kind;
      failure_.peer = f.peer;
      try {
        failure_.text = f.text;
      } catch (...) {  // no memory for all of it
        failure_.text.assign(f.text.data(), failure_.text.capacity());
      }
      failed_.store(true, std::memory_order_release);
    }
    changed_.notify_all();
    ring();
  }
  void part() noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (!failed()) parted_ = true;
    }
    changed_.notify_all();
  }
  void leave(int rank, std::uint64_t last, std::uint64_t fingerprint) noexcept {
    ending& e = endings_[static_cast<std::size_t>(rank)];
    e.last = last;
    e.fingerprint = fingerprint;
    e.there.store(true, std::memory_order_release);
    ring();
  }
  /// That rank has written so many bytes for this one, which it may not have got yet.
  void claim(int rank, std::uint64_t written) noexcept {
    claim_of_bytes& c = claims_[static_cast<std::size_t>(rank)];
    c.since.store(std::chrono::steady_clock::now().time_since_epoch(), std::memory_order_relaxed);
    c.written.store(written, std::memory_order_release);
  }
  /// There is something new to look at.
  void ring() noexcept {
    news_.fetch_add(1, std::memory_order_release);
    if (!bell_) return;
    const std::uint64_t one = 1;
    while (::write(bell_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

 private:
  // There is room for so much of a text, whatever happens.
  static constexpr std::size_t least_text = 256;

  const ending& at(int rank) const noexcept { return endings_[static_cast<std::size_t>(rank)]; }

  owned_array<ending> endings_;
  owned_array<claim_of_bytes> claims_;
  descriptor_owner bell_;
  alignas(64) std::atomic<bool> failed_{false};
  std::atomic<std::uint64_t> news_{0};
  alignas(64) std::mutex mutex_;
  std::condition_variable changed_;
  failure failure_;
  bool parted_ = false;
};

}  // namespace tutti::detail
