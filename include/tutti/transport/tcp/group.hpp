// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/descriptor.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/wait.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/fork_guard.hpp>
#include <tutti/transport/tcp/check_options.hpp>
#include <tutti/transport/tcp/connection.hpp>
#include <tutti/transport/tcp/control_message.hpp>
#include <tutti/transport/tcp/group_state.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp/plain.hpp>
#include <tutti/transport/tcp/service.hpp>
#include <tutti/transport/tcp/stalls.hpp>
#include <tutti/transport/tcp/tuning.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace tutti::detail {

/// One rank of a group whose ranks talk through TCP, as the rank's own thread has it. Alone, it opens nothing.
///
/// What goes wrong is told to the arbiter on rank 0, and comes back as a verdict that is the same everywhere. Where no
/// verdict comes, since rank 0 cannot be reached, what this rank knows counts for it after a while.
template <class Security>
class basic_tcp_group {
 public:
  using connection_type = basic_tcp_connection<typename Security::wire>;

  /// Meets the others. Throws `usage_error`, `timed_out` naming the ranks that did not come, `mismatch` if their
  /// programs differ, `resource_error`.
  explicit basic_tcp_group(const tcp_options& options)
      : rank_(options.rank), size_(options.size), heartbeat_(countable(options.heartbeat)) {
    guard_.arm();
    descriptor_owner adopted(options.listener);
    with_start_errors(options, [&] {
      all_ = std::make_unique<parts>(size_, heartbeat_);
      if (size_ == 1) {
        check_options(options);
        static_cast<void>(Security::of(options));
      } else {
        all_->service = std::make_unique<tcp_service<Security>>(options, adopted, all_->state, all_->connections);
      }
      tuning_ = tcp_tuning::for_host(ranks_here(), usable_processors(), options.busy_poll);
      tuning_.grace = heartbeat_;  // a network may be silent for so long
      tuning_.longest_nap = std::min(tuning_.longest_nap, all_->stalls.step());
      for (connection_type& c : all_->connections) c.tune(tuning_);
      if (all_->service != nullptr) all_->service->start();
    });
  }
  basic_tcp_group(const basic_tcp_group&) = delete;
  basic_tcp_group& operator=(const basic_tcp_group&) = delete;
  /// Ends the service thread, after a limited time.
  ~basic_tcp_group() {
    // In a process that was forked there is no such thread, and the connections are its parent's.
    if (!guard_.armed()) static_cast<void>(all_.release());
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  const tcp_tuning& tuning() const { return tuning_; }
  /// One for each rank, from the beginning; stays where it is.
  connection_type& connection(int peer) { return all_->connections[static_cast<std::size_t>(peer)]; }

  bool failed() const noexcept { return all_->state.failed() || !guard_.armed(); }
  /// Throws what the group failed of, if it failed.
  void check() {
    if (failed()) [[unlikely]]
      raise();
  }
  [[noreturn, gnu::noinline, gnu::cold]] void raise() {
    if (!guard_.armed()) fork_guard::refuse(rank_);
    all_->state.why().raise();
  }
  /// The group becomes unusable; the first reason stays, for all ranks.
  [[gnu::noinline, gnu::cold]] void fail(const failure& f) noexcept {
    if (failed()) return;
    TUTTI_FAULT_POINT("tcp.group.fail");
    if (all_->service == nullptr) return all_->state.fail(f);
    all_->service->fail(f, verdict_patience);
    all_->state.await_failure(2 * verdict_patience);
    all_->state.fail(f);
  }
  /// The same from any thread. This rank itself throws it soon, whether or not the others can be reached.
  [[gnu::noinline, gnu::cold]] void abort(std::string_view text) {
    if (failed()) return;
    TUTTI_FAULT_POINT("tcp.group.abort");
    const failure f = aborted(rank_, text);
    if (all_->service == nullptr) return all_->state.fail(f);
    all_->service->fail(f, abort_patience);
  }

  /// The rank has left, and nothing more comes from it than has come.
  bool has_left(int rank) const noexcept { return all_->state.has_left(rank); }
  /// A connection to that rank is needed.
  void want(int peer) {
    if (all_->service != nullptr) all_->service->want(peer);
  }
  /// The data connection to that rank broke. Whether that rank has died, left or is to blame, the arbiter finds out.
  [[gnu::noinline, gnu::cold]] void lost(int peer, std::string_view what) noexcept {
    TUTTI_FAULT_POINT("tcp.group.lost");
    control_message m;
    m.kind = control_kind::suspects;
    m.peer = peer;
    m.text = message() << "rank " << rank_ << " lost its connection to rank " << peer << ": " << what;
    all_->service->report(std::move(m));
  }

  /// Readable after news; `news()` counts them, and `quiet()` makes it unreadable.
  int wake_descriptor() const { return all_->state.bell(); }
  std::uint64_t news() const noexcept { return all_->state.news(); }
  void quiet() noexcept { all_->state.quiet(); }

  void write_call(const call& c) noexcept { all_->state.log.write(c); }

  /// A message of that rank belongs to another call.
  [[noreturn, gnu::noinline, gnu::cold]] void disagree(int peer) {
    TUTTI_FAULT_POINT("tcp.group.disagree");
    control_message m;
    m.kind = control_kind::differs;
    m.peer = peer;
    all_->service->report(std::move(m));
    await_verdict({errc::mismatch, peer,
                   message() << "rank " << rank_ << " and rank " << peer
                             << " called different things, and rank 0 cannot be asked which"});
  }
  /// The deadline has passed.
  [[noreturn, gnu::noinline, gnu::cold]] void late(const waiting_place& at, long long milliseconds) {
    TUTTI_FAULT_POINT("tcp.group.late");
    control_message m;
    m.kind = control_kind::late;
    m.peer = at.awaited;
    m.round = at.round;
    m.milliseconds = milliseconds;
    const auto during = std::make_shared<recorded_calls>();
    during->add(recorded_call(at.during));
    m.calls = during;
    all_->service->report(std::move(m));
    await_verdict(too_late(at, at.awaited, milliseconds, true));
  }
  /// Who waits in vain for a while has the awaited rank compare what both call, as soon as that rank calls it.
  [[gnu::noinline, gnu::cold]] void look_around(const waiting_place& at) {
    TUTTI_FAULT_POINT("tcp.group.look_around");
    control_message m;
    m.kind = control_kind::looks;
    m.peer = at.awaited;
    m.number = at.during.sequence;
    m.fingerprint = at.during.fingerprint();
    all_->service->report(std::move(m));
  }
  /// Who waits looks now and then whether what others have written for it is lost.
  void look_for_stalls(std::chrono::steady_clock::time_point now) {
    if (all_->stalls.due(now)) [[unlikely]]
      look_at_connections(now);
  }

  /// The rank's function has returned. The goodbye follows what it has sent.
  void leave() noexcept {
    TUTTI_FAULT_POINT("tcp.group.leave");
    if (all_->service != nullptr && guard_.armed()) all_->service->leave();
  }
  /// Waits until all ranks have left, or the group has failed. Throws what it failed of, `mismatch` if the ranks have
  /// not all made the same calls.
  void part() {
    TUTTI_FAULT_POINT("tcp.group.part");
    check();
    if (all_->service != nullptr && all_->state.await_end()) raise();
  }
  /// Why the group failed, once it has.
  failure why() const { return all_->state.why(); }

 private:
  // Until what a rank itself knows counts for it, verdict or not.
  static constexpr std::chrono::milliseconds verdict_patience{1'000};
  static constexpr std::chrono::milliseconds abort_patience{40};

  struct parts {
    parts(int size, std::chrono::nanoseconds heartbeat)
        : state(size),
          stalls(size, heartbeat),
          connections(static_cast<std::size_t>(size < 1 ? 1 : size), "the connections of a rank") {}
    tcp_group_state state;
    tcp_stalls stalls;
    owned_array<connection_type> connections;
    std::unique_ptr<tcp_service<Security>> service;  // null if there is one rank
  };

  [[gnu::noinline, gnu::cold]] void look_at_connections(std::chrono::steady_clock::time_point now) {
    TUTTI_FAULT_POINT("tcp.group.look_for_stalls");
    for (int peer = 0; peer < size_; ++peer) {
      connection_type& c = connection(peer);
      if (c.misses()) c.advance();
      const auto& claim = all_->state.claim_of(peer);
      const std::uint64_t written = claim.written.load(std::memory_order_acquire);
      const std::chrono::steady_clock::time_point since(claim.since.load(std::memory_order_relaxed));
      const auto found = all_->stalls.look(peer, c.misses(), c.received(), written, since, now);
      if (found == tcp_stalls::finding::unknown) {
        control_message m;
        m.kind = control_kind::misses;
        m.peer = peer;
        m.number = c.received();
        all_->service->report(std::move(m));
      } else if (found == tcp_stalls::finding::lost && c.tell()) {
        lost(peer, (message() << "nothing of what that rank has written has come for "
                              << static_cast<long long>(heartbeat_.count()) << " ms")
                       .str());
      }
    }
  }
  int ranks_here() const {
    if (all_->service == nullptr) return 1;
    const auto& members = all_->service->membership().members;
    int here = 0;
    for (const tcp_member& m : members) here += m.host == members[static_cast<std::size_t>(rank_)].host;
    return here;
  }
  [[noreturn]] void await_verdict(const failure& otherwise) {
    // If rank 0 cannot be reached this rank finds that out, which takes a heartbeat.
    if (!all_->state.await_failure(2 * heartbeat_ + verdict_patience)) all_->state.fail(otherwise);
    raise();
  }

  int rank_;
  int size_;
  std::chrono::milliseconds heartbeat_;
  tcp_tuning tuning_;
  fork_guard guard_;
  std::unique_ptr<parts> all_;
};

using tcp_group = basic_tcp_group<tcp_plain>;

}  // namespace tutti::detail
