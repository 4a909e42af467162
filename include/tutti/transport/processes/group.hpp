// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/process.hpp>
#include <tutti/core/wait.hpp>
#include <tutti/transport/call_log.hpp>
#include <tutti/transport/fork_guard.hpp>
#include <tutti/transport/processes/failure_record.hpp>
#include <tutti/transport/processes/liveness.hpp>
#include <tutti/transport/processes/peer_memory.hpp>
#include <tutti/transport/processes/segment.hpp>
#include <tutti/transport/processes/shared_heap.hpp>
#include <tutti/transport/processes/shared_texts.hpp>
#include <tutti/transport/shared_memory/channel.hpp>
#include <tutti/transport/shared_memory/lane.hpp>

#include <sched.h>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

namespace tutti::detail {

/// Memory in the segment, which lasts as long as the segment.
class segment_memory {
 public:
  segment_memory() = default;
  segment_memory(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  std::size_t size() const { return size_; }
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// What the processes of a group share: all of it lies in a segment, and this is one process's view of it, that of a
/// rank or of the parent of all ranks (-1). Made once, by the parent or by rank 0; the others inherit it or attach to
/// its segment.
class processes_group {
 public:
  using fence = basic_asymmetric_fence<sharers::processes>;
  using memory = segment_memory;
  // What cannot be read where it is travels in copies.
  static constexpr bool shows_all = false;
  static constexpr std::size_t shown_copy_bytes = 32768;
  // Larger messages are read from the memory of the other process, if that can be.
  static constexpr std::size_t least_read = 32768;
  // Nobody may wait for a process that can die any moment, and the memory that is read does not go away.
  static constexpr bool waits_for_readers = false;
  static constexpr std::chrono::milliseconds longest_nap{20};
  static constexpr int most_lanes = 128;

  /// What the others may know of one rank.
  struct alignas(128) rank_state {
    basic_doorbell<sharers::processes> bell;
    alignas(64) std::atomic<std::uint32_t> stage{0};  // see `stages`
    process_identity process;
    std::uint64_t probe;  // the address in the rank's process of a number that is known
    basic_call_log<std::uint64_t, std::uint64_t> log;
  };

  /// A new group. Throws `usage_error` if `size < 1`, `resource_error`.
  explicit processes_group(int size) : processes_group(segment::create(), checked(size)) {}
  /// The group whose segment this is: one of a process that has called the constructor above.
  explicit processes_group(segment shared)
      : heap_(shared_heap::create(std::move(shared))),
        segment_(heap_->memory()),
        head_(segment_.object<head>(head_place)),
        size_(head_->size),
        policy_(wait_policy::for_ranks(size_)),
        watch_(size_) {}
  processes_group(const processes_group&) = delete;
  processes_group& operator=(const processes_group&) = delete;
  ~processes_group() {
    for (const known_signature& known : read_) delete known.signature;
  }

  /// This process is that rank from now on.
  void attach(int rank) {
    rank_ = rank;
    guard_.arm();
    TUTTI_FAULT_POINT("group.attach");
    fence::available();
    policy_ = wait_policy::for_ranks(size_);
    state(rank).process = this_process();
    if (size_ == 2 && peer_memory::fast()) peer_memory::allow();
    probe_ = probe_value(rank);
    state(rank).probe = reinterpret_cast<std::uintptr_t>(&probe_);
    TUTTI_FAULT_POINT("group.attach_known");
    state(rank).stage.store(attached, std::memory_order_release);
    TUTTI_FAULT_POINT("group.attached");
    wake_all();
  }

  int size() const { return size_; }
  int rank() const { return rank_; }
  const wait_policy& policy() const { return policy_; }
  memory_owner& heap() { return *heap_; }
  int descriptor() const { return segment_.descriptor(); }
  /// A number that differs where programs lay out shared memory differently.
  static constexpr std::uint64_t layout() {
    std::uint64_t hash = 1;
    for (const std::uint64_t part :
         {sizeof(head), sizeof(rank_state), sizeof(failure_record::note), sizeof(channel), sizeof(board),
          shown_copy_bytes, std::size_t{channel::capacity}, std::size_t{board::capacity}})
      hash = (hash ^ part) * 1099511628211ULL;
    return hash;
  }
  rank_state& state(int rank) { return segment_.object<rank_state>(head_->states)[rank]; }

  /// The channel from one rank to another on a lane; made by whichever end asks first.
  [[gnu::noinline]] channel& connect(int lane, int from, int to) {
    auto* const places = segment_.object<std::atomic<std::uint64_t>>(table(lane));
    std::atomic<std::uint64_t>& place =
        places[static_cast<std::size_t>(from) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(to)];
    const std::uint64_t made = claim(place, spare_channel_, [this] {
      const std::uint64_t fresh = segment_.take(sizeof(channel), alignof(channel), "a channel between two ranks");
      TUTTI_FAULT_POINT("group.channel_taken");
      new (segment_.at(fresh)) channel;
      TUTTI_FAULT_POINT("group.channel_made");
      return fresh;
    });
    return *segment_.object<channel>(made);
  }
  /// The boards of all ranks on a lane.
  board* boards(int lane) { return segment_.object<board>(table(lane) + boards_after()); }

  /// Two ranks have the caches to themselves, and need fewer calls of the kernel for larger pieces. But there are many
  /// lanes of nonblocking collectives.
  std::size_t piece_bytes(int lane) const {
    return size_ == 2 && lane == 0 ? std::size_t{1} << 18 : std::size_t{1} << 16;
  }
  memory make_memory(std::size_t bytes) {
    const std::size_t whole = (bytes + 63) / 64 * 64;
    TUTTI_FAULT_POINT("group.copies");
    return {segment_.at(segment_.take(whole, 64, "copies of messages")), whole};
  }
  std::uint64_t where(const std::byte* data) const { return data == nullptr ? 0 : segment_.offset_of(data); }
  const std::byte* at(std::uint64_t where) const { return segment_.at(where); }
  bool shows(const std::byte* data, std::size_t bytes) const { return segment_.holds(data, bytes); }

  /// Whether this rank can read the memory of that rank's process, and that is worth while. Between two ranks it is: a
  /// quarter less time for 256 KiB and for 16 MiB. Several that read from one wait for each other in the kernel: a
  /// broadcast of 256 KiB to 15 took ten times as long as by copies. It cannot before the other has attached.
  bool can_read(int rank) {
    const rank_state& other = state(rank);
    std::uint64_t seen = 0;
    return size_ == 2 && peer_memory::fast() && has_attached(rank) &&
           peer_memory::read(other.process.pid, reinterpret_cast<std::byte*>(&seen), other.probe, sizeof seen) &&
           seen == probe_value(rank);
  }
  /// Reads it. Throws `peer_failed` if the process is gone.
  void read(int rank, std::byte* to, std::uint64_t from, std::size_t bytes) {
    if (peer_memory::read(state(rank).process.pid, to, from, bytes)) [[likely]]
      return;
    const int wrong = errno;
    look_for_dead();
    check();
    fail({errc::peer_failed, rank,
          message() << "the memory of rank " << rank << " (process " << state(rank).process.pid
                    << ") cannot be read any more: " << std::generic_category().message(wrong)});
    raise();
  }

  TUTTI_ALWAYS_INLINE void write_call(int rank, const call& c) {
    const std::uint64_t signature =
        signatures_.find(c.signature, [&] { return shared_signature::write(segment_, *c.signature); });
    const std::uint64_t file = files_.find(c.where.file, [&] { return write_text(segment_, c.where.file); });
    state(rank).log.write(c, signature, file);
  }
  call call_of(int rank, std::uint64_t number) {
    return state(rank).log.read(
        number, [this](std::uint64_t place) { return signature_at(place); },
        [this](std::uint64_t place) { return segment_.object<const char>(place); });
  }
  std::uint64_t last_call(int rank) { return state(rank).log.last(); }

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
  [[gnu::noinline, gnu::cold]] void fail(const failure& f) noexcept {
    if (!guard_.armed()) return;
    {
      const std::lock_guard lock(noting_);  // another thread of this process may abort
      if (head_->failed.show(note_of(rank_), rank_, f)) wake_all();
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

  /// A rank's function has returned or thrown.
  void leave(int rank) noexcept {
    if (!guard_.armed()) return;
    TUTTI_FAULT_POINT("group.leave");
    state(rank).stage.store(left, std::memory_order_release);
    TUTTI_FAULT_POINT("group.left");
    wake_all();
  }
  bool has_left(int rank) { return state(rank).stage.load(std::memory_order_acquire) == left; }
  bool has_attached(int rank) { return state(rank).stage.load(std::memory_order_acquire) != 0; }

  /// The two ranks have not made the same calls.
  [[gnu::noinline, gnu::cold]] void disagree(int one, int other) {
    fail(disagreement(one, calls_of{this, one}, other, calls_of{this, other}));
  }
  /// After every rank has left: fails the group if they have not all made the same calls.
  [[gnu::noinline]] void check_same_calls() {
    for (int rank = 1; rank < size_; ++rank) {
      if (same_last_call(calls_of{this, 0}, calls_of{this, rank})) continue;
      disagree(0, rank);
      return;
    }
  }

  /// Fails the group if the process of a rank has ended that has not left.
  [[gnu::noinline, gnu::cold]] void look_for_dead() {
    TUTTI_FAULT_POINT("group.look_for_dead");
    if (watched_ < size_ - 1) watch_attached();
    for (int gone = watch_.first_gone(); gone >= 0; gone = watch_.first_gone()) {
      watch_.forget(gone);
      if (has_left(gone)) continue;
      fail({errc::peer_failed, gone,
            message() << "rank " << gone << " (process " << state(gone).process.pid << ") has ended without a word"});
      return;
    }
  }

  /// Returns when `done()`, or when the group has failed; sleeps in between, and looks after the others.
  template <class Done>
  void sleep_until(Done&& done) {
    auto& bell = state(rank_).bell;
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
  /// A rank's way.
  enum stages : std::uint32_t { absent, attached, left };

  struct head {
    std::int32_t size;
    std::uint64_t states;
    std::uint64_t notes;
    failure_record failed;
    std::atomic<std::uint64_t> tables[most_lanes];
  };
  static constexpr std::uint64_t head_place = 4096;  // what is taken first begins there

  struct known_signature {
    std::uint64_t place;
    const call_signature* signature;
  };
  /// A rank's calls, as others read them.
  struct calls_of {
    processes_group* group;
    int rank;
    call read(std::uint64_t number) const { return group->call_of(rank, number); }
    std::uint64_t last() const { return group->last_call(rank); }
  };

  processes_group(segment fresh, int size) : processes_group(made(std::move(fresh), size)) {}
  static int checked(int size) {
    if (size < 1)
      throw usage_error(message() << "run_processes: number of ranks is " << size << ", must be at least 1");
    return size;
  }
  static segment made(segment fresh, int size) {
    const std::uint64_t place = fresh.take(sizeof(head), 4096, "what the ranks share");
    auto* const h = new (fresh.at(place)) head{};
    h->size = size;
    const auto ranks = static_cast<std::size_t>(size);
    TUTTI_FAULT_POINT("group.create");
    h->states = fresh.take(ranks * sizeof(rank_state), alignof(rank_state), "what the ranks tell each other");
    for (std::size_t rank = 0; rank < ranks; ++rank) new (fresh.object<rank_state>(h->states) + rank) rank_state;
    const std::size_t notes = (ranks + 1) * sizeof(failure_record::note);
    h->notes = fresh.take(notes, alignof(failure_record::note), "why the ranks failed");
    h->tables[0].store(make_table(fresh, size), std::memory_order_relaxed);
    TUTTI_FAULT_POINT("group.created");
    return fresh;
  }

  // A lane's table: where the channels are, then the boards.
  std::size_t boards_after() const { return boards_after(size_); }
  static std::size_t boards_after(int size) {
    const std::size_t channels = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
    return (channels * sizeof(std::atomic<std::uint64_t>) + alignof(board) - 1) / alignof(board) * alignof(board);
  }
  static std::uint64_t make_table(segment& shared, int size) {
    const auto ranks = static_cast<std::size_t>(size);
    const std::uint64_t place =
        shared.take(boards_after(size) + ranks * sizeof(board), alignof(board), "the channels of a lane");
    TUTTI_FAULT_POINT("group.table_taken");
    for (std::size_t i = 0; i < ranks * ranks; ++i)
      new (shared.object<std::atomic<std::uint64_t>>(place) + i) std::atomic<std::uint64_t>{0};
    for (std::size_t i = 0; i < ranks; ++i) new (shared.object<board>(place + boards_after(size)) + i) board;
    TUTTI_FAULT_POINT("group.table_made");
    return place;
  }
  std::uint64_t table(int lane) {
    return claim(head_->tables[lane], spare_table_, [this] { return make_table(segment_, size_); });
  }

  /// What the place names; if nothing yet, what `make()` gives. What somebody else was faster with is kept for the next
  /// time.
  template <class Make>
  static std::uint64_t claim(std::atomic<std::uint64_t>& place, std::uint64_t& spare, Make&& make) {
    std::uint64_t there = place.load(std::memory_order_acquire);
    if (there != 0) return there;
    const std::uint64_t mine = spare != 0 ? spare : make();
    if (place.compare_exchange_strong(there, mine, std::memory_order_acq_rel, std::memory_order_acquire)) {
      spare = 0;
      return mine;
    }
    spare = mine;
    return there;
  }

  static std::uint64_t probe_value(int rank) { return 0x7475747469000000 + static_cast<std::uint64_t>(rank); }

  failure_record::note& note_of(int rank) const {
    return segment_.object<failure_record::note>(head_->notes)[rank + 1];
  }
  void wake_all() noexcept {
    for (int rank = 0; rank < size_; ++rank) {
      TUTTI_FAULT_POINT("group.wake");
      state(rank).bell.wake();
    }
  }
  const call_signature* signature_at(std::uint64_t place) {
    for (const known_signature& known : read_)
      if (known.place == place) return known.signature;
    read_.push_back({place, allocating(sizeof(call_signature), "the name of a call", [&] {
                       return new call_signature(segment_.object<shared_signature>(place)->read());
                     })});
    return read_.back().signature;
  }

  void watch_attached() {
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_ || is_watched(rank) || !has_attached(rank)) continue;
      TUTTI_FAULT_POINT("group.watch");
      watch_.watch(rank, state(rank).process);
      is_watched(rank) = true;
      ++watched_;
    }
  }
  bool& is_watched(int rank) {
    while (watching_.size() < static_cast<std::size_t>(size_)) watching_.push_back(false);
    return watching_[static_cast<std::size_t>(rank)];
  }

  kept<shared_heap> heap_;  // and the segment
  segment& segment_;
  head* head_;
  int size_;
  int rank_ = -1;
  std::uint64_t probe_ = 0;
  fork_guard guard_;
  std::mutex noting_;
  wait_policy policy_;
  few_known<const call_signature*, std::uint64_t> signatures_;
  few_known<const char*, std::uint64_t> files_;
  array_list<known_signature> read_;
  std::uint64_t spare_table_ = 0;
  std::uint64_t spare_channel_ = 0;
  peer_watch watch_;
  int watched_ = 0;
  array_list<bool> watching_;
};

using processes_lane = shared_memory_lane<processes_group>;

}  // namespace tutti::detail
