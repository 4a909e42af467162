// SPDX-License-Identifier: BSL-1.0
#pragma once

// This room answers: who takes part, and what does a rank keep between its calls?

#include <tutti/communicator/shared_buffer.hpp>
#include <tutti/core/arena.hpp>
#include <tutti/core/call.hpp>
#include <tutti/core/call_site.hpp>
#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/place.hpp>
#include <tutti/core/progress.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/core/type_name.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

namespace tutti {

/// The colour of a rank that shall be in none of the new communicators: `comm.split(tutti::undefined)`.
inline constexpr std::nullopt_t undefined = std::nullopt;

/// One rank's handle on a group of ranks. Collectives are free functions over it: `tutti::allreduce(comm, ...)`. All
/// ranks call the same collectives in the same order. One thread at a time uses it and those that were divided from it,
/// which advance each other. Not copyable; stays where it was made.
template <transport Transport>
class communicator {
 public:
  using transport_type = Transport;
  using lane_type = typename Transport::lane_type;

  explicit communicator(Transport transport)
      : transport_(std::move(transport)), blocking_lane_(transport_.make_lane(0)), scratch_(scratch_source()) {}
  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;
  ~communicator() {
    // What was given up here nobody fails later. But where an exception passes, that may be what ends the rank.
    const bool goes_on = std::uncaught_exceptions() <= exceptions_;
    for (pending_lane* const l : pending_lanes_) {
      if (l != nullptr && l->in_list() && goes_on) pending_lane::fail(*l);
      delete l;
    }
    delete messages_;
    if (progress_ != &own_progress_ && --progress_->users == 0) delete progress_;
  }

  /// This rank, in `[0, size())`.
  int rank() const { return transport_.rank(); }
  /// Number of ranks.
  int size() const { return transport_.size(); }
  /// Both, and which ranks share a host, if the transport knows.
  tutti::place place() const {
    if constexpr (hosted_transport<Transport>) {
      return {rank(), size(), transport_.hosts()};
    } else {
      return {rank(), size()};
    }
  }

  /// How long this rank may wait within one collective before every rank throws `timed_out`; less than a nanosecond
  /// counts as one. Zero, the default: for ever. Throws `usage_error` if it is negative or no number.
  template <class Rep, class Period>
  void timeout(std::chrono::duration<Rep, Period> limit) {
    using std::chrono::nanoseconds;
    const double exactly = std::chrono::duration<double, std::nano>(limit).count();
    if (!(exactly >= 0)) [[unlikely]]
      refuse_timeout(std::chrono::duration<double>(limit).count());
    const bool endless = exactly >= static_cast<double>(nanoseconds::max().count());
    const nanoseconds whole = endless ? nanoseconds::max() : std::chrono::duration_cast<nanoseconds>(limit);
    transport_.timeout(whole.count() == 0 && exactly > 0 ? nanoseconds(1) : whole);
  }

  /// Ends the group, from any thread of this rank and whatever its own thread is doing: every rank throws `peer_failed`
  /// naming this rank and the text. What this rank waits for ends within 100 ms, whether or not the others can be
  /// reached. A group that has failed stays as it is. Not after the function that was given `comm` has returned.
  void abort(std::string_view text) { transport_.abort(text); }

  /// A buffer of `count` elements, zero to begin with, where the transport reads it from every rank without a copy;
  /// ordinary memory if the transport has no such place. This rank's own: not collective, and the ranks may have
  /// different counts. Throws `resource_error` if there is no memory and `usage_error` if there cannot be so much,
  /// which name rank, count and type.
  template <class T>
  [[nodiscard]] shared_buffer<T> allocate(std::size_t count) {
    return {detail::memory_for_elements(transport_, count, sizeof(T), type_name<T>()), count};
  }

  /// Divides the ranks: those of one colour form a new communicator, in the order of their keys, and where these are
  /// equal in the order of their ranks here. Colours are at least 0. A collective: all ranks call it, and it is in the
  /// same order among the others on every rank; with `int` or with `std::optional`, both forms fit together.
  ///
  /// The new communicator has lanes of its own: what is under way on one never meets what is under way on another, and
  /// a rank that waits in one advances what is pending on all of its communicators. Its timeout is this one's to begin
  /// with. A mismatch or a timeout on it, or its `abort`, fails it alone; a rank that dies, or whose function throws,
  /// fails all communicators that it is in. Ranks that wait for each other on different communicators wait for ever:
  /// all must come to their blocking collectives in one order, for instance rows first, then columns.
  ///
  /// It may end before or after this one, and at any time when this rank has no collective pending on it; those who
  /// still wait for this rank on it throw `peer_failed`: where it has gone while an exception passed, within about a
  /// second, over MPI with the rank's next call, unless they hear before that the rank's function has thrown. Costs an
  /// allgather of 12 bytes by `bruck`: ceil(log2 p) rounds.
  ///
  /// Throws `usage_error`, before anything is sent, if the colour is negative; `resource_error` if the system refuses
  /// memory. Where it throws on some ranks only, the others may get their ends of the new communicator, and throw
  /// `peer_failed` when they wait there for one that has none; over MPI, which makes none without it, those who would
  /// be in it get none, and throw `peer_failed`, or `timed_out` where a rank has not come to it within the timeout.
  /// Defined in tutti/collective/split.hpp, which tutti/tutti.hpp includes.
  [[nodiscard]] communicator split(int color, int key = 0, call_site where = call_site::current());
  /// The same where a rank may be in none: it gets nothing where its colour is `tutti::undefined`.
  [[nodiscard]] std::optional<communicator> split(std::optional<int> color, int key = 0,
                                                  call_site where = call_site::current());
  /// A communicator of the same ranks in the same order, for what must not meet this one's collectives: a library's
  /// own. A collective, as `split`, but not to be mixed with it.
  [[nodiscard]] communicator dup(call_site where = call_site::current());

  // ---- For writers of collectives
  // -------------------------------------------------------------------------------------

  /// The most nonblocking collectives that may be pending on one rank; one more waits for the oldest.
  static constexpr int max_pending = 64;

  /// The end of the same rank in another group: the two advance each other's pending collectives. Needs
  /// `relative.share_progress()` before.
  communicator(Transport transport, communicator& relative) : communicator(std::move(transport)) {
    progress_ = relative.progress_;
    ++progress_->users;
  }
  /// What is pending here is from now on in a list that other communicators of the rank can join.
  void share_progress() {
    if (progress_ != &own_progress_) return;
    progress_ =
        detail::allocating(sizeof(rank_progress), "the list of pending collectives", [] { return new rank_progress; });
    move_all(own_progress_.head, progress_->head);
    move_all(own_progress_.given_up, progress_->given_up);
  }

  Transport& transport() { return transport_; }
  const Transport& transport() const { return transport_; }
  /// The lane of blocking collectives.
  lane_type& lane() { return blocking_lane_; }
  /// Where scratch memory is taken from: what a collective keeps there may then be read by others where it is. Null:
  /// from the heap of the program.
  memory_owner* scratch_source() {
    if constexpr (allocating_transport<Transport>) {
      return &transport_.memory();
    } else {
      return nullptr;
    }
  }
  /// Scratch memory of the blocking collective under way.
  arena& scratch() { return scratch_; }
  /// Gives the next call its number, from 1, and its history; every rank counts alike.
  TUTTI_ALWAYS_INLINE call next_call(const call_signature& signature, std::size_t count, int root, call_site where) {
    const call c{&signature, ++calls_, history_, count, root, where};
    history_ = c.fingerprint();
    return c;
  }
  /// The same of a call whose messages are not ours.
  TUTTI_ALWAYS_INLINE call next_native_call(const call_signature& signature, std::size_t count, int root,
                                            call_site where) {
    const call c{&signature, ++calls_, history_, count, root, where};
    history_ = c.mark();
    return c;
  }

  /// One lane for nonblocking collectives, and which collective is on it.
  struct pending_lane : in_progress {
    explicit pending_lane(lane_type l) : in_progress(&pending_lane::fail), lane(std::move(l)) {}
    lane_type lane;
    in_progress* user = nullptr;

    /// The collective was destroyed before it had finished, and no exception ends the rank.
    static bool fail(in_progress& self) {
      static_cast<pending_lane&>(self).lane.abandon("the pending collective was destroyed before it had finished");
      return true;
    }
  };
  /// The lane of the next nonblocking collective, the same on every rank. It may still be in use: the caller finishes
  /// that collective first.
  pending_lane& next_pending_lane() {
    const auto index = static_cast<std::size_t>(started_++ % max_pending);
    pending_lane*& l = pending_lanes_[index];
    if (l == nullptr)
      l = detail::allocating(sizeof(pending_lane), "a lane of nonblocking collectives",
                             [&] { return new pending_lane(transport_.make_lane(1 + static_cast<int>(index))); });
    return *l;
  }
  /// The lane of messages between two ranks, and how many there were with each.
  struct message_lane {
    message_lane(lane_type l, int size)
        : lane(std::move(l)), sent(static_cast<std::size_t>(size)), received(static_cast<std::size_t>(size)) {}
    lane_type lane;
    owned_array<std::uint64_t> sent;
    owned_array<std::uint64_t> received;
  };
  /// Made when it is first asked for.
  message_lane& messages() {
    if (messages_ == nullptr) [[unlikely]]
      messages_ = detail::allocating(sizeof(message_lane), "the lane of messages between two ranks",
                                     [&] { return new message_lane(transport_.make_lane(1 + max_pending), size()); });
    return *messages_;
  }
  /// The list of collectives in progress: those of this communicator and of the others that share it.
  in_progress& pending() { return progress_->head; }
  /// The list of lanes whose collectives were given up while an exception passed, in the same way.
  in_progress& given_up() { return progress_->given_up; }
  /// The rank goes on, and does not end by what passed: their groups fail. To be called before it waits for others, and
  /// when its function has returned.
  TUTTI_ALWAYS_INLINE void go_on() {
    if (given_up().next() != nullptr) [[unlikely]]
      fail_given_up();
  }
  /// Advances what is pending.
  [[gnu::noinline]] void progress() {
    for (in_progress* p = pending().next(); p != nullptr;) {
      in_progress* const next = p->next();
      p->advance(*p);
      p = next;
    }
  }

  /// What one algorithm costs on this communicator: `fixed + each * bytes` seconds; for one that pipelines in k
  /// segments, `rounds + rounds_each * k` times `fixed + each * bytes / k`, and `apart + apart_each * bytes` for what
  /// is done before or after it.
  struct predicted_cost {
    double fixed;
    double each;
    double rounds;
    double rounds_each;
    double apart = 0;
    double apart_each = 0;
  };
  static constexpr std::size_t max_candidates = 6;
  /// The costs of one choice's candidates, counted once.
  struct cost_table {
    bool counted = false;
    predicted_cost candidates[max_candidates] = {};
  };
  static constexpr std::size_t max_choices = 24;
  /// The table of the choice with that number.
  cost_table& costs(std::size_t choice) { return costs_[choice]; }

 private:
  static void move_all(in_progress& from, in_progress& to) {
    while (in_progress* const one = from.next()) {
      one->leave();
      one->join(to);
    }
  }
  [[gnu::noinline, gnu::cold]] void fail_given_up() {
    while (in_progress* const one = given_up().next()) {
      one->leave();
      one->advance(*one);
    }
  }
  [[noreturn, gnu::noinline, gnu::cold]] void refuse_timeout(double seconds) const {
    throw usage_error(message() << "timeout on rank " << rank() << " of " << size() << ": " << seconds
                                << " seconds, must be at least 0, which is for ever");
  }

  Transport transport_;
  lane_type blocking_lane_;
  arena scratch_;
  std::uint64_t calls_ = 0;
  std::uint64_t history_ = 0;
  std::uint64_t started_ = 0;
  pending_lane* pending_lanes_[max_pending] = {};
  message_lane* messages_ = nullptr;
  int exceptions_ = std::uncaught_exceptions();  // under way when it was made
  rank_progress own_progress_;
  rank_progress* progress_ = &own_progress_;
  cost_table costs_[max_choices] = {};
};

}  // namespace tutti
