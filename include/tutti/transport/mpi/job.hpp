// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/owned_memory.hpp>
#include <tutti/core/wait.hpp>
#include <tutti/transport/mpi/api.hpp>
#include <tutti/transport/mpi/at_end.hpp>
#include <tutti/transport/mpi/listener.hpp>
#include <tutti/transport/mpi/mail.hpp>
#include <tutti/transport/mpi/note.hpp>
#include <tutti/transport/mpi/tags.hpp>

#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tutti::detail {

/// One rank's end of everything that a run over MPI has: its communicator, the messages on their way, the notes that
/// ranks send each other, and how they part. Groups are made on it. One thread uses it.
class mpi_job {
  using clock = std::chrono::steady_clock;

 public:
  /// On a duplicate of the communicator, or if it is `borrowed` on itself.
  mpi_job(MPI_Comm of, bool borrowed) : at_end_(*this), thread_(pthread_self()), borrowed_(borrowed) {
    require_mpi();
    if (of == MPI_COMM_NULL) throw usage_error("run_mpi: the communicator is MPI_COMM_NULL");
    int inter = 0;
    check_mpi(MPI_Comm_test_inter(of, &inter), "MPI_Comm_test_inter");
    if (inter != 0)
      throw usage_error("run_mpi: the communicator is an intercommunicator, whose ranks are in two groups");
    if (borrowed_) {
      comm_ = of;
      check_mpi(MPI_Comm_get_errhandler(comm_, &user_handler_), "MPI_Comm_get_errhandler");
    } else {
      MPI_Request made = MPI_REQUEST_NULL;
      check_mpi(MPI_Comm_idup(of, &comm_, &made), "MPI_Comm_idup");
      wait(made);
    }
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    crowded_ = size_ > 1 && ranks_here() > processors_here();
    at_end_.join();
  }
  mpi_job(const mpi_job&) = delete;
  mpi_job& operator=(const mpi_job&) = delete;
  ~mpi_job() {
    close();
    while (notes_ != nullptr) delete std::exchange(notes_, notes_->next);
  }
  /// The end of the run: from here on nothing is sent.
  void close() noexcept {
    at_end_.leave();
    if (std::exchange(gone_, true) || mpi_finalized()) return;
    for (retired_group& each : retired_) MPI_Comm_free(&each.comm);
    if (borrowed_) {
      MPI_Comm_set_errhandler(comm_, user_handler_);
      MPI_Errhandler_free(&user_handler_);
    } else {
      MPI_Comm_free(&comm_);
    }
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  MPI_Comm comm() const { return comm_; }
  /// More ranks than processors on this host.
  bool crowded() const { return crowded_; }
  mpi_mail& mail() { return mail_; }
  /// The calling thread is the one that the rank runs on.
  bool on_own_thread() const { return pthread_equal(thread_, pthread_self()) != 0; }
  /// The run is over, or MPI has been finalised meanwhile: no call of it may be made.
  bool gone() const { return gone_; }
  /// Something has happened that has to be seen to before the next collective, on any of the communicators. From any
  /// thread, and after it has happened.
  void disturb() {
    const std::lock_guard lock(mutex_);
    ++disturbances_;
    for (mpi_listener* one = listeners_; one != nullptr; one = one->next_)
      one->calm_.store(false, std::memory_order_relaxed);
  }
  std::uint64_t disturbances() {
    const std::lock_guard lock(mutex_);
    return disturbances_;
  }
  /// It is calm, unless something has happened after so many disturbances.
  void calm_down(mpi_listener& one, std::uint64_t before) {
    const std::lock_guard lock(mutex_);
    if (disturbances_ == before) one.calm_.store(true, std::memory_order_relaxed);
  }
  /// From here on a rank may wait in MPI's own calls, where it hears nothing.
  void may_be_deaf() { deaf_ = true; }

  void join(mpi_listener& one) {
    const std::lock_guard lock(mutex_);
    one.next_ = listeners_;
    listeners_ = &one;
    if (one.number() >= next_group_) next_group_ = one.number() + 1;
  }
  void leave(mpi_listener& one) noexcept {
    const std::lock_guard lock(mutex_);
    for (mpi_listener** place = &listeners_; *place != nullptr; place = &(*place)->next_) {
      if (*place != &one) continue;
      *place = one.next_;
      break;
    }
  }
  int next_group() const { return next_group_; }
  /// This rank comes to no group of that number.
  void skip(int number) noexcept {
    if (number >= next_group_ && number != INT_MAX) next_group_ = number + 1;
  }

  // ---- Notes
  // --------------------------------------------------------------------------------------------------------------
  void send(int to, const mpi_note& note) {
    if (gone_) return;
    notes_under_way();
    auto* const made = allocating(sizeof(note_under_way), "a note", [&] { return new note_under_way; });
    made->text = note.write();
    made->next = notes_;
    notes_ = made;
    check_mpi(MPI_Isend(made->text.data(), static_cast<int>(made->text.size()), MPI_BYTE, to, mpi_tags::note, comm_,
                        &made->request),
              "MPI_Isend");
  }
  /// The same if the rank does not end by the exception that passes.
  void send_if_it_goes_on(int to, mpi_note note) {
    unsaid_.push_back({to, std::move(note)});
    disturb();
  }
  /// It has not.
  TUTTI_ALWAYS_INLINE void go_on() {
    if (has_to_say()) [[unlikely]]
      say();
  }
  TUTTI_ALWAYS_INLINE bool has_to_say() const noexcept { return !unsaid_.empty(); }
  /// Takes in what has been told. Not a collective, and it does not wait.
  void poll() {
    if (gone_) return;
    for (;;) {
      int there = 0;
      MPI_Status status;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, mpi_tags::note, comm_, &there, &status), "MPI_Iprobe");
      if (there == 0) break;
      take_note(status);
    }
    for (const mpi_listener* one = listeners_; one != nullptr; one = one->next_)
      if (one->drained_ != MPI_COMM_NULL) [[unlikely]]
        receive_one_in_vain(one->drained_);
    if (abandoned_.size() != 0) [[unlikely]]
      for (const MPI_Comm comm : abandoned_) receive_one_in_vain(comm);
    if (retired_.size() != 0) [[unlikely]]
      for (const retired_group& each : retired_)
        if (each.drained) receive_one_in_vain(each.comm);
  }
  /// One message there, if one has come that nobody receives.
  [[gnu::noinline]] static void receive_one_in_vain(MPI_Comm comm, int tag = MPI_ANY_TAG) {
    int there = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &there, &status), "MPI_Iprobe");
    if (there != 0) receive_in_vain(status, comm);
  }
  /// Polls until `done()`, or for so long; whether it was done.
  template <class Done>
  bool poll_until(Done&& done, std::chrono::nanoseconds limit) {
    const clock::time_point begin = clock::now();
    while (!done()) {
      if (gone_ || clock::now() - begin >= limit) return false;
      poll();
      sched_yield();
    }
    return true;
  }

  // ---- The end
  // ------------------------------------------------------------------------------------------------------------
  /// That group's communicator is freed when so many of its ranks have told that they have left it too: what they send
  /// until then must not be taken for what belongs to the next one. `drained`: they may send what they wait to be
  /// received.
  void retire(int group, int awaited, MPI_Comm comm, bool drained) {
    if (awaited == 0) {
      MPI_Comm_free(&comm);  // local, though it is called collective: what is on its way goes on
    } else {
      retired_.push_back({group, awaited, comm, drained});
    }
  }
  /// Before one more is made: MPICH has 2048 in all.
  void free_retired() {
    poll();
    if (retired_.size() > most_retired)
      poll_until([this] { return retired_.size() <= most_retired; }, std::chrono::seconds(1));
  }
  /// That communicator is not used any more, and something may still be on its way there: it is kept, since MPI may
  /// give its name away otherwise.
  void abandon(MPI_Comm comm) {
    if (comm != comm_) abandoned_.push_back(comm);
  }
  /// Nothing of this rank's is on its way any more.
  bool still() { return !mail_.under_way() && !notes_under_way(); }

  /// After a failure: waits until all ranks have come here, and nothing is on its way between any two. What the user
  /// sees is not waited for but here. Where a rank does not come that may be waiting in a call of MPI's own, which it
  /// would for ever, the job is ended.
  void part_failed(const failure& why) noexcept {
    if (gone_) return;
    try {
      patient_until([&] { return drain(), still(); }, why);
      for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) continue;
        mpi_letter& letter = mail_.take();
        check_mpi(MPI_Isend(letter.data(), 0, MPI_BYTE, peer, mpi_tags::farewell, comm_, &letter.request), "MPI_Isend");
        mail_.leave(letter);
      }
      patient_until([&] { return drain(), farewells_ == size_ - 1 && still(); }, why);
    } catch (const std::exception& e) {
      end_job(e.what());
    }
  }

  /// Receives whatever there is for this rank and forgets it: it will ask for nothing more.
  void drain() {
    poll();
    if (!borrowed_) return drain(MPI_ANY_TAG);
    // The user's messages lie before ours, and stay there.
    for (int tag = mpi_tags::farewell; tag < mpi_tags::small(lanes_in_use); ++tag) drain(tag);
  }

 private:
  static constexpr std::size_t most_retired = 128;
  struct retired_group {
    int group;
    int awaited;  // ranks that have not told yet that they have left
    MPI_Comm comm;
    bool drained;
  };
  struct unsaid_note {
    int to;
    mpi_note what;
  };
  struct note_under_way {
    MPI_Request request = MPI_REQUEST_NULL;
    note_under_way* next = nullptr;
    std::string text;
  };
  struct at_end : mpi_at_end {
    explicit at_end(mpi_job& j) : mpi_at_end(&at_end::run), job(&j) {}
    static void run(mpi_at_end& self) noexcept { static_cast<at_end&>(self).job->finalize(); }
    mpi_job* job;
  };

  [[gnu::noinline, gnu::cold]] void say() {
    for (; !unsaid_.empty(); unsaid_.pop_back()) send(unsaid_.back().to, unsaid_.back().what);
  }
  /// As MPI's own waiting does not, this gives way to others: there may be more ranks than processors.
  static void wait(MPI_Request& request) {
    for (int done = 0; done == 0;) {
      check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done == 0) sched_yield();
    }
  }
  /// How many ranks are on this host.
  int ranks_here() const {
    char name[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    MPI_Get_processor_name(name, &length);
    std::uint64_t mine = 14695981039346656037ULL;  // FNV-1a
    for (int i = 0; i < length; ++i) mine = (mine ^ static_cast<unsigned char>(name[i])) * 1099511628211ULL;
    owned_array<std::uint64_t> hosts(static_cast<std::size_t>(size_));
    MPI_Request gathered = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallgather(&mine, 1, MPI_UINT64_T, hosts.data(), 1, MPI_UINT64_T, comm_, &gathered),
              "MPI_Iallgather");
    wait(gathered);
    int here = 0;
    for (const std::uint64_t host : hosts) here += host == mine ? 1 : 0;
    return here;
  }
  /// Launchers bind ranks, each to a processor of its own: what one of them may use says little then.
  static int processors_here() {
    const int usable = usable_processors();
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > usable ? static_cast<int>(online) : usable;
  }

  /// Null if this rank has no such communicator.
  mpi_listener* listener(int number) const {
    mpi_listener* one = listeners_;
    while (one != nullptr && one->number() != number) one = one->next_;
    return one;
  }
  [[gnu::noinline]] void take_note(const MPI_Status& status) {
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    std::string text(static_cast<std::size_t>(bytes), '\0');
    check_mpi(MPI_Recv(text.data(), bytes, MPI_BYTE, status.MPI_SOURCE, mpi_tags::note, comm_, MPI_STATUS_IGNORE),
              "MPI_Recv");
    const mpi_note note = mpi_note::read(text);
    if (mpi_listener* const one = listener(note.group)) return one->take_(*one, status.MPI_SOURCE, note);
    if (note.kind == note_kind::gone) take_gone(note.group);
  }
  bool notes_under_way() {
    for (note_under_way** place = &notes_; *place != nullptr;) {
      int arrived = 0;
      check_mpi(MPI_Test(&(*place)->request, &arrived, MPI_STATUS_IGNORE), "MPI_Test");
      if (arrived != 0) {
        delete std::exchange(*place, (*place)->next);
      } else {
        place = &(*place)->next;
      }
    }
    return notes_ != nullptr;
  }

  void drain(int tag) {
    for (;;) {
      int there = 0;
      MPI_Status status;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_, &there, &status), "MPI_Iprobe");
      if (there == 0) return;
      if (status.MPI_TAG == mpi_tags::note) {
        take_note(status);
      } else {
        farewells_ += status.MPI_TAG == mpi_tags::farewell ? 1 : 0;
        receive_in_vain(status, comm_);
      }
    }
  }
  static constexpr int lanes_in_use = 66;
  void take_gone(int group) {
    for (retired_group* one = retired_.begin(); one != retired_.end(); ++one) {
      if (one->group != group) continue;
      if (--one->awaited == 0) {
        MPI_Comm_free(&one->comm);
        retired_.erase(one);
      }
      return;
    }
  }
  [[gnu::noinline]] static void receive_in_vain(const MPI_Status& status, MPI_Comm comm) {
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    const owned_memory nowhere = owned_memory::ordinary(static_cast<std::size_t>(bytes) + 1);
    check_mpi(MPI_Recv(nowhere.data(), bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm, MPI_STATUS_IGNORE),
              "MPI_Recv");
  }

  template <class Done>
  void patient_until(Done&& done, const failure& why) {
    if (!deaf_) return static_cast<void>(poll_until(done, std::chrono::nanoseconds::max()));
    if (poll_until(done, patience) || gone_) return;
    end_job(why.text.c_str());
  }
  [[noreturn]] void end_job(const char* why) const noexcept {
    std::fprintf(stderr,
                 "tutti: rank %d ends the MPI job, since it has failed and not all ranks can be told, who may wait in "
                 "MPI's own calls: %s\n",
                 rank_, why);
    MPI_Abort(comm_, 1);
    std::abort();
  }

  /// Somebody has called MPI_Finalize: what others have to know they are told while it is possible.
  void finalize() noexcept {
    try {
      failure f{
          errc::usage, rank_,
          message() << "rank " << rank_
                    << " called MPI_Finalize while a communicator of run_mpi was in use: call it after run_mpi has "
                       "returned"};
      if (mpi_listener* const whole = listener(0)) {
        mpi_note note;
        note.kind = note_kind::failed;
        note.what = f;
        whole->take_(*whole, rank_, note);
        note.what.kind = errc::peer_failed;
        for (int peer = 0; peer < size_; ++peer)
          if (peer != rank_) send(peer, note);
        part_failed(f);
      }
    } catch (...) {  // there is nobody left to tell
    }
    gone_ = true;
  }

  static constexpr std::chrono::seconds patience{5};

  at_end at_end_;
  pthread_t thread_;
  bool borrowed_;
  bool gone_ = false;
  bool deaf_ = false;
  bool crowded_ = false;
  int rank_ = 0;
  int size_ = 1;
  int farewells_ = 0;
  int next_group_ = 0;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Errhandler user_handler_ = MPI_ERRHANDLER_NULL;
  mpi_listener* listeners_ = nullptr;
  note_under_way* notes_ = nullptr;
  array_list<MPI_Comm> abandoned_;
  array_list<retired_group> retired_;
  std::vector<unsaid_note> unsaid_;
  std::uint64_t disturbances_ = 0;
  std::mutex mutex_;  // over the last, the list of listeners, and whether they are calm
  mpi_mail mail_;
};

}  // namespace tutti::detail
