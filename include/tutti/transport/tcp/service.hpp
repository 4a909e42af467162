// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/descriptor.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/tcp/check_options.hpp>
#include <tutti/transport/tcp/connection.hpp>
#include <tutti/transport/tcp/control.hpp>
#include <tutti/transport/tcp/control_message.hpp>
#include <tutti/transport/tcp/door.hpp>
#include <tutti/transport/tcp/fork_closer.hpp>
#include <tutti/transport/tcp/group_state.hpp>
#include <tutti/transport/tcp/membership.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp/resolver.hpp>
#include <tutti/transport/tcp/start.hpp>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include <pthread.h>
#include <signal.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace tutti::detail {

/// The service thread of one rank and what runs on it: the control plane, and the door that data connections come
/// through. It sleeps in the kernel while nothing happens, and takes no signals. What other threads want of it they
/// post.
template <class Security>
class tcp_service {
  using socket = typename Security::socket;
  using connection_type = basic_tcp_connection<typename Security::wire>;
  using membership_type = basic_tcp_membership<socket>;
  friend tcp_control<tcp_service, socket>;
  friend tcp_door<tcp_service, Security>;

 public:
  /// Meets the others, on the calling thread. `adopted` owns the listener of the options until then. Throws what
  /// `tcp_meet` throws, and std::system_error.
  tcp_service(const tcp_options& options, descriptor_owner& adopted, tcp_group_state& state,
              owned_array<connection_type>& connections)
      : state_(&state),
        connections_(&connections),
        rank_(options.rank),
        no_memory_{errc::resource, rank_, message() << "rank " << rank_ << " gets no memory to talk to the others"},
        patience_(std::min(options.heartbeat, longest_farewell)),
        security_(Security::of(options)),
        membership_(meet(options, adopted)),
        control_(io_, options.rank, options.size, countable(options.heartbeat), std::move(membership_.control), *this),
        door_(io_, options, membership_, *this, {}, security_),
        farewell_(io_),
        closer_(2 * static_cast<std::size_t>(options.size) + 1),
        work_(io_.get_executor()) {}
  tcp_service(const tcp_service&) = delete;
  tcp_service& operator=(const tcp_service&) = delete;
  /// Says what is left to be said, for a limited time, and ends the thread.
  ~tcp_service() {
    if (running_) {
      if (!post([this] { depart(); })) io_.stop();
      pthread_join(thread_, nullptr);
    }
    closer_.clear();
    door_.close();
    control_.close();
  }

  const membership_type& membership() const { return membership_; }

  void start() {
    control_.for_each_connection([this](int rank, int to) { closer_.add(static_cast<std::size_t>(rank), to); });
    if (membership_.listener.is_open())
      closer_.add(2 * connections_->size(), membership_.listener.acceptor().native_handle());
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
  /// Tells it that this rank has lost its connection to that one.
  void suspect(int peer, std::string_view what) noexcept {
    attempt([&] {
      control_message m;
      m.kind = control_kind::suspects;
      m.peer = peer;
      m.text = message() << "rank " << rank_ << " lost its connection to rank " << peer << ": " << what;
      report(std::move(m));
    });
  }
  /// Tells the arbiter of a failure, which after that time counts for this rank, whatever the arbiter says.
  void fail(const failure& f, std::chrono::milliseconds patience) noexcept {
    attempt([&] { asio::post(io_, [this, f, patience] { tell_failure(f, patience); }); });
  }
  /// The same of a failure of one communicator.
  void fail(const tcp_part_state& part, const failure& f, std::chrono::milliseconds patience) noexcept {
    attempt([&] {
      asio::post(io_, [this, group = part.number(), hash = part.hash(), members = part.members(), f, patience] {
        control_message m = control_message::of(control_kind::failed, f);
        m.group = group;
        m.members = members;
        control_.report(std::move(m));
        const auto timer = std::make_shared<asio::steady_timer>(io_, patience);
        timer->async_wait([this, timer, group, hash, f](const asio::error_code& wrong) {
          if (!wrong) state_->fail(group, hash, f);
        });
      });
    });
  }
  /// A connection is wanted.
  void want(int peer) { door_.connect(peer); }
  /// The rank has left; all that it has sent is written.
  void leave() noexcept {
    post([this] { say_goodbye(); });
  }

 private:
  // A rank that is stopped does not keep the arbiter longer than this from ending.
  static constexpr std::chrono::milliseconds longest_farewell{2'000};

  connection_type& connection(int peer) { return (*connections_)[static_cast<std::size_t>(peer)]; }

  membership_type meet(const tcp_options& options, descriptor_owner& adopted) {
    adopted.release();
    return tcp_meet(io_, options, {}, tcp_resolver(), security_);
  }

  /// False where there is no memory, which the group fails of.
  template <class F>
  bool attempt(F&& f) noexcept {
    try {
      f();
      return true;
    } catch (...) {
      state_->fail(no_memory_);
      return false;
    }
  }
  template <class F>
  bool post(F&& f) noexcept {
    return attempt([&] { asio::post(io_, std::forward<F>(f)); });
  }
  void work() noexcept {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::bad_alloc&) {
        give_up(no_memory_);
      } catch (const std::exception& e) {
        attempt([&] {
          const auto* const own = dynamic_cast<const error*>(&e);
          const bool resource = own != nullptr && own->code() == make_error_code(errc::resource);
          give_up({resource ? errc::resource : errc::peer_failed, rank_,
                   message() << "rank " << rank_ << " failed on its service thread: " << e.what()});
        });
      }
      if (departing_) return;
    }
  }
  /// What was under way when something was thrown does not go on: the group fails. Where there is no memory to tell the
  /// others why, they see the end of the connections.
  void give_up(const failure& f) noexcept {
    state_->fail(f);
    if (!attempt([&] { tell_failure(f, std::chrono::milliseconds(0)); })) {
      closer_.clear();
      control_.close();
    }
  }
  void tell_failure(const failure& f, std::chrono::milliseconds patience) {
    control_.report(control_message::of(control_kind::failed, f));
    const auto timer = std::make_shared<asio::steady_timer>(io_, patience);
    timer->async_wait([this, timer, f](const asio::error_code& wrong) {
      if (!wrong) control_.conclude(f);
    });
  }

  // ---- What the control plane tells

  const call_log& calls() const { return state_->log; }
  const message_log& messages() const { return state_->messages; }
  std::shared_ptr<tcp_part_state> part(std::uint32_t number) { return state_->parts.find(number); }
  bool is_to_come(std::uint32_t number) { return state_->parts.is_to_come(number); }
  bool is_to_come(std::uint32_t number, std::uint32_t parent) { return state_->parts.is_to_come(number, parent); }
  std::string trouble() const { return door_.shortage(); }
  std::uint64_t written(int peer) { return connection(peer).written(); }
  std::uint64_t given(int peer) { return connection(peer).given(); }
  void claimed(int peer, std::uint64_t bytes) { state_->claim(peer, bytes); }
  void decided(const failure& f) {
    door_.close();
    state_->fail(f);
  }
  void decided(std::uint32_t part, std::uint64_t members, const failure& f) { state_->fail(part, members, f); }
  void left(std::uint32_t part, int rank, std::uint64_t last, std::uint64_t given) {
    if (const auto there = state_->parts.find(part)) there->leave(rank, last, given);
    state_->ring();
  }
  /// What the rank has sent may still be on its way, by a connection that is not established here yet: the news that it
  /// has left waits for that.
  void left(int rank, std::uint64_t last, std::uint64_t fingerprint) {
    if (!door_.expects(rank)) return state_->leave(rank, last, fingerprint);
    const auto timer = std::make_shared<asio::steady_timer>(io_, std::chrono::milliseconds(1));
    timer->async_wait([this, timer, rank, last, fingerprint](const asio::error_code& wrong) {
      if (!wrong) left(rank, last, fingerprint);
    });
  }
  void parted() {
    door_.close();
    state_->part();
  }
  void settled() { io_.stop(); }

  // ---- What the door tells

  void established(int peer, socket&& line) {
    TUTTI_FAULT_POINT("tcp.service.established");
    connection(peer).establish(std::move(line));
    closer_.add(connections_->size() + static_cast<std::size_t>(peer), connection(peer).descriptor());
    if (left_) connection(peer).finish_sending();
    state_->ring();
  }
  void cannot_connect(int peer, const std::string& why) {
    const std::string shortage = door_.shortage();
    control_message m;
    m.kind = control_kind::suspects;
    m.peer = peer;
    m.text = why;
    if (!shortage.empty()) m = control_message::of(control_kind::failed, too_short(rank_, shortage));
    control_.report(std::move(m));
  }

  // ---- The end

  static control_message last_call(control_kind kind, const call_log& log) {
    control_message m;
    m.kind = kind;
    m.number = log.last();
    if (const call last = log.read(m.number); last.signature != nullptr) m.fingerprint = last.fingerprint();
    return m;
  }
  void say_goodbye() {
    TUTTI_FAULT_POINT("tcp.service.goodbye");
    for (const auto& part : state_->parts.there(tcp_arbiter<tcp_control<tcp_service, socket>>::most_kept)) {
      if (part->failed()) continue;
      control_message m = last_call(control_kind::keeps, part->log);
      m.group = part->number();
      m.members = part->members();
      control_.report(std::move(m));
    }
    control_.report(last_call(control_kind::goodbye, state_->log));
    // After the goodbye: who sees the end of a connection asks the arbiter why.
    left_ = true;
    for (connection_type& c : *connections_) c.finish_sending();
  }

  void depart() {
    departing_ = true;
    door_.close();
    control_.settle();
    farewell_.expires_after(patience_);
    farewell_.async_wait([this](const asio::error_code& wrong) {
      if (!wrong) io_.stop();
    });
  }

  tcp_group_state* state_;
  owned_array<connection_type>* connections_;
  int rank_;
  failure no_memory_;
  std::chrono::milliseconds patience_;
  asio::io_context io_{1};
  Security security_;
  membership_type membership_;
  tcp_control<tcp_service, socket> control_;
  tcp_door<tcp_service, Security> door_;
  asio::steady_timer farewell_;
  fork_closer closer_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  pthread_t thread_{};
  bool running_ = false;
  bool left_ = false;
  bool departing_ = false;
};

}  // namespace tutti::detail
