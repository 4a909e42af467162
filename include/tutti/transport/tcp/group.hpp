// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/descriptor.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/wait.hpp>
#include <tutti/transport/tcp/check_options.hpp>
#include <tutti/transport/tcp/context.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp/plain.hpp>
#include <tutti/transport/tcp/service.hpp>
#include <tutti/transport/tcp/tuning.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace tutti::detail {

/// One rank of a group whose ranks talk through TCP, from its beginning to its end, as the rank's own thread has it.
/// Alone, it opens nothing. Communicators of some of the ranks may outlive it, but are of no use then.
template <class Security>
class basic_tcp_group {
 public:
  using context_type = basic_tcp_context<Security>;
  using connection_type = typename context_type::connection_type;

  /// Meets the others. Throws `usage_error`, `timed_out` naming the ranks that did not come, `mismatch` if their
  /// programs differ, `resource_error`.
  explicit basic_tcp_group(const tcp_options& options) {
    descriptor_owner adopted(options.listener);
    with_start_errors(options, [&] {
      all_ = std::make_shared<parts>(options.rank, options.size, countable(options.heartbeat));
      all_->guard.arm();
      if (options.size == 1) {
        check_options(options);
        static_cast<void>(Security::of(options));
      } else {
        all_->service = std::make_unique<tcp_service<Security>>(options, adopted, all_->state, all_->connections);
      }
      all_->tuning = tcp_tuning::for_host(ranks_here(), usable_processors(), options.busy_poll);
      all_->tuning.grace = all_->heartbeat;  // a network may be silent for so long
      all_->tuning.longest_nap = std::min(all_->tuning.longest_nap, all_->stalls.step());
      for (connection_type& c : all_->connections) c.tune(all_->tuning);
      whole_.emplace(all_);
      if (all_->service != nullptr) all_->service->start();
    });
  }
  basic_tcp_group(const basic_tcp_group&) = delete;
  basic_tcp_group& operator=(const basic_tcp_group&) = delete;
  /// Ends the service thread, after a limited time.
  ~basic_tcp_group() {
    if (!all_->guard.armed()) {
      // In a process that was forked there is no such thread, and the connections are its parent's.
      all_->itself = all_;
      return;
    }
    all_->service.reset();
    try {
      all_->state.parts.fail_all({errc::usage, -1, "the run that made this communicator has ended"});
    } catch (...) {
      all_->state.parts.fail_all({});  // no memory: it must do without a text
    }
    for (connection_type& c : all_->connections) c.close();
  }

  int rank() const { return all_->rank; }
  int size() const { return all_->size; }
  const tcp_tuning& tuning() const { return all_->tuning; }
  /// The same number for ranks that may share memory, and another for others.
  std::uint64_t memory_of(int rank) const {
    return all_->service == nullptr ? 0 : all_->service->membership().members[static_cast<std::size_t>(rank)].memory;
  }
  /// Random bits of this start, the same on all ranks; zeros where there is one rank.
  std::array<std::byte, 16> session() const {
    return all_->service == nullptr ? std::array<std::byte, 16>{} : all_->service->membership().session;
  }
  /// The communicator of all ranks.
  context_type& whole() { return *whole_; }

  /// Throws what the group failed of, if it failed.
  void check() { whole_->check(); }
  /// The group becomes unusable; the first reason stays, for all ranks.
  void fail(const failure& f) noexcept { whole_->fail(f); }
  /// Why it failed, once it has.
  failure why() const { return all_->state.why(); }

  /// The rank's function has returned. The goodbye follows what it has sent.
  void leave() noexcept {
    TUTTI_FAULT_POINT("tcp.group.leave");
    if (all_->service != nullptr && all_->guard.armed()) all_->service->leave();
  }
  /// Waits until all ranks have left, or the group has failed. Throws what it failed of, `mismatch` if the ranks have
  /// not all made the same calls.
  void part() {
    TUTTI_FAULT_POINT("tcp.group.part");
    check();
    if (all_->service != nullptr && all_->state.await_end()) whole_->raise();
  }

 private:
  using parts = typename context_type::parts_type;

  int ranks_here() const {
    if (all_->service == nullptr) return 1;
    const auto& members = all_->service->membership().members;
    int here = 0;
    for (const tcp_member& m : members) here += m.host == members[static_cast<std::size_t>(all_->rank)].host;
    return here;
  }

  std::shared_ptr<parts> all_;
  std::optional<context_type> whole_;
};

using tcp_group = basic_tcp_group<tcp_plain>;

}  // namespace tutti::detail
