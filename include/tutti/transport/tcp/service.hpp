// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/tcp/connection.hpp>
#include <tutti/transport/tcp/control.hpp>
#include <tutti/transport/tcp/control_message.hpp>
#include <tutti/transport/tcp/door.hpp>
#include <tutti/transport/tcp/flusher.hpp>
#include <tutti/transport/tcp/group_state.hpp>
#include <tutti/transport/tcp/membership.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp/start.hpp>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include <pthread.h>
#include <signal.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

namespace tutti::detail {

/// The service thread of one rank and all that runs on it: the control plane, the door that data connections come
/// through, and what is left to be written on them. It sleeps in the kernel while nothing happens, and takes no
/// signals. What other threads want of it they post.
class tcp_service {
  friend tcp_control<tcp_service>;
  friend tcp_door<tcp_service>;

 public:
  /// Meets the others, on the calling thread. Throws what `tcp_meet` throws.
  tcp_service(const tcp_options& options, tcp_group_state& state, owned_array<tcp_connection>& connections)
      : state_(&state),
        connections_(&connections),
        rank_(options.rank),
        patience_(std::min(options.heartbeat, longest_farewell)),
        membership_(tcp_meet(io_, options)),
        control_(io_, options.rank, options.size, options.heartbeat, std::move(membership_.control), *this),
        door_(io_, options, membership_, *this),
        flusher_(io_, options.size),
        left_over_(static_cast<std::size_t>(options.size), "what is left to be written"),
        farewell_(io_),
        work_(io_.get_executor()) {}
  tcp_service(const tcp_service&) = delete;
  tcp_service& operator=(const tcp_service&) = delete;
  /// Says what is left to be said, for a limited time, and ends the thread.
  ~tcp_service() {
    if (running_) {
      post([this] { depart(); });
      pthread_join(thread_, nullptr);
    }
    flusher_.close();
    door_.close();
    control_.close();
  }

  const tcp_membership& membership() const { return membership_; }

  void start() {
    control_.start();
    door_.start();
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int refused = pthread_create(
        &thread_, nullptr,
        [](void* self) -> void* {
          static_cast<tcp_service*>(self)->work();
          return nullptr;
        },
        this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    running_ = refused == 0;
    if (running_) return;
    throw resource_error(message() << "run_tcp: the system refused the service thread of rank " << rank_ << ": "
                                   << std::generic_category().message(refused));
  }

  // ---- Any thread

  /// Tells the arbiter.
  void report(control_message m) noexcept {
    post([this, m = std::move(m)] { control_.report(m); });
  }
  /// Tells the arbiter of a failure, which after that time counts for this rank, whatever the arbiter says.
  void fail(const failure& f, std::chrono::milliseconds patience) noexcept {
    post([this, f, patience] {
      control_.report(control_message::of(control_kind::failed, f));
      const auto timer = std::make_shared<asio::steady_timer>(io_, patience);
      timer->async_wait([this, timer, f](const asio::error_code& wrong) {
        if (!wrong) control_.conclude(f);
      });
    });
  }
  /// A connection is wanted.
  void want(int peer) { door_.connect(peer); }
  /// Something is left to be written to that rank.
  void hand_over(int peer) noexcept {
    if (left_over(peer).exchange(true, std::memory_order_acq_rel)) return;
    post([this, peer] { flush(peer); });
  }
  /// The rank has left: says goodbye once everything is written.
  void leave() noexcept {
    post([this] {
      leaving_ = true;
      say_goodbye();
    });
  }

 private:
  // A rank that is stopped does not keep the arbiter longer than this from ending.
  static constexpr std::chrono::milliseconds longest_farewell{2'000};

  std::atomic<bool>& left_over(int peer) { return left_over_[static_cast<std::size_t>(peer)]; }
  tcp_connection& connection(int peer) { return (*connections_)[static_cast<std::size_t>(peer)]; }

  template <class F>
  void post(F&& f) noexcept {
    try {
      asio::post(io_, std::forward<F>(f));
    } catch (...) {
      state_->fail({errc::resource, rank_, "no memory to tell the other ranks"});
    }
  }
  void work() noexcept {
    for (;;) {
      std::string text;
      try {
        io_.run();
        return;
      } catch (const std::exception& e) {
        text = e.what();
      }
      const failure f{errc::peer_failed, rank_,
                      message() << "rank " << rank_ << " failed on its service thread: " << text};
      state_->fail(f);
      fail(f, std::chrono::milliseconds(0));
    }
  }

  // ---- What the control plane tells

  const call_log& calls() const { return state_->log; }
  void decided(const failure& f) {
    door_.close();
    state_->fail(f);
  }
  void left(int rank, std::uint64_t last, std::uint64_t fingerprint) { state_->leave(rank, last, fingerprint); }
  void parted() {
    door_.close();
    state_->part();
  }
  void settled() { io_.stop(); }

  // ---- What the door tells

  void established(int peer, asio::ip::tcp::socket&& socket) {
    TUTTI_FAULT_POINT("service.established");
    connection(peer).establish(std::move(socket));
    if (left_) connection(peer).finish_sending();
    if (left_over(peer).load(std::memory_order_acquire)) flush(peer);
    state_->ring();
  }
  void cannot_connect(int peer, const std::string& why) {
    control_message m;
    m.kind = control_kind::suspects;
    m.peer = peer;
    m.text = message() << "rank " << rank_ << " cannot connect to rank " << peer << ": " << why;
    control_.report(std::move(m));
  }

  // ---- What is left to be written

  void flush(int peer) {
    tcp_connection& c = connection(peer);
    if (!c.established() || control_.concluded()) return;  // once it is
    if (!c.flush() && !c.broken()) {
      flusher_.await(peer, c.descriptor(), [this, peer] { flush(peer); });
      return;
    }
    left_over(peer).store(false, std::memory_order_release);
    if (leaving_) say_goodbye();
  }
  void say_goodbye() {
    for (std::atomic<bool>& left : left_over_)
      if (left.load(std::memory_order_acquire)) return;
    TUTTI_FAULT_POINT("service.goodbye");
    leaving_ = false;
    control_message m;
    m.kind = control_kind::goodbye;
    m.number = state_->log.last();
    if (const call last = state_->log.read(m.number); last.signature != nullptr) m.fingerprint = last.fingerprint();
    control_.report(std::move(m));
    // After the goodbye: who sees the end of a connection asks the arbiter why.
    left_ = true;
    for (tcp_connection& c : *connections_) c.finish_sending();
  }

  void depart() {
    door_.close();
    control_.settle();
    farewell_.expires_after(patience_);
    farewell_.async_wait([this](const asio::error_code& wrong) {
      if (!wrong) io_.stop();
    });
  }

  tcp_group_state* state_;
  owned_array<tcp_connection>* connections_;
  int rank_;
  std::chrono::milliseconds patience_;
  asio::io_context io_{1};
  tcp_membership membership_;
  tcp_control<tcp_service> control_;
  tcp_door<tcp_service> door_;
  tcp_flusher flusher_;
  owned_array<std::atomic<bool>> left_over_;
  asio::steady_timer farewell_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  pthread_t thread_{};
  bool running_ = false;
  bool leaving_ = false;
  bool left_ = false;
};

}  // namespace tutti::detail
