// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the two threads of a rank, that of its program and that which serves it, tell each other.

#include <tutti/core/clock.hpp>
#include <tutti/core/descriptor.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/tcp/context_state.hpp>
#include <tutti/transport/tcp/part_list.hpp>

#include <asio/error.hpp>

#include <sys/eventfd.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>

namespace tutti::detail {

/// Why the group failed, who has left, what this rank called, which communicators of some of the ranks it is in, and a
/// bell that the thread of the rank sleeps on.
class tcp_group_state : public tcp_context_state {
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
    if (size <= 1) return;  // nobody has news for it
    bell_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!bell_) throw std::system_error(errno, asio::error::get_system_category());
  }

  tcp_part_list parts;

  // ---- The thread of the rank

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
  /// A communicator of some of the ranks of another one. Throws what that has failed of.
  void add(const std::shared_ptr<tcp_part_state>& part, tcp_context_state& parent) {
    parts.add(part, parent);
    try {
      if (failed()) part->fail_with_group(why());  // else whoever fails the group finds it
    } catch (...) {
      parts.remove(*part, false);
      throw;
    }
  }
  /// What that rank has claimed last.
  const claim_of_bytes& claim_of(int rank) const noexcept { return claims_[static_cast<std::size_t>(rank)]; }

  // ---- Any thread

  /// The first reason stays. All communicators fail of it.
  [[gnu::cold]] void fail(const failure& f) noexcept {
    if (!tcp_context_state::fail(f)) return;
    parts.fail_all(f);
    ring();
  }
  /// Nothing but that communicator fails, whose members have that hash.
  [[gnu::cold]] void fail(std::uint32_t part, std::uint64_t members, const failure& f) noexcept {
    parts.fail(part, members, f);
    ring();
  }
  void part() noexcept { end(); }
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
  const ending& at(int rank) const noexcept { return endings_[static_cast<std::size_t>(rank)]; }

  owned_array<ending> endings_;
  owned_array<claim_of_bytes> claims_;
  descriptor_owner bell_;
  alignas(64) std::atomic<std::uint64_t> news_{0};
};

}  // namespace tutti::detail
