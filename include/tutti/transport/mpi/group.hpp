// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call.hpp>
#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/call_log.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/message_log.hpp>
#include <tutti/transport/mpi/api.hpp>
#include <tutti/transport/mpi/job.hpp>
#include <tutti/transport/mpi/looks.hpp>
#include <tutti/transport/mpi/meeting.hpp>
#include <tutti/transport/mpi/note.hpp>
#include <tutti/transport/rank_list.hpp>
#include <tutti/transport/recorded_calls.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::detail {

/// One rank of the ranks on one communicator of MPI's: the whole run's, number 0, or some of it. It knows what its
/// ranks call and why the communicator has become unusable.
///
/// Whoever finds out what is wrong tells rank 0, and rank 0 tells everybody, so that all throw the same. If rank 0 does
/// not answer, since it computes, say, who found out tells the others itself.
class mpi_group : public mpi_listener {
 public:
  /// All ranks of the job.
  explicit mpi_group(std::shared_ptr<mpi_job> job)
      : mpi_listener(0, &mpi_group::take),
        job_(std::move(job)),
        comm_(job_->comm()),
        rank_(job_->rank()),
        size_(job_->size()),
        gone_after_(static_cast<std::size_t>(size_)),
        left_(rank_ == 0 ? static_cast<std::size_t>(size_) : 0) {
    job_->join(*this);
  }
  /// Those ranks of the group `of`, which outlives it or is `whole`, once they have met there within that time.
  mpi_group(std::shared_ptr<mpi_group> whole, mpi_group& of, int number, std::span<const int> members,
            std::chrono::nanoseconds limit)
      : mpi_listener(number, &mpi_group::take),
        job_(of.job_),
        whole_(std::move(whole)),
        whole_state_(&whole_->state_),
        rank_(0),
        size_(static_cast<int>(members.size())),
        members_(members.size()),
        gone_after_(members.size()) {
    job_->go_on();
    job_->may_be_deaf();
    job_->free_retired();
    for (std::size_t i = 0; i < members.size(); ++i) members_[i] = of.in_job(members[i]);
    of.meeting_.meet(of, number, members, limit);
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    check_mpi(MPI_Comm_group(of.comm_, &all), "MPI_Comm_group");
    int code = MPI_Group_incl(all, size_, members.data(), &some);
    if (code == MPI_SUCCESS) {
      // Tags of this call are none of messages.
      code = MPI_Comm_create_group(of.comm_, some, number % mpi_tags::first, &comm_);
      MPI_Group_free(&some);
    }
    MPI_Group_free(&all);
    check_mpi(code, "MPI_Comm_create_group");
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    job_->join(*this);
  }
  ~mpi_group() {
    const bool by_exception = std::uncaught_exceptions() > exceptions_;
    if (!job_->gone()) try {
        if (whole_ != nullptr && !failed() && !whole_->failed())
          for (int peer = 0; peer < size_; ++peer)
            if (peer != rank_) tell_gone(peer, by_exception);
      } catch (...) {  // they may wait until their deadline
      }
    job_->leave(*this);
    if (whole_ == nullptr || job_->gone()) return;
    if (state_.load(std::memory_order_relaxed) != fine || whole_->failed()) {
      try {
        job_->abandon(comm_);
      } catch (...) {  // it stays as it is, and MPI ends it
      }
    } else {
      int awaited = size_ - 1;
      for (const std::uint64_t gone : gone_after_) awaited -= gone != 0;
      try {
        job_->retire(number(), awaited, comm_, by_exception || given_up_ != none);
      } catch (...) {  // it stays as it is, and MPI ends it
      }
    }
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  MPI_Comm comm() const { return comm_; }
  mpi_job& job() { return *job_; }

  bool failed() const noexcept { return state_.load(std::memory_order_relaxed) == broken; }
  /// Throws what the group failed of, if it failed.
  TUTTI_ALWAYS_INLINE void check() {
    if (!works()) [[unlikely]]
      raise();
  }
  [[noreturn, gnu::noinline, gnu::cold]] void raise() {
    fail_if_aborted();
    if (failed() || whole_ == nullptr) failure_.raise();
    whole_->fail_if_aborted();
    told_to_members(whole_->failure_, members()).raise();
  }
  /// Why the group failed, once it has.
  const failure& why() const { return failure_; }
  /// This rank gives that collective up: it sends nothing more for it, and does not receive what others send it.
  void withdraw(const call& c) noexcept {
    given_up_ = std::min(given_up_, c.sequence);
    job_->disturb();
  }

  /// The group becomes unusable; the first reason stays. On the rank's own thread.
  [[gnu::noinline, gnu::cold]] void fail(failure f) {
    if (failed() || (whole_ != nullptr && whole_->failed())) return;
    f.text += described();
    if (rank_ != 0 && !job_->gone()) {
      job_->send(in_job(0), about(note_kind::report, f));
      if (job_->poll_until([this] { return failed(); }, verdict_patience)) return;
    }
    settle(f);
    tell_all(f);
  }
  /// The same from any thread; the rank's own takes it from there. What it waits for ends.
  [[gnu::noinline, gnu::cold]] void abort(std::string_view text) {
    {
      const std::lock_guard lock(mutex_);
      int now = fine;
      abort_text_ = text;
      if (!state_.compare_exchange_strong(now, aborting, std::memory_order_acq_rel)) return;
      job_->disturb();
    }
    if (!job_->on_own_thread()) return;
    try {
      raise();
    } catch (const error&) {  // it is thrown by the next call
    }
  }

  TUTTI_ALWAYS_INLINE void write_call(const call& c) {
    if (c.is_message()) [[unlikely]]
      return write_message(c);
    write_collective(c);
  }
  TUTTI_ALWAYS_INLINE void write_collective(const call& c) {
    write_down(c);
    if (looks_.any_for_calls()) [[unlikely]]
      compare_last_call();
  }
  TUTTI_ALWAYS_INLINE void write_down(const call& c) { log_.write_unread(c); }

  call last_call() const { return log_.read(log_.last()); }

  /// Messages of that rank belong to another call.
  [[noreturn, gnu::noinline, gnu::cold]] void disagree(int peer) {
    tell_calls(peer);
    if (!job_->poll_until([this] { return failed(); }, answer_patience))
      fail({errc::mismatch, peer,
            message() << "rank " << rank_ << " and rank " << peer << " called different things, and rank " << peer
                      << " does not say which"});
    raise();
  }
  /// The two ends of a message do not fit. If this rank receives it, `end` is its own, and the sender is told, who
  /// knows both. If it sends, it hears of the other end from the receiver, who waits.
  [[noreturn, gnu::noinline, gnu::cold]] void misfit(int peer, const call& end, bool receives) {
    if (receives) {
      mpi_note note = about(note_kind::differs);
      note.calls.add(recorded_call(end));
      job_->send(in_job(peer), note);
    }
    if (!job_->poll_until([this] { return failed(); }, answer_patience))
      fail({errc::mismatch, peer,
            message() << "rank " << rank_ << " called " << end.describe() << "; rank " << peer
                      << " called something that does not fit, and does not say what"});
    raise();
  }
  /// Has the rank that is waited for compare what both call, as soon as it calls it.
  [[gnu::noinline, gnu::cold]] void look_around(const waiting_place& at) {
    mpi_note note = about(note_kind::looks);
    note.number = at.during.sequence;
    note.fingerprint = at.during.fingerprint();
    if (at.during.is_message()) note.calls.add(recorded_call(at.during));
    job_->send(in_job(at.awaited), note);
  }
  /// That rank has left without making the call, or has given it up. What it sent before may be on its way for a while.
  bool has_left_before(int peer, const call& c, std::chrono::steady_clock::duration waited) const {
    const std::uint64_t last = gone_after_[static_cast<std::size_t>(peer)];
    if (last == 0 || !c.is_message()) return last != 0 && c.sequence > last - 1;
    return waited > answer_patience;
  }

  /// The rank's function has returned: waits until all ranks have left and nothing is on its way. Throws what the group
  /// failed of, `mismatch` if the ranks have not all made the same calls.
  void part() {
    job_->go_on();
    check();
    leaving_ = true;
    tell_gone_to_all();
    wait_until([this] { return job_->drain(), job_->still(); });
    mpi_note note = about(note_kind::left);
    note.number = log_.last();
    const call last = last_call();
    note.fingerprint = last.signature == nullptr ? 0 : last.fingerprint();
    if (rank_ != 0) {
      job_->send(in_job(0), note);
    } else {
      take_left(0, note);
      wait_until([this] { return job_->drain(), count_left_ == size_; });
      for (int rank = 1; rank < size_; ++rank)
        if (left_[static_cast<std::size_t>(rank)] != left_[0]) disagree(rank);
      ended_ = true;
      for (int rank = 1; rank < size_; ++rank) job_->send(in_job(rank), about(note_kind::end));
    }
    wait_until([this] { return job_->drain(), ended_ && job_->still(); });
  }

  /// This rank does not come to the group of that number of these ranks, and those who are there are told.
  void miss(int number, std::span<const int> members) noexcept { meeting_.miss(*this, number, members); }
  /// Neither this group nor the whole has failed, or is about to.
  TUTTI_ALWAYS_INLINE bool works() const noexcept {
    return (state_.load(std::memory_order_relaxed) | whole_state_->load(std::memory_order_relaxed)) == fine;
  }
  /// Calm from here on, if nothing is to be seen to before a collective of MPI's own. What was given up has been told.
  [[gnu::noinline, gnu::cold]] void calm_down() {
    const std::uint64_t before = job_->disturbances();
    if (introduced && works() && !job_->has_to_say() && !looks_.any_for_calls()) job_->calm_down(*this, before);
  }
  bool has_left(int rank) const { return gone_after_[static_cast<std::size_t>(rank)] != 0; }
  /// What is added to texts in which ranks are those of this group.
  std::string described() const {
    return whole_ == nullptr ? std::string() : of_members({members_.begin(), members_.size()});
  }

  /// Some of the members' ranks in the job.
  int in_job(int rank) const { return whole_ == nullptr ? rank : members_[static_cast<std::size_t>(rank)]; }
  int next_group() const { return job_->next_group(); }

  /// Whether each member is known to have called MPI's own collectives on this communicator.
  bool introduced = false;

 private:
  enum state : int { fine = 0, aborting = 1, broken = 2 };
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  mpi_note about(note_kind kind, const failure& f = {}) const {
    mpi_note note;
    note.kind = kind;
    note.group = number();
    note.what = f;
    return note;
  }
  std::span<const int> members() const { return {members_.begin(), members_.size()}; }
  /// Any thread may have asked for the end.
  void fail_if_aborted() {
    if (state_.load(std::memory_order_acquire) != aborting) return;
    std::string text;
    {
      const std::lock_guard lock(mutex_);
      text = abort_text_;
    }
    fail(aborted(rank_, text));
  }
  void settle(const failure& f) {
    if (failed()) return;
    failure_ = f;
    if (whole_ != nullptr) drain(comm_);
    state_.store(broken, std::memory_order_release);
    job_->disturb();
    meeting_.refuse(*this);
  }
  void tell_all(const failure& f) {
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) job_->send(in_job(peer), about(note_kind::failed, f));
  }
  /// While an exception passes others are not told so yet: they shall rather hear of that.
  void tell_gone(int to, bool by_exception = false) {
    mpi_note note = about(note_kind::gone);
    note.number = std::min(log_.last(), given_up_ - 1);
    if (by_exception) {
      job_->send_if_it_goes_on(in_job(to), std::move(note));
    } else {
      job_->send(in_job(to), note);
    }
  }
  void tell_gone_to_all() {
    looks_.clear([this](int from) { tell_gone(from); });
  }
  void tell_calls(int to) {
    mpi_note note = about(note_kind::differs);
    note.calls = recorded_calls(log_);
    job_->send(in_job(to), note);
  }

  static void take(mpi_listener& self, int from, const mpi_note& note) {
    auto& group = static_cast<mpi_group&>(self);
    int peer = from;
    if (group.whole_ != nullptr)
      for (int rank = 0; rank < group.size_; ++rank)
        if (group.members_[static_cast<std::size_t>(rank)] == from) peer = rank;
    group.take_note(peer, note);
  }
  void take_note(int from, const mpi_note& note) {
    switch (note.kind) {
      case note_kind::report:
        if (failed()) return;  // everybody has been told why
        settle(note.what);
        return tell_all(note.what);
      case note_kind::failed:
        return settle(note.what);
      case note_kind::looks:
        if (note.calls.size() != 0) return take_message_look({from, note.calls[0]});
        return take_look({from, note.number, note.fingerprint});
      case note_kind::gone:
        gone_after_[static_cast<std::size_t>(from)] = note.number + 1;
        return;
      case note_kind::differs:
        if (failed()) return;
        if (const call end = note.calls.size() == 0 ? call{} : note.calls[0].read(); end.is_message())
          return report(detail::misfit(end, messages_.find(rank_, end.to(), end.history)));
        report(disagreement(rank_, recorded_calls(log_), from, note.calls));
        return;
      case note_kind::comes:
      case note_kind::decided:
        return meeting_.take(*this, from, note);
      case note_kind::left:
        return take_left(from, note);
      case note_kind::end:
        ended_ = true;
        return;
    }
  }
  /// While notes are taken in nothing is waited for: as `fail`, and the verdict comes.
  void report(failure f) {
    f.text += described();
    if (rank_ != 0) return job_->send(in_job(0), about(note_kind::report, f));
    settle(f);
    tell_all(f);
  }
  void take_look(const mpi_looks::look& l) {
    if (log_.last() < l.sequence) {
      if (leaving_) return tell_gone(l.from);
      looks_.add(l);
      return job_->disturb();
    }
    // A call that is long past has sent what it had to send.
    const call mine = log_.read(l.sequence);
    if (mine.signature != nullptr && mine.fingerprint() != l.fingerprint) tell_calls(l.from);
  }
  /// Reads it from the log: it need not be in memory besides where nobody waits.
  [[gnu::noinline, gnu::cold]] void compare_last_call() {
    looks_.called(last_call(), [this](int from) { tell_calls(from); });
  }
  [[gnu::noinline]] void write_message(call c) {
    messages_.write(c);
    if (c.is_outgoing())
      looks_.sent(c, [this](const call& received, const call& sent) { return compare(received, sent); });
  }
  void take_message_look(mpi_looks::message_look l) {
    const call end = l.end.read();
    if (!end.is_message()) return;
    if (!end.is_outgoing()) {
      const call sent = messages_.find(rank_, end.to(), end.history);
      if (sent.signature != nullptr && compare(end, sent)) return;
    }
    if (leaving_) return tell_gone(l.from);
    looks_.add(std::move(l));
  }
  /// What the other receives is the message that this rank sends; it is told if it does not fit.
  bool compare(const call& received, const call& sent) {
    if (received.is_outgoing() || received.sequence != sent.sequence || received.history != sent.history) return false;
    if (received.fingerprint() != sent.fingerprint() && !failed()) report(detail::misfit(received, sent));
    return true;
  }
  void take_left(int from, const mpi_note& note) {
    left_[static_cast<std::size_t>(from)] = {note.number, note.fingerprint};
    ++count_left_;
  }

  template <class Done>
  void wait_until(Done&& done) {
    job_->poll_until(
        [&] {
          check();
          return done();
        },
        std::chrono::nanoseconds::max());
    check();
  }

  static constexpr std::chrono::milliseconds verdict_patience{50};
  static constexpr std::chrono::milliseconds answer_patience{2'000};

  std::shared_ptr<mpi_job> job_;
  std::shared_ptr<mpi_group> whole_;  // null if it is this one
  const std::atomic<int>* whole_state_ = &state_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_;
  int size_;
  std::atomic<int> state_{fine};
  bool leaving_ = false;
  bool ended_ = false;
  std::uint64_t given_up_ = none;                // the first call that this rank has given up
  int exceptions_ = std::uncaught_exceptions();  // under way when this end was made
  failure failure_;
  std::mutex mutex_;
  std::string abort_text_;
  owned_array<int> members_;  // as ranks of the job
  mpi_looks looks_;
  owned_array<std::uint64_t> gone_after_;  // one more than the last call that a rank which has left has ended, else 0
  owned_array<mpi_ending> left_;
  mpi_meeting meeting_;
  int count_left_ = 0;
  call_log log_;  // that the rank's own thread alone uses
  message_log messages_;
};

}  // namespace tutti::detail
