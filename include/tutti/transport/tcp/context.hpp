// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/fork_guard.hpp>
#include <tutti/transport/rank_list.hpp>
#include <tutti/transport/tcp/connection.hpp>
#include <tutti/transport/tcp/control_message.hpp>
#include <tutti/transport/tcp/group_state.hpp>
#include <tutti/transport/tcp/service.hpp>
#include <tutti/transport/tcp/stalls.hpp>
#include <tutti/transport/tcp/tuning.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace tutti::detail {

/// What one rank has of its group, for all communicators.
template <class Security>
struct tcp_rank_parts {
  using connection_type = basic_tcp_connection<typename Security::wire>;

  tcp_rank_parts(int r, int s, std::chrono::milliseconds h)
      : rank(r),
        size(s),
        heartbeat(h),
        state(s),
        stalls(s, h),
        connections(static_cast<std::size_t>(s < 1 ? 1 : s), "the connections of a rank") {
    for (connection_type& c : connections) c.know(state.parts.numbers());
  }

  int rank;
  int size;
  std::chrono::milliseconds heartbeat;
  tcp_tuning tuning;
  fork_guard guard;
  tcp_group_state state;
  tcp_stalls stalls;
  owned_array<connection_type> connections;
  std::unique_ptr<tcp_service<Security>> service;  // null if there is one rank, and when the group has ended
  std::shared_ptr<tcp_rank_parts> itself;          // where it must never end
};

/// One rank's end of a communicator: the whole group, or some of its ranks, in an order of their own. A view on what
/// the rank has anyway, with a log and a failure of its own. Used by the thread of the rank; any may `abort`.
///
/// What goes wrong is told to the arbiter on rank 0, and comes back as a verdict that is the same everywhere. Where no
/// verdict comes, since rank 0 cannot be reached, what this rank knows counts for it after a while.
template <class Security>
class basic_tcp_context {
 public:
  using connection_type = basic_tcp_connection<typename Security::wire>;
  using parts_type = tcp_rank_parts<Security>;

  /// The whole group.
  explicit basic_tcp_context(const std::shared_ptr<parts_type>& all)
      : state_(&all->state),
        guard_(&all->guard),
        connections_(all->connections.size()),
        tuning_(all->tuning),
        rank_(all->rank),
        size_(all->size),
        all_(all) {
    for (std::size_t i = 0; i < connections_.size(); ++i) connections_[i] = &all->connections[i];
  }
  /// Some ranks of it, this one among them, all of them of `parent`.
  basic_tcp_context(basic_tcp_context& parent, const std::shared_ptr<tcp_part_state>& part)
      : state_(part.get()),
        guard_(parent.guard_),
        connections_(part->members()->size()),
        tuning_(parent.tuning_),
        number_(part->number()),
        parent_number_(parent.number_),
        size_(static_cast<int>(part->members()->size())),
        all_(parent.all_),
        part_(part) {
    for (int rank = 0; rank < size_; ++rank) {
      const int here = rank_of_group(rank);
      connections_[static_cast<std::size_t>(rank)] = &all_->connections[static_cast<std::size_t>(here)];
      if (here == all_->rank) rank_ = rank;
    }
    all_->state.add(part, *parent.state_);
  }
  basic_tcp_context(const basic_tcp_context&) = delete;
  basic_tcp_context& operator=(const basic_tcp_context&) = delete;
  /// This rank leaves it: nothing of this rank's memory is read or written on its behalf any more.
  ~basic_tcp_context() {
    // A process that was forked has copies of what is its parent's.
    if (part_ == nullptr || !guard_->armed()) return;
    all_->state.parts.remove(*part_, std::uncaught_exceptions() > exceptions_);
    for (connection_type* const c : connections_) c->leave(number_);
  }

  /// 0: the whole group.
  std::uint32_t number() const { return number_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  const tcp_tuning& tuning() const { return tuning_; }
  /// One for each rank, from the beginning; stays where it is.
  connection_type& connection(int peer) { return *connections_[static_cast<std::size_t>(peer)]; }
  /// All that this rank has.
  int lines() const { return all_->size; }
  connection_type& line(int rank_of_group) { return all_->connections[static_cast<std::size_t>(rank_of_group)]; }

  bool failed() const noexcept { return state_->failed() || !guard_->armed(); }
  /// Throws what the communicator failed of, if it failed.
  void check() {
    if (failed()) [[unlikely]]
      raise();
  }
  [[noreturn, gnu::noinline, gnu::cold]] void raise() {
    if (!guard_->armed()) fork_guard::refuse(all_->rank);
    state_->why().raise();
  }
  /// Why it failed, once it has.
  failure why() const { return state_->why(); }
  /// It becomes unusable; the first reason stays, for all its ranks.
  [[gnu::noinline, gnu::cold]] void fail(const failure& f) noexcept {
    if (failed()) return;
    TUTTI_FAULT_POINT("tcp.group.fail");
    report_failure(f, verdict_patience);
    if (all_->service != nullptr) state_->await_failure(2 * verdict_patience);
    conclude(f);
  }
  /// The same from any thread. This rank itself throws it soon, whether or not the others can be reached.
  [[gnu::noinline, gnu::cold]] void abort(std::string_view text) {
    if (failed()) return;
    TUTTI_FAULT_POINT("tcp.group.abort");
    report_failure(aborted(rank_, text), abort_patience);
  }
  /// What that rank sent makes no sense: no communicator can go on.
  [[noreturn, gnu::noinline, gnu::cold]] void distrust(int peer, const tcp_header& header) {
    const failure f = unsound_header(all_->rank, rank_of_group(peer), header);
    if (part_ == nullptr) {
      fail(f);
    } else {
      basic_tcp_context(all_).fail(f);
      part_->fail_with_group(all_->state.why());  // the service may not have come to it yet
    }
    raise();
  }

  /// The rank has left the group, and nothing more comes from it than has come.
  bool has_left(int rank) const noexcept { return all_->state.has_left(rank_of_group(rank)); }
  /// The rank has left this communicator before that call.
  bool never_calls(int rank, std::uint64_t number) const noexcept {
    return part_ != nullptr && part_->never_calls(rank, number);
  }
  /// The rank has left this communicator, and all that it sent in it has come.
  bool sends_no_more(int rank) const noexcept {
    return part_ != nullptr && part_->sends_no_more(rank, connections_[static_cast<std::size_t>(rank)]->taken());
  }
  /// A connection to that rank is needed.
  void want(int peer) {
    if (all_->service != nullptr) all_->service->want(rank_of_group(peer));
  }
  /// The data connection to that rank broke. Whether that rank has died, left or is to blame, the arbiter finds out.
  [[gnu::noinline, gnu::cold]] void lost(int peer, std::string_view what) noexcept {
    lost_line(rank_of_group(peer), what);
  }

  /// Readable after news; `news()` counts them, and `quiet()` makes it unreadable.
  int wake_descriptor() const { return all_->state.bell(); }
  std::uint64_t news() const noexcept { return all_->state.news(); }
  void quiet() noexcept { all_->state.quiet(); }

  void write_call(const call& c) noexcept {
    if (c.is_message()) return state_->messages.write(c);
    state_->log.write(c);
  }

  /// A message of that rank belongs to another call.
  [[noreturn, gnu::noinline, gnu::cold]] void disagree(int peer) {
    TUTTI_FAULT_POINT("tcp.group.disagree");
    report(about_here(control_kind::differs, peer));
    await_verdict({errc::mismatch, peer,
                   message() << "rank " << rank_ << " and rank " << peer
                             << " called different things, and rank 0 cannot be asked which"});
  }
  /// What this rank receives is not what the other has sent.
  [[noreturn, gnu::noinline, gnu::cold]] void misfit(const call& received) {
    TUTTI_FAULT_POINT("tcp.group.misfit");
    control_message m = about_here(control_kind::differs, received.from());
    m.calls = recorded(received);
    report(std::move(m));
    await_verdict(detail::misfit(received, {}));
  }
  /// The deadline has passed.
  [[noreturn, gnu::noinline, gnu::cold]] void late(const waiting_place& at, long long milliseconds) {
    TUTTI_FAULT_POINT("tcp.group.late");
    control_message m = about_here(control_kind::late, at.awaited);
    m.round = at.round;
    m.milliseconds = milliseconds;
    m.calls = recorded(at.during);
    report(std::move(m));
    await_verdict(too_late(at, at.awaited, milliseconds, true));
  }
  /// Throws the verdict on what somebody has reported; `otherwise` where none comes: then all throw that. None comes of
  /// the loss of a rank, `lost` if it is not -1, that has left the group.
  [[noreturn]] void await_verdict(const failure& otherwise, int lost = -1) {
    // If rank 0 cannot be reached this rank finds that out, which takes a heartbeat.
    const auto until = std::chrono::steady_clock::now() + 2 * all_->heartbeat + verdict_patience;
    const auto in_vain = [&] { return std::chrono::steady_clock::now() >= until || (lost >= 0 && has_left(lost)); };
    while (!state_->await_failure(verdict_step) && !in_vain()) {
    }
    fail(otherwise);
    raise();
  }
  /// Who waits in vain for a while has the awaited rank compare what both call, as soon as that rank calls it.
  [[gnu::noinline, gnu::cold]] void look_around(const waiting_place& at) {
    TUTTI_FAULT_POINT("tcp.group.look_around");
    control_message m = about_here(control_kind::looks, at.awaited);
    m.members = nullptr;
    m.number = at.during.is_message() ? UINT64_MAX : at.during.sequence;  // that is compared with nothing
    m.fingerprint = at.during.fingerprint();
    m.ticket = parent_number_;
    report(std::move(m));
  }

  /// Who waits looks now and then whether what others have written for it is lost.
  void look_for_stalls(std::chrono::steady_clock::time_point now) {
    if (all_->stalls.due(now)) [[unlikely]]
      look_at_lines(now);
  }

  /// The smallest number above those of all communicators that this rank was ever in.
  int next_group() const { return static_cast<int>(all_->state.parts.numbers().next()); }
  /// This rank's end of a new communicator of these ranks of this one. Throws what this one failed of, `usage_error`
  /// naming what is wrong, `resource_error`.
  [[gnu::noinline]] std::shared_ptr<basic_tcp_context> subgroup(int number, std::span<const int> members) {
    const auto wanted = static_cast<std::uint32_t>(number);
    try {
      check();
      TUTTI_FAULT_POINT("tcp.group.subgroup");
      check_subgroup(number, members);
      tcp_part_state::member_list ranks;
      ranks.reserve(members.size());
      for (const int rank : members) ranks.push_back(rank_of_group(rank));
      return std::make_shared<basic_tcp_context>(*this, std::make_shared<tcp_part_state>(wanted, std::move(ranks)));
    } catch (const usage_error&) {
      throw;  // the others may have been told something else
    } catch (...) {
      // The others get theirs, and find that this rank does not come.
      if (is_number(number)) all_->state.parts.skip(wanted);
      throw;
    }
  }

 private:
  // Until what a rank itself knows counts for it, verdict or not.
  static constexpr std::chrono::milliseconds verdict_patience{1'000};
  static constexpr std::chrono::milliseconds abort_patience{40};
  static constexpr std::chrono::milliseconds verdict_step{20};  // between looks who has left

  int rank_of_group(int rank) const {
    return part_ == nullptr ? rank : (*part_->members())[static_cast<std::size_t>(rank)];
  }
  static std::shared_ptr<const recorded_calls> recorded(const call& c) {
    const auto calls = std::make_shared<recorded_calls>();
    calls->add(recorded_call(c));
    return calls;
  }
  /// The same with the ranks of the whole group in its text.
  failure placed(const failure& f) const noexcept {
    failure made{f.kind, f.peer, {}};
    try {
      made.text = f.text;
      if (part_ != nullptr) made.text += of_members(*part_->members());
    } catch (...) {  // no memory: it must do with less
    }
    return made;
  }
  void lost_line(int rank, std::string_view what) noexcept {
    TUTTI_FAULT_POINT("tcp.group.lost");
    if (all_->service != nullptr) all_->service->suspect(rank, what);
  }
  [[gnu::noinline, gnu::cold]] void look_at_lines(std::chrono::steady_clock::time_point now) {
    TUTTI_FAULT_POINT("tcp.group.look_for_stalls");
    for (int rank = 0; rank < all_->size; ++rank) {
      connection_type& c = line(rank);
      if (c.misses()) c.advance();
      const auto& claim = all_->state.claim_of(rank);
      const std::uint64_t written = claim.written.load(std::memory_order_acquire);
      const std::chrono::steady_clock::time_point since(claim.since.load(std::memory_order_relaxed));
      const auto found = all_->stalls.look(rank, c.misses(), c.received(), written, since, now);
      if (found == tcp_stalls::finding::unknown) {
        control_message m;
        m.kind = control_kind::misses;
        m.peer = rank;
        m.number = c.received();
        report(std::move(m));
      } else if (found == tcp_stalls::finding::lost && c.tell()) {
        lost_line(rank, (message() << "nothing of what that rank has written has come for "
                                   << static_cast<long long>(all_->heartbeat.count()) << " ms")
                            .str());
      }
    }
  }
  control_message about_here(control_kind kind, int peer) const {
    control_message m;
    m.kind = kind;
    m.peer = rank_of_group(peer);
    if (part_ == nullptr) return m;
    m.group = number_;
    m.members = part_->members();
    return m;
  }
  void report(control_message m) noexcept {
    if (all_->service != nullptr) all_->service->report(std::move(m));
  }
  void report_failure(const failure& f, std::chrono::milliseconds patience) noexcept {
    if (all_->service == nullptr) {
      conclude(f);
    } else if (part_ == nullptr) {
      all_->service->fail(f, patience);
    } else {
      all_->service->fail(*part_, placed(f), patience);
    }
  }
  void conclude(const failure& f) noexcept {
    if (part_ == nullptr) {
      all_->state.fail(f);
    } else {
      part_->fail(placed(f));
      all_->state.ring();
    }
  }

  static bool is_number(int number) { return number > 0 && number < static_cast<int>(tcp_header::largest_group); }
  void check_subgroup(int number, std::span<const int> members) const {
    const auto refuse = [&](const message& what) {
      throw usage_error(message() << "subgroup on rank " << rank_ << " of " << size_ << ": " << what.str());
    };
    if (number < next_group()) refuse(message() << "its number is " << number << ", must be at least " << next_group());
    if (!is_number(number))
      throw resource_error(message() << "rank " << rank_ << " of " << size_
                                     << " can make no more communicators: " << number << " have been made");
    if (members.size() > control_frame::most_members)
      refuse(message() << "it has " << members.size() << " ranks, must be at most " << control_frame::most_members);
    owned_array<bool> seen(static_cast<std::size_t>(size_));
    for (const int rank : members) {
      if (rank < 0 || rank >= size_) refuse(message() << "a member is rank " << rank << ", of " << size_);
      if (std::exchange(seen[static_cast<std::size_t>(rank)], true))
        refuse(message() << "rank " << rank << " is in it twice");
    }
    if (!seen[static_cast<std::size_t>(rank_)]) refuse(message() << "this rank is not in it");
  }

  tcp_context_state* state_;
  const fork_guard* guard_;
  owned_array<connection_type*> connections_;
  tcp_tuning tuning_;
  std::uint32_t number_ = 0;
  std::uint32_t parent_number_ = 0;  // of what it was made of
  int rank_ = 0;
  int size_;
  std::shared_ptr<parts_type> all_;
  std::shared_ptr<tcp_part_state> part_;  // null: the whole group
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tutti::detail
