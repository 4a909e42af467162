// SPDX-License-Identifier: BSL-1.0
#pragma once

// How a rank notices that the process of another is gone: it asks the kernel. No launcher, no thread, no signal.

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/process.hpp>

#include <poll.h>
#include <cerrno>
#include <cstddef>

namespace tutti::detail {

/// Watches the processes of other ranks, for one thread at a time. Each has a pidfd if the kernel gives one; the others
/// (an old kernel, a strict sandbox, no descriptors left) are looked up in /proc one by one.
class peer_watch {
 public:
  /// For tests: `by_looking` never asks for a pidfd.
  enum class means { by_pidfd, by_looking };

  /// Room for ranks 0 to `peers` - 1. All that is ever allocated is allocated here.
  explicit peer_watch(int peers, means m = means::by_pidfd)
      : peers_(static_cast<std::size_t>(peers)),
        polled_(static_cast<std::size_t>(peers)),
        rank_of_(static_cast<std::size_t>(peers)),
        means_(m) {}
  peer_watch(const peer_watch&) = delete;
  peer_watch& operator=(const peer_watch&) = delete;
  ~peer_watch() { clear(); }

  /// Watches the process of a rank from now on, in place of the one watched before. One that has ended already, or
  /// whose number now is that of another, is gone. Throws usage_error if there is no such rank, or no such number.
  void watch(int peer, process_identity who) {
    if (peer < 0 || static_cast<std::size_t>(peer) >= peers_.size())
      throw usage_error(message() << "peer_watch: rank is " << peer << ", must be in [0, " << peers_.size() << ")");
    if (who.pid <= 0)
      throw usage_error(message() << "peer_watch: process of rank " << peer << " is " << who.pid
                                  << ", must be positive");
    forget(peer);
    peers_[static_cast<std::size_t>(peer)].who = who;
    const int pidfd = means_ == means::by_pidfd ? open_pidfd(who.pid) : -1;
    if (pidfd < 0) {
      set(peer, state::looked_for);
      return;
    }
    // Only now that the descriptor holds on to one process does its time of start say which.
    if (look_for(who) == presence::gone) {
      close(pidfd);
      set(peer, state::gone);
      return;
    }
    set(peer, state::polled);
    polled_[polled_count_].fd = pidfd;
    polled_[polled_count_].events = POLLIN;
    rank_of_[polled_count_] = peer;
    ++polled_count_;
  }

  /// The lowest watched rank whose process has ended, or -1. Says it again until told to forget the rank. One poll(2)
  /// for all that have a pidfd, none if there are none; some five system calls for each of the others.
  int first_gone() noexcept {
    if (polled_count_ != 0) poll_all();
    if (looked_for_count_ != 0) look_for_all();
    if (gone_count_ == 0) return -1;
    int rank = 0;
    while (peers_[static_cast<std::size_t>(rank)].how != state::gone) ++rank;
    return rank;
  }

  /// Watches the rank no longer.
  void forget(int peer) noexcept {
    if (peer < 0 || static_cast<std::size_t>(peer) >= peers_.size()) return;
    for (std::size_t i = 0; i < polled_count_; ++i) {
      if (rank_of_[i] != peer) continue;
      close_pidfd(polled_[i].fd);
      drop(i);
      break;
    }
    set(peer, state::unwatched);
  }

  /// Watches nobody any longer.
  void clear() noexcept {
    for (std::size_t peer = 0; peer < peers_.size(); ++peer) forget(static_cast<int>(peer));
  }

  /// How many ranks have a pidfd.
  int pidfds() const noexcept { return static_cast<int>(polled_count_); }

 private:
  enum class state : unsigned char { unwatched, polled, looked_for, gone };
  struct watched {
    process_identity who;
    state how;
  };

  void set(int peer, state how) noexcept {
    watched& w = peers_[static_cast<std::size_t>(peer)];
    count(w.how, -1);
    w.how = how;
    count(w.how, +1);
  }
  void count(state how, int change) noexcept {
    if (how == state::looked_for) looked_for_count_ += change;
    if (how == state::gone) gone_count_ += change;
  }
  /// Takes the entry out of those polled, without closing it.
  void drop(std::size_t i) noexcept {
    --polled_count_;
    polled_[i] = polled_[polled_count_];
    rank_of_[i] = rank_of_[polled_count_];
  }

  void poll_all() noexcept {
    int ready = 0;
    do ready = poll(polled_.data(), static_cast<nfds_t>(polled_count_), 0);
    while (ready < 0 && errno == EINTR);
    if (ready == 0) return;
    if (ready < 0) {  // the limit of descriptors is lower than when these were opened; no memory
      for (std::size_t i = polled_count_; i-- > 0;) examine(i, true);
      return;
    }
    for (std::size_t i = polled_count_; i-- > 0;) {
      if (polled_[i].revents != 0) examine(i, false);
    }
  }

  /// Believes the descriptor only if /proc does not say otherwise: the program may have closed it (a loop over all
  /// descriptors, as daemons have) and opened something else.
  [[gnu::cold]] void examine(std::size_t i, bool poll_failed) noexcept {
    const int peer = rank_of_[i];
    const bool invalid = !poll_failed && (polled_[i].revents & POLLNVAL) != 0;
    const presence seen = look_for(peers_[static_cast<std::size_t>(peer)].who);
    const bool gone = seen == presence::gone || (seen == presence::unknown && !poll_failed && !invalid);
    if (!gone && poll_failed) return;
    if (gone) close_pidfd(polled_[i].fd);  // else it is no longer what was opened here
    drop(i);
    set(peer, gone ? state::gone : state::looked_for);
  }
  /// Closes it if it still is a pidfd. Signal 0 is sent to nobody, but nothing else takes it: the process is there (0),
  /// has been (ESRCH), or is another user's (EPERM).
  static void close_pidfd(int number) noexcept {
    if (signal_pidfd(number, 0) == 0 || errno == ESRCH || errno == EPERM) close(number);
  }

  void look_for_all() noexcept {
    for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
      if (peers_[peer].how == state::looked_for && look_for(peers_[peer].who) == presence::gone)
        set(static_cast<int>(peer), state::gone);
    }
  }

  owned_array<watched> peers_;  // by rank
  owned_array<pollfd> polled_;  // those that have a pidfd, one after the other: poll(2) counts the others too
  owned_array<int> rank_of_;    // and whose each is
  std::size_t polled_count_ = 0;
  int looked_for_count_ = 0;
  int gone_count_ = 0;
  means means_;
};

}  // namespace tutti::detail
