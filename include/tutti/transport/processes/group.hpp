// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/process.hpp>
#include <tutti/core/wait.hpp>
#include <tutti/transport/call_log.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/fork_guard.hpp>
#include <tutti/transport/message_log.hpp>
#include <tutti/transport/processes/failure_record.hpp>
#include <tutti/transport/processes/family.hpp>
#include <tutti/transport/processes/membership.hpp>
#include <tutti/transport/processes/peer_memory.hpp>
#include <tutti/transport/processes/segment.hpp>
#include <tutti/transport/processes/segment_memory.hpp>
#include <tutti/transport/processes/shared_calls.hpp>
#include <tutti/transport/processes/shared_state.hpp>
#include <tutti/transport/rank_list.hpp>
#include <tutti/transport/shared_memory/channel.hpp>
#include <tutti/transport/shared_memory/lane.hpp>

#include <sched.h>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace tutti::detail {

/// What the processes of a group share: all of it lies in a segment, and this is one process's view of it, that of a
/// rank or of the parent of all ranks (-1). The whole is made once, by the parent or by rank 0; the others inherit it
/// or attach to its segment. A subgroup is made by the first of its ranks that comes.
class processes_group : public processes_membership {
 public:
  using fence = basic_asymmetric_fence<sharers::processes>;
  using memory = segment_memory;
  // What cannot be read where it is travels in copies.
  static constexpr bool shows_all = false;
  static constexpr std::size_t shown_copy_bytes = 32768;
  // Nobody may wait for a process that can die any moment, and the memory that is read does not go away.
  static constexpr bool waits_for_readers = false;
  static constexpr std::chrono::milliseconds longest_nap{20};

  /// A new group. Throws `usage_error` if `size < 1`, `resource_error`.
  explicit processes_group(int size) : processes_group(segment::create(), checked(size)) {}
  /// The group whose segment this is: one of a process that has called the constructor above.
  explicit processes_group(segment shared)
      : processes_group(*allocating(sizeof(processes_family), "what a process knows of the ranks",
                                    [&] { return new processes_family(std::move(shared), head_place); })) {}
  ~processes_group() {
    if (!is_whole()) return;
    const std::lock_guard lock(family_->mutex);
    family_->whole = nullptr;
  }

  /// This process is that rank from now on.
  void attach(int rank) {
    rank_ = rank;
    family_->guard.arm();
    TUTTI_FAULT_POINT("group.attach");
    fence::available();
    policy_ = wait_policy::for_ranks(size_);
    state(rank).process = this_process();
    if (size_ == 2) peer_memory::allow();
    probe_ = probe_value(rank);
    state(rank).probe = reinterpret_cast<std::uintptr_t>(&probe_);
    TUTTI_FAULT_POINT("group.attach_known");
    state(rank).stage.store(rank_stage::attached, std::memory_order_release);
    TUTTI_FAULT_POINT("group.attached");
    wake_all();
  }

  const wait_policy& policy() const { return policy_; }
  /// The same on all ranks.
  bool crowded() const { return family_->head->crowded; }
  memory_owner& heap() { return *family_->heap; }
  int descriptor() const { return segment_.descriptor(); }
  /// A number that differs where programs lay out shared memory differently.
  static constexpr std::uint64_t layout() {
    std::uint64_t hash = 1;
    for (const std::uint64_t part :
         {sizeof(shared_head), sizeof(shared_rank), sizeof(failure_record::note), sizeof(channel), sizeof(board),
          shown_copy_bytes, std::size_t{channel::capacity}, board::used_among(2), board::used_among(3)})
      hash = (hash ^ part) * 1099511628211ULL;
    return hash;
  }
  /// The channel from one rank to another on a lane; made by whichever end asks first.
  [[gnu::noinline]] channel& connect(int lane, int from, int to) {
    auto* const places = segment_.object<std::atomic<std::uint64_t>>(table(lane));
    std::atomic<std::uint64_t>& place =
        places[static_cast<std::size_t>(from) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(to)];
    const std::uint64_t made = group_memory::claim(place, spare_channel_, [this] {
      const std::uint64_t fresh = memory_.take(sizeof(channel), alignof(channel), "a channel between two ranks");
      TUTTI_FAULT_POINT("group.channel_taken");
      new (segment_.at(fresh)) channel;
      TUTTI_FAULT_POINT("group.channel_made");
      return fresh;
    });
    return *segment_.object<channel>(made);
  }
  /// The boards of all ranks on a lane.
  board* boards(int lane) { return segment_.object<board>(table(lane) + group_memory::boards_after(size_)); }

  /// Two ranks have the caches to themselves, and need fewer calls of the kernel for larger pieces. But there are many
  /// lanes of nonblocking collectives.
  std::size_t piece_bytes(int lane) const {
    return size_ == 2 && lane == 0 ? std::size_t{1} << 18 : std::size_t{1} << 16;
  }
  memory make_memory(std::size_t bytes) {
    const std::size_t whole = (bytes + 63) / 64 * 64;
    TUTTI_FAULT_POINT("group.copies");
    return {segment_.at(memory_.take(whole, 64, "copies of messages")), whole};
  }
  static void keep(memory) noexcept {}
  std::uint64_t where(const std::byte* data) const { return data == nullptr ? 0 : segment_.offset_of(data); }
  const std::byte* at(std::uint64_t where) const { return segment_.at(where); }
  bool shows(const std::byte* data, std::size_t bytes) const { return segment_.holds(data, bytes); }

  /// Whether this rank can read the memory of that rank's process, and that may be worth while: where there are two.
  /// Several that read from one wait for each other in the kernel: a broadcast of 256 KiB to 15 took ten times as long
  /// as by copies. It cannot before the other has attached.
  bool can_read(int rank) {
    const shared_rank& other = in_whole(rank);
    std::uint64_t seen = 0;
    return size_ == 2 && has_attached(rank) &&
           peer_memory::read(other.process.pid, reinterpret_cast<std::byte*>(&seen), other.probe, sizeof seen) &&
           seen == probe_value(whole_rank(rank));
  }
  /// 0, or the number of the error.
  int read(int rank, std::byte* to, std::uint64_t from, std::size_t bytes) {
    return peer_memory::read(in_whole(rank).process.pid, to, from, bytes) ? 0 : errno;
  }
  /// Throws `peer_failed`: the process is gone.
  [[noreturn, gnu::noinline, gnu::cold]] void cannot_read(int rank, int error) {
    look_for_dead();  // of which it fails then
    fail({errc::peer_failed, rank,
          message() << "the memory of rank " << rank << " (process " << in_whole(rank).process.pid
                    << ") cannot be read any more: " << std::generic_category().message(error)});
    raise();
  }

  TUTTI_ALWAYS_INLINE void write_call(int rank, const call& c) { calls_.write(state(rank).log, c); }
  [[gnu::noinline]] void write_message(int rank, const call& c) { calls_.write(state(rank).messages, c); }
  call call_of(int rank, std::uint64_t number) { return calls_.read(state(rank).log, number); }
  std::uint64_t last_call(int rank) { return state(rank).log.last(); }
  [[gnu::noinline, gnu::cold]] void withdraw(int rank, int lane) noexcept {
    if (!guard_.armed()) return;
    boards(lane)[rank].withdrawn.store(true, std::memory_order_release);
    head_->withdrawn.store(true, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // as where it fails
  }
  TUTTI_ALWAYS_INLINE bool failed() const noexcept { return head_->failed.there() || !guard_.armed(); }
  /// Throws what the group failed of, if it failed.
  TUTTI_ALWAYS_INLINE void check() {
    if (failed()) [[unlikely]]
      raise();
  }
  void check_after_reading() {
    std::atomic_thread_fence(std::memory_order_acquire);
    check();
  }
  [[noreturn, gnu::noinline, gnu::cold]] void raise() {
    if (!guard_.armed()) fork_guard::refuse(rank_);
    why().raise();
  }
  /// Throws `usage_error` in a process that a rank has forked.
  void refuse_forked() const {
    if (!guard_.armed()) fork_guard::refuse(rank_);
  }
  /// The group becomes unusable; the first reason stays. Wakes everyone.
  [[gnu::noinline, gnu::cold]] void fail(failure f, bool ends_this_rank = false) noexcept {
    if (!guard_.armed()) return;
    if (!is_whole()) try {
        f.text += of_members(members());
      } catch (...) {  // no memory: it says less
      }
    {
      const std::lock_guard lock(noting_);  // another thread of this process may abort
      if (head_->failed.show(note_of(rank_), rank_, f, ends_this_rank)) wake_all();
    }
    // The memory that others read is written again only after that.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  /// Whether it failed, and that rank said so.
  bool told_by(int rank) const { return head_->failed.readable() && head_->failed.writer() == rank; }
  /// Why the group failed, once it has; else nothing, a failure without text.
  failure why() const {
    return head_->failed.readable() ? failure_record::read(note_of(head_->failed.writer())) : failure{};
  }

  /// This rank ends the group. From any thread.
  [[gnu::noinline, gnu::cold]] void abort(std::string_view text) {
    if (!is_whole()) return fail(aborted(rank_, text));
    end_rank((message() << " aborted: " << text).str());
  }

  // ---- The whole

  /// This rank has come to its end: the whole fails, and so does every group that it is in. `how` follows its number in
  /// their texts. If another rank did so before, that is the reason where it is in the group too.
  [[gnu::noinline, gnu::cold]] void end_rank(std::string_view how) {
    fail(rank_ended(rank_, how), true);
    TUTTI_FAULT_POINT("group.ended_rank");
    {
      const std::lock_guard lock(family_->mutex);
      family_->ended.assign(how.data(), how.size());
    }
    fail_parts_of_first();
    fail_parts_of(rank_, how);
  }
  /// A rank's function has returned or thrown.
  void leave(int rank) noexcept {
    if (!guard_.armed()) return;
    settle_departures(rank);
    TUTTI_FAULT_POINT("group.leave");
    state(rank).stage.store(rank_stage::left, std::memory_order_release);
    TUTTI_FAULT_POINT("group.left");
    wake_all();
  }

  // ---- Subgroups

  /// This rank's end of the group of that number of these ranks of this one.
  processes_group* subgroup(int number, std::span<const int> members) {
    refuse_forked();
    settle_departures(rank_);
    try {
      TUTTI_FAULT_POINT("group.subgroup");
      auto* const made = allocating(sizeof(processes_group), "a communicator",
                                    [&] { return new processes_group(*this, number, members); });
      in_whole(rank_).next_group.store(number + 1, std::memory_order_release);
      return made;
    } catch (...) {
      miss_groups_before(number + 1);
      throw;
    }
  }
  /// This rank's end of a subgroup goes.
  void depart(bool by_exception) noexcept {
    if (!guard_.armed()) return;  // what a copy of the process has is nobody's
    if (by_exception && in_whole(rank_).stage.load(std::memory_order_relaxed) != rank_stage::left) {
      state(rank_).unwound.leave(true);
      unwinding_ = true;
      family_->unwinding = true;
      return;
    }
    {
      const std::lock_guard lock(family_->mutex);
      unlist();
    }
    end(this);
  }
  /// What this rank left while an exception passed it has left indeed: it is here, or its function has ended.
  void settle_departures(int) noexcept {
    if (!std::exchange(family_->unwinding, false)) return;
    processes_group* ended = nullptr;
    {
      const std::lock_guard lock(family_->mutex);
      for (processes_group* g = family_->groups; g != nullptr;) {
        processes_group* const next = g->next_;
        if (g->unwinding_) {
          g->unlist();
          g->next_ = std::exchange(ended, g);
        }
        g = next;
      }
    }
    while (ended != nullptr) end(std::exchange(ended, ended->next_));
  }

  /// The two ranks have not made the same calls.
  [[gnu::noinline, gnu::cold]] void disagree(int one, int other) {
    fail(disagreement(one, calls_of{this, one}, other, calls_of{this, other}));
  }
  /// What a rank receives is not what the other has sent.
  [[gnu::noinline, gnu::cold]] void misfit(const call& received) {
    const int from = received.from();  // a lane of two levels numbers otherwise
    fail(detail::misfit(received, from < size_ ? calls_.find(state(from).messages, received) : call{}));
  }
  /// After every rank has left: fails the group if they have not all made the same calls on it and on the groups that
  /// still exist.
  [[gnu::noinline]] void check_same_calls() {
    compare_last_calls();
    for (processes_group* g = family_->groups; g != nullptr && !failed(); g = g->next_) {
      bool all_came = true;
      for (int rank = 0; rank < g->size_; ++rank) all_came = all_came && g->has_attached(rank);
      if (g->failed() || !all_came) continue;
      g->compare_last_calls();
      if (g->failed()) fail(g->why());
    }
  }

  /// Fails the group if the process of a rank has ended that has not left; a part also if a rank has told so of itself.
  [[gnu::noinline, gnu::cold]] void look_for_dead() {
    family_->look_for_dead(whole_rank(rank_), [&](int gone) {
      if (family_->whole != nullptr) family_->whole->fail(rank_ended(gone, family_->how_it_died(gone)));
    });
    if (is_whole() || family_->whole == nullptr || !family_->whole->failed()) return;
    family_->whole->fail_parts_of_first();
    for (int rank = 0; rank < family_->head->size; ++rank)
      if (family_->is_dead(rank)) fail_parts_of(rank, family_->how_it_died(rank));
  }

  /// Returns when `done()`, or when the group has failed; sleeps in between, and looks after the others.
  template <class Done>
  void sleep_until(Done&& done) {
    auto& bell = this->bell(rank_);
    while (!failed()) {
      const std::uint32_t seen = bell.prepare();
      if (done()) {
        bell.cancel();
        return;
      }
      TUTTI_FAULT_POINT("group.sleep");
      bell.sleep(seen, longest_nap);
      TUTTI_FAULT_POINT("group.woken");
      look_for_dead();
    }
  }

 private:
  static constexpr std::uint64_t head_place = 4096;  // what is taken first begins there

  /// What the whole failed of, if that is the end of a rank, is a reason for the parts that have the rank: better than
  /// what then becomes of the others.
  void fail_parts_of_first() {
    const failure first = why();
    if (first.kind != errc::peer_failed || first.peer < 0 || first.peer == rank_) return;
    if (family_->is_dead(first.peer)) return fail_parts_of(first.peer, family_->how_it_died(first.peer));
    const std::string known = message() << "rank " << first.peer;
    const bool has_ended = note_of(head_->failed.writer()).ends_writer || has_left(first.peer);
    if (told_by(first.peer) && has_ended && first.text.starts_with(known))
      fail_parts_of(first.peer, std::string_view(first.text).substr(known.size()));
  }
  /// Every part that has that rank of the whole fails, and this process is in, for what follows its number in the text.
  void fail_parts_of(int rank, std::string_view how) {
    const std::lock_guard lock(family_->mutex);
    for (processes_group* g = family_->groups; g != nullptr; g = g->next_) {
      const int number = g->number_of(rank);
      if (number >= 0 && g->state(number).stage.load(std::memory_order_acquire) != rank_stage::left)
        g->fail(rank_ended(number, how));
    }
  }

  /// A rank's calls, as others read them.
  struct calls_of {
    processes_group* group;
    int rank;
    call read(std::uint64_t number) const { return group->call_of(rank, number); }
    std::uint64_t last() const { return group->last_call(rank); }
  };

  processes_group(segment fresh, int size) : processes_group(made(std::move(fresh), size)) {}
  explicit processes_group(processes_family& family)
      : processes_membership(family), guard_(family.guard), policy_(wait_policy::for_ranks(size_)), calls_(family) {
    family.whole = this;
  }
  processes_group(processes_group& parent, int number, std::span<const int> members)
      : processes_membership(parent, number, members),
        guard_(parent.family_->guard),
        policy_(parent.policy_),
        calls_(*parent.family_) {
    if (size_ == 2) peer_memory::allow();
    const std::lock_guard lock(family_->mutex);
    if (!family_->ended.empty()) fail(rank_ended(rank_, family_->ended));
    next_ = std::exchange(family_->groups, this);
    if (next_ != nullptr) next_->previous_ = this;
  }

  /// This rank's part in a subgroup has ended.
  static void end(processes_group* part) noexcept {
    if (part->family_->head->failed.there()) try {
        part->look_for_dead();
      } catch (...) {  // no memory: what it has is not given back then
      }
    part->end_membership();
    delete part;
  }
  void unlist() noexcept {
    (previous_ == nullptr ? family_->groups : previous_->next_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
  }

  static int checked(int size) {
    if (size < 1)
      throw usage_error(message() << "run_processes: number of ranks is " << size << ", must be at least 1");
    return size;
  }
  static segment made(segment fresh, int size) {
    group_memory(fresh).make_group(size);
    fresh.object<shared_head>(head_place)->crowded = wait_policy::for_ranks(size).crowded;
    return fresh;
  }

  std::uint64_t table(int lane) {
    return group_memory::claim(head_->tables[lane], spare_table_, [this] { return memory_.make_table(size_); });
  }

  static std::uint64_t probe_value(int rank) { return 0x7475747469000000 + static_cast<std::uint64_t>(rank); }

  failure_record::note& note_of(int rank) const {
    return segment_.object<failure_record::note>(head_->notes)[rank + 1];
  }
  void compare_last_calls() {
    for (int rank = 1; rank < size_; ++rank) {
      if (same_last_call(calls_of{this, 0}, calls_of{this, rank})) continue;
      disagree(0, rank);
      return;
    }
  }

  std::uint64_t probe_ = 0;
  fork_guard::view guard_;
  std::mutex noting_;
  wait_policy policy_;
  shared_calls calls_;
  std::uint64_t spare_table_ = 0;
  std::uint64_t spare_channel_ = 0;
  // Of a subgroup.
  bool unwinding_ = false;  // its end went while an exception passed
  processes_group* next_ = nullptr;
  processes_group* previous_ = nullptr;
};

using processes_lane = shared_memory_lane<processes_group>;

}  // namespace tutti::detail
