// SPDX-License-Identifier: BSL-1.0
#pragma once

// Rank 0 at the meeting of the ranks.

#include <tutti/core/clock.hpp>
#include <tutti/core/descriptor.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/processes/rendezvous_message.hpp>
#include <tutti/transport/processes/rendezvous_options.hpp>
#include <tutti/transport/processes/rendezvous_socket.hpp>
#include <tutti/transport/rank_list.hpp>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::detail {

/// Waits for the other ranks under the name of the job, and hands each the descriptor. One thread does everything; no
/// call blocks but the wait for all sockets at once, so nobody who is silent, slow or dead can hold up the others.
class rendezvous_host {
 public:
  /// Takes the name of the job; waits for it while somebody else has it.
  rendezvous_host(int size, std::string_view job, const rendezvous_options& options)
      : size_(size),
        job_(job),
        options_(options),
        hash_(job_hash::of(job, options.user)),
        name_(hash_, options.user),
        until_(time_limit::in(options.limit)),
        guests_(static_cast<std::size_t>(size)),
        polled_(rendezvous_options::max_silent + static_cast<std::size_t>(size)),
        asked_(polled_.size()) {
    take_name();
  }

  /// Hands the descriptor to every other rank once all have come, and returns when `attach(descriptor)` has returned on
  /// all of them and here. If anything fails, every rank that has come is told why, and throws.
  template <class Attach>
  void share(int descriptor, Attach&& attach) {
    until_enough(stage::coming);
    until_ = time_limit::in(options_.limit);  // whoever came last has as much time to attach as the first had
    for (int rank = 1; !failed_ && rank < size_; ++rank) hand_over(rank, descriptor);
    if (!failed_) {
      try {
        attach(descriptor);
      } catch (...) {
        tell_and_rethrow([&](const char* reason) { refuse(attach_failure(job_, 0, reason), options_.farewell); });
      }
    }
    until_enough(stage::attaching);
    if (failed_) {
      const bool enough_waited = reason_.kind == errc::timed_out;
      refuse(reason_, enough_waited ? std::chrono::nanoseconds(0) : options_.farewell);
      reason_.raise();
    }
    rendezvous_note done;
    done.kind = rendezvous_note::what::complete;
    // Who dies from here on is a rank that died in the group.
    for (guest& g : guests_) {
      TUTTI_FAULT_POINT("rendezvous.host.complete");
      if (g.socket) send_packet(g.socket, done);
      leave(g);
    }
  }

  /// Tells every other rank that there is nothing to share. Returns when all have been told, or when that span is over.
  void refuse(const failure& reason, std::chrono::nanoseconds farewell) {
    give_up(reason);
    for (int rank = 1; rank < size_; ++rank) {
      guest& g = guests_[static_cast<std::size_t>(rank)];
      if (!g.socket) continue;
      send_packet(g.socket, rendezvous_note::refusal(reason_));
      leave(g);
    }
    const time_limit end = until_.or_sooner(time_limit::in(farewell));
    for (bool last = false; told_ < size_ - 1 && !last;) {
      last = end.passed();
      serve(end);
    }
  }

  /// Connections that were not of this job.
  int strangers() const { return strangers_; }
  const std::string& name() const { return name_.shown(); }

 private:
  struct guest {
    descriptor_owner socket;
    pid_t process = 0;
    bool came = false;
    bool attached = false;
    bool told = false;
  };
  struct silent {
    descriptor_owner socket;
    time_limit until = time_limit::never();
  };

  void take_name() {
    TUTTI_FAULT_POINT("rendezvous.host.bind");
    listener_ = make_rendezvous_socket();
    ucred holder{};
    for (retry_pause pause(0); bind(listener_.get(), name_.address(), name_.size()) != 0; pause.wait(until_)) {
      if (errno == EINTR) continue;
      if (errno != EADDRINUSE)
        throw resource_error(rendezvous_text(job_)
                             << "the system refused the name " << name_.shown() << ": " << system_text(errno));
      const bool last = until_.passed();
      if (last || holder.pid == 0) {
        const descriptor_owner probe = make_rendezvous_socket();
        if (connect(probe.get(), name_.address(), name_.size()) == 0) holder = peer_of(probe);
      }
      if (last)
        throw resource_error(rendezvous_text(job_) << "rank 0 cannot have the name " << name_.shown() << ": for all of "
                                                   << in_milliseconds(options_.limit) << " " << process_text(holder.pid)
                                                   << " has held it, perhaps rank 0 of an "
                                                   << "earlier job; end it, or set TUTTI_JOB to another name");
    }
    TUTTI_FAULT_POINT("rendezvous.host.bound");
    if (listen(listener_.get(), options_.backlog) != 0)
      throw resource_error(rendezvous_text(job_) << "the system refused to listen: " << system_text(errno));
  }

  void give_up(const failure& reason) {
    if (failed_) return;
    failed_ = true;
    reason_ = reason;
  }

  enum class stage { coming, attaching };
  bool has(stage done, int rank) const {
    if (rank == 0) return true;
    const guest& g = guests_[static_cast<std::size_t>(rank)];
    return done == stage::coming ? g.came : g.attached;
  }

  /// Serves until every rank has done that, or all has failed. What lies ready when the limit passes still counts.
  void until_enough(stage awaited) {
    const int& done = awaited == stage::coming ? came_ : attached_;
    for (bool last = false; !failed_ && done < size_ - 1;) {
      if (last) return give_up(too_late(awaited));
      last = until_.passed();
      serve(until_);
    }
  }
  failure too_late(stage awaited) const {
    int first = 1;
    while (has(awaited, first)) ++first;
    message text = rendezvous_text(job_);
    list_ranks(text, size_, [&](int rank) { return !has(awaited, rank); });
    text << " of " << size_ << " had not " << (awaited == stage::coming ? "come" : "attached") << " after "
         << in_milliseconds(options_.limit);
    if (strangers_ > 0) text << "; " << strangers_ << " connections were not of this job";
    if (!stranger_.empty()) text << ", the last of them: " << stranger_;
    return {errc::timed_out, first, text};
  }

  void serve(time_limit until) {
    // Only sockets that there are: the system counts those waited for against the descriptors allowed.
    std::size_t count = 0;
    const auto ask = [&](const descriptor_owner& socket, int who) {
      if (!socket) return;
      asked_[count] = who;
      polled_[count++] = {socket.get(), POLLIN, 0};
    };
    ask(listener_, -1);
    for (int i = 0; i < rendezvous_options::max_silent; ++i) {
      ask(silent_[i].socket, size_ + i);
      until = until.or_sooner(silent_[i].until);
    }
    for (int rank = 1; rank < size_; ++rank) ask(guests_[static_cast<std::size_t>(rank)].socket, rank);
    wait_for_sockets(polled_.data(), count, until);

    for (std::size_t i = count; i-- > 0;) {  // comers last: they may take the place of who is silent
      if (polled_[i].revents == 0) continue;
      if (asked_[i] == -1)
        receive_comers();
      else if (asked_[i] < size_)
        hear_guest(asked_[i]);
      else if (silent& s = silent_[asked_[i] - size_]; hear(s.socket) != heard::nothing)
        s = {};
    }
    for (silent& s : silent_)
      if (s.socket && s.until.passed()) drop(s);
  }

  void receive_comers() {
    for (int served = 0; served < rendezvous_options::max_silent; ++served) {
      descriptor_owner socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return;
        const int refused = errno;
        if (silent* const s = oldest_silent()) {
          drop(*s);
          continue;
        }
        rlimit limit{};
        getrlimit(RLIMIT_NOFILE, &limit);
        return give_up({errc::resource, 0,
                        rendezvous_text(job_)
                            << "the system refused rank 0 a connection: " << system_text(refused) << " ("
                            << static_cast<unsigned long long>(limit.rlim_cur)
                            << " descriptors are allowed, and it takes " << size_ << " beside those in use)"});
      }
      if (peer_of(socket).uid != options_.user) {
        ++strangers_;
        continue;
      }
      if (hear(socket) == heard::nothing) keep(std::move(socket));
    }
  }

  /// Keeps a connection that has said nothing, for a while.
  void keep(descriptor_owner socket) {
    silent* place = nullptr;
    for (silent& s : silent_)
      if (!s.socket) place = &s;
    if (place == nullptr) {
      place = oldest_silent();
      drop(*place);
    }
    place->socket = std::move(socket);
    place->until = time_limit::in(options_.hello_limit);
  }
  silent* oldest_silent() {
    silent* oldest = nullptr;
    for (silent& s : silent_)
      if (s.socket && (oldest == nullptr || s.until.before(oldest->until))) oldest = &s;
    return oldest;
  }
  void drop(silent& s) {
    ++strangers_;
    s = {};
  }

  enum class heard { nothing, something };
  /// Hears who is there. Takes the socket of one that belongs here, and has answered one that does not.
  heard hear(descriptor_owner& socket) {
    rendezvous_hello hello;
    const received r = receive_packet(socket, hello);
    if (r.how == received::result::nothing) return heard::nothing;
    const bool ours = r.how == received::result::packet && r.size >= rendezvous_hello::lasting &&
                      hello.magic == rendezvous_hello::right_magic && hello.rank >= 1;
    if (!ours || (hello.version == options_.version && (r.size != sizeof hello || hello.rank >= hello.size))) {
      ++strangers_;
      return heard::something;
    }
    const pid_t process = peer_of(socket).pid;
    if (hello.version != options_.version)
      return disagree(socket, process, hello.rank, "speaks version ", hello.version, options_.version);
    if (!(hello.job == hash_)) {
      ++strangers_;
      stranger_ = message() << process_text(process) << " is of job " << hello.job.hexadecimal() << ", and this is job "
                            << hash_.hexadecimal();
      const failure reason{errc::mismatch, hello.rank, rendezvous_text(job_) << stranger_};
      send_packet(socket, rendezvous_note::refusal(reason));
      return heard::something;
    }
    if (hello.layout != options_.layout)
      return disagree(socket, process, hello.rank, "has memory of layout ", hello.layout, options_.layout);
    if (hello.size != size_)
      return disagree(socket, process, hello.rank, "has a job of size ", static_cast<unsigned>(hello.size),
                      static_cast<unsigned>(size_));
    admit(std::move(socket), hello.rank, process);
    return heard::something;
  }

  /// Somebody of this job is not like rank 0: that is the end for all.
  heard disagree(descriptor_owner& socket, pid_t process, int rank, std::string_view what, std::uint64_t theirs,
                 std::uint64_t ours) {
    give_up({errc::mismatch, rank,
             rendezvous_text(job_) << "rank " << rank << " (" << process_text(process) << ") " << what << theirs
                                   << ", but rank 0 (" << process_text(getpid()) << ") " << what << ours});
    send_packet(socket, rendezvous_note::refusal(reason_));
    if (rank < size_ && !guests_[static_cast<std::size_t>(rank)].came) leave(guests_[static_cast<std::size_t>(rank)]);
    return heard::something;
  }

  void admit(descriptor_owner socket, int rank, pid_t process) {
    guest& g = guests_[static_cast<std::size_t>(rank)];
    if (g.came && !failed_)
      give_up({errc::mismatch, rank,
               rendezvous_text(job_) << process_text(g.process) << " and " << process_text(process)
                                     << " both say that they are rank " << rank << " of " << size_});
    if (failed_) {
      send_packet(socket, rendezvous_note::refusal(reason_));
      if (!g.came) leave(g);
      return;
    }
    rendezvous_note welcome;
    welcome.kind = rendezvous_note::what::welcome;
    welcome.remaining_ns = until_.left().count();
    TUTTI_FAULT_POINT("rendezvous.host.welcome");
    send_packet(socket, welcome);  // if it has gone, reading will tell
    TUTTI_FAULT_POINT("rendezvous.host.welcomed");
    g.socket = std::move(socket);
    g.process = process;
    g.came = true;
    ++came_;
  }

  /// That rank has been told, or needs not to be.
  void leave(guest& g) {
    g.socket.reset();
    if (!g.told) ++told_;
    g.told = true;
  }

  void hear_guest(int rank) {
    guest& g = guests_[static_cast<std::size_t>(rank)];
    if (!g.socket) return;
    rendezvous_note note;
    const received r = receive_packet(g.socket, note);
    if (r.how == received::result::nothing) return;
    if (r.how == received::result::closed) {
      give_up({errc::peer_failed, rank,
               rendezvous_text(job_) << "rank " << rank << " (" << process_text(g.process) << ") left before all had "
                                     << (came_ < size_ - 1 ? "come" : "attached")});
      return leave(g);
    }
    if (r.size == sizeof note && note.kind == rendezvous_note::what::refused) {
      give_up(note.reason());
    } else if (r.size == sizeof note && note.kind == rendezvous_note::what::attached && came_ == size_ - 1 &&
               !g.attached) {
      g.attached = true;
      ++attached_;
    } else {
      give_up({errc::mismatch, rank,
               rendezvous_text(job_) << "rank " << rank << " (" << process_text(g.process)
                                     << ") said what it may not say now"});
    }
  }

  void hand_over(int rank, int descriptor) {
    rendezvous_note note;
    TUTTI_FAULT_POINT("rendezvous.host.hand_over");
    note.kind = rendezvous_note::what::descriptor;
    note.remaining_ns = until_.left().count();
    const guest& g = guests_[static_cast<std::size_t>(rank)];
    for (retry_pause pause(0);; pause.wait(until_)) {
      const int refused = send_packet(g.socket, note, descriptor);
      TUTTI_FAULT_POINT("rendezvous.host.handed_over");
      if (refused == 0 || refused == EPIPE || refused == ECONNRESET) return;  // if it has gone, reading will tell
      // The system bounds the descriptors under way; ranks take theirs as fast as they can.
      const bool passes = refused == ETOOMANYREFS || refused == EAGAIN || refused == ENOBUFS || refused == ENOMEM;
      if (!passes || until_.passed())
        return give_up({errc::resource, 0,
                        rendezvous_text(job_) << "the system refused to hand the descriptor to rank " << rank << ": "
                                              << system_text(refused)});
    }
  }

  int size_;
  std::string job_;
  rendezvous_options options_;
  job_hash hash_;
  rendezvous_name name_;
  time_limit until_;
  descriptor_owner listener_;
  silent silent_[rendezvous_options::max_silent];
  owned_array<guest> guests_;
  owned_array<pollfd> polled_;
  owned_array<int> asked_;  // whose they are: a rank's, or that of a silent one plus the size, or -1 for the listener
  int came_ = 0;
  int attached_ = 0;
  int told_ = 0;
  int strangers_ = 0;
  std::string stranger_;
  bool failed_ = false;
  failure reason_;
};

}  // namespace tutti::detail
