// SPDX-License-Identifier: BSL-1.0
#pragma once

// A rank other than 0 at the meeting of the ranks.

#include <tutti/core/clock.hpp>
#include <tutti/core/descriptor.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/processes/rendezvous_message.hpp>
#include <tutti/transport/processes/rendezvous_options.hpp>
#include <tutti/transport/processes/rendezvous_socket.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::detail {

/// Looks for rank 0 under the name of the job until it answers, and receives the descriptor from it. Once it has
/// answered, its clock decides for all.
class rendezvous_guest {
 public:
  rendezvous_guest(int rank, int size, std::string_view job, const rendezvous_options& options)
      : rank_(rank),
        size_(size),
        job_(job),
        options_(options),
        hash_(job_hash::of(job, options.user)),
        name_(hash_, options.user),
        until_(time_limit::in(options.limit)) {}

  /// Returns the descriptor when `attach(descriptor)` has returned on every rank.
  template <class Attach>
  descriptor_owner join(Attach&& attach) {
    find_host();
    TUTTI_FAULT_POINT("rendezvous.guest.welcomed");
    received given = await(rendezvous_note::what::descriptor);  // from here on the clock is that of attaching
    if (!given.descriptor) {
      const failure lost{errc::resource, rank_,
                         rendezvous_text(job_) << "the system gave rank " << rank_
                                               << " no descriptor: it may have as many open as it is allowed"};
      send_packet(host_, rendezvous_note::refusal(lost));
      lost.raise();
    }
    try {
      TUTTI_FAULT_POINT("rendezvous.guest.given");
      attach(given.descriptor.get());
      TUTTI_FAULT_POINT("rendezvous.guest.attached");
    } catch (...) {
      tell_and_rethrow([&](const char* reason) {
        send_packet(host_, rendezvous_note::refusal(attach_failure(job_, rank_, reason)));
      });
    }
    rendezvous_note note;
    note.kind = rendezvous_note::what::attached;
    send_packet(host_, note);  // if rank 0 has gone, reading will tell why
    TUTTI_FAULT_POINT("rendezvous.guest.told");
    await(rendezvous_note::what::complete);
    return std::move(given.descriptor);
  }

  /// Tells rank 0, and it all others, that this rank cannot take part. Returns when it has heard.
  void refuse(const failure& reason) {
    find_host();
    send_packet(host_, rendezvous_note::refusal(reason));
    rendezvous_note answer;
    while (receive_packet(host_, answer).how == received::result::nothing && !until_.passed()) wait();
  }

 private:
  void wait() {
    pollfd host{host_.get(), POLLIN, 0};
    wait_for_sockets(&host, 1, until_);
  }

  /// Connects and says hello until rank 0 bids welcome.
  void find_host() {
    ucred holder{};
    int refused = 0;
    for (retry_pause pause(rank_);; pause.wait(until_)) {
      TUTTI_FAULT_POINT("rendezvous.guest.connect");
      host_ = make_rendezvous_socket();
      refused = connect(host_.get(), name_.address(), name_.size()) == 0 ? 0 : errno;
      // Not there yet, too many at once, or going away.
      const bool passes = refused == ECONNREFUSED || refused == EAGAIN || refused == EINTR || refused == ECONNRESET;
      if (refused != 0 && !passes)
        throw resource_error(rendezvous_text(job_) << "the system refused rank " << rank_ << " a connection to "
                                                   << name_.shown() << ": " << system_text(refused));
      if (refused == 0) {
        holder = peer_of(host_);
        if (holder.uid == options_.user && greet()) {
          host_process_ = holder.pid;
          return;
        }
      }
      if (until_.passed()) throw timed_out(0, in_vain(refused, holder));
    }
  }

  /// Says hello. False if whoever is there went away, said what is no answer, or nothing until the limit.
  bool greet() {
    rendezvous_hello hello;
    hello.version = options_.version;
    hello.rank = rank_;
    hello.job = hash_;
    hello.layout = options_.layout;
    hello.size = size_;
    TUTTI_FAULT_POINT("rendezvous.guest.connected");
    if (send_packet(host_, hello) != 0) return false;
    TUTTI_FAULT_POINT("rendezvous.guest.greeted");
    for (;;) {
      rendezvous_note note;
      const received r = receive_packet(host_, note);
      if (r.how == received::result::closed) return false;
      if (r.how == received::result::packet) {
        if (r.size != sizeof note) return false;
        if (note.kind == rendezvous_note::what::refused) note.reason().raise();
        if (note.kind != rendezvous_note::what::welcome) return false;
        follow_clock(note);
        return true;
      }
      if (until_.passed()) return false;
      wait();
    }
  }

  /// Rank 0 tells when its time is up; a little longer is for one that cannot.
  void follow_clock(const rendezvous_note& note) {
    using std::chrono::nanoseconds;
    const nanoseconds left(note.remaining_ns < 0 ? 0 : note.remaining_ns);
    until_ = left > nanoseconds::max() - options_.hello_limit ? time_limit::never()
                                                              : time_limit::in(left + options_.hello_limit);
  }

  std::string in_vain(int refused, const ucred& holder) const {
    message text = rendezvous_text(job_);
    text << "rank " << rank_ << " of " << size_ << " had no answer of rank 0 for " << in_milliseconds(options_.limit)
         << ": ";
    if (holder.pid != 0 && holder.uid != options_.user)
      text << process_text(holder.pid) << " of user " << static_cast<unsigned long>(holder.uid) << " holds the name "
           << name_.shown() << " of user " << static_cast<unsigned long>(options_.user);
    else if (refused == 0)
      text << process_text(holder.pid) << " holds the name " << name_.shown() << " and does not answer as rank 0";
    else if (refused == EAGAIN)
      text << "whoever holds the name " << name_.shown() << " has too many connections to answer";
    else
      text << "nobody holds the name " << name_.shown()
           << "; is rank 0 on this host, in the same container, and of the same job (TUTTI_JOB would name it)?";
    return text;
  }

  /// The next message of rank 0, which is of that kind.
  received await(rendezvous_note::what kind) {
    for (;;) {
      rendezvous_note note;
      received r = receive_packet(host_, note, true);
      if (r.how == received::result::closed)
        throw peer_failed(0, rendezvous_text(job_)
                                 << "rank 0 (" << process_text(host_process_) << ") left before all had attached");
      if (r.how == received::result::packet) {
        if (r.size == sizeof note && note.kind == rendezvous_note::what::refused) note.reason().raise();
        if (r.size == sizeof note && note.kind == kind) {
          if (kind == rendezvous_note::what::descriptor) follow_clock(note);
          return r;
        }
        throw mismatch(rendezvous_text(job_)
                       << "rank 0 (" << process_text(host_process_) << ") said what it may not say now");
      }
      if (until_.passed())
        throw timed_out(0, rendezvous_text(job_) << "rank 0 (" << process_text(host_process_) << ") answered rank "
                                                 << rank_ << ", but is silent since");
      wait();
    }
  }

  int rank_;
  int size_;
  std::string job_;
  rendezvous_options options_;
  job_hash hash_;
  rendezvous_name name_;
  time_limit until_;
  descriptor_owner host_;
  pid_t host_process_ = 0;
};

}  // namespace tutti::detail
