// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call.hpp>
#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/landing_memory.hpp>
#include <tutti/transport/mpi/api.hpp>
#include <tutti/transport/mpi/group.hpp>
#include <tutti/transport/mpi/mail.hpp>
#include <tutti/transport/mpi/tags.hpp>
#include <tutti/transport/mpi/waiting.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

namespace tutti::detail {

/// The most bytes that one message of MPI's carries; longer ones are sent as several. Tests lower it.
inline std::size_t mpi_most_bytes = std::size_t{1} << 30;

/// A lane over MPI's messages between two ranks.
///
/// A small message travels with its header, from and to memory of the rank's own. A large one goes from where it lies
/// to where it is wanted, by itself: the receiver, which knows how long it has to be, makes ready to receive it and
/// then sends a token with the header that it expects; the sender compares, and sends. So MPI never reads the memory of
/// a caller for a rank that has not come yet, and a collective that fails can give it back.
class mpi_lane : public mpi_waiting {
 public:
  mpi_lane(mpi_group& group, int index, const std::chrono::nanoseconds& limit)
      : mpi_waiting(group, limit),
        index_(index),
        in_(static_cast<std::size_t>(group.size())),
        memory_(static_cast<std::size_t>(group.size())) {
    if (index < 0 || index >= mpi_tags::most_lanes)
      throw usage_error(message() << "lane " << index << " on rank " << group.rank() << ": must be in [0, "
                                  << mpi_tags::most_lanes << ")");
  }
  mpi_lane(mpi_lane&&) noexcept = default;
  mpi_lane& operator=(mpi_lane&&) = delete;
  ~mpi_lane() { drop(); }

  /// Messages are put where they are wanted, if they are large.
  static constexpr bool lands = true;

  TUTTI_ALWAYS_INLINE void open(const call& c) {
    group_->check();
    group_->job().go_on();
    call_ = c;
    fingerprint_ = c.fingerprint();
    round_ = -1;
    group_->write_call(c);
    // Who never waits hears what others have to tell all the same.
    if ((c.is_message() ? c.history : c.sequence) % 64 == 0) group_->job().poll();
  }

  void begin_round() { ++round_; }

  TUTTI_ALWAYS_INLINE bool send(int peer, const std::byte* data, std::size_t bytes, bool) {
    if (bytes > mpi_letter::most_bytes) [[unlikely]]
      return send_large(peer, data, bytes);
    mpi_mail& mail = group_->job().mail();
    mpi_letter& letter = mail.take();
    letter.header = {fingerprint_, bytes};
    if (bytes != 0) std::memcpy(letter.payload, data, bytes);
    check_mpi(MPI_Isend(letter.data(), static_cast<int>(sizeof(mpi_header) + bytes), MPI_BYTE, peer,
                        mpi_tags::small(index_), group_->comm(), &letter.request),
              "MPI_Isend");
    mail.leave(letter);
    return true;
  }

  TUTTI_ALWAYS_INLINE const std::byte* view(int peer, std::size_t bytes, std::byte* landing = nullptr) {
    incoming& i = in_[static_cast<std::size_t>(peer)];
    if (i.letter == nullptr && !i.large) ask(i, peer, bytes, landing);
    const std::byte* const there = i.large ? look_for_payload(i, peer) : look_for_letter(i, peer, bytes);
    if (there == nullptr) {
      if (!sending_.empty()) [[unlikely]]
        send_more();
      awaited_ = peer;  // the call is about this one, whoever has not asked for what is sent yet
    }
    return there;
  }
  void claim(int) {}
  TUTTI_ALWAYS_INLINE void release(int peer) {
    incoming& i = in_[static_cast<std::size_t>(peer)];
    if (i.letter != nullptr) group_->job().mail().give_back(*std::exchange(i.letter, nullptr));
    i.large = false;
    if (i.own.size != 0) memory_.give_back(std::exchange(i.own, {}));
  }

  bool try_recv(int peer, std::byte* data, std::size_t bytes) {
    const std::byte* const from = view(peer, bytes, data);
    if (from == nullptr) return false;
    if (bytes != 0 && from != data) std::memcpy(data, from, bytes);
    release(peer);
    return true;
  }

  TUTTI_ALWAYS_INLINE bool settled() {
    if (sending_.empty()) [[likely]]
      return true;
    send_more();
    return sending_.empty();
  }

  [[gnu::noinline, gnu::cold]] void abandon(const std::string& reason) noexcept {
    awake();
    try {
      group_->fail({errc::peer_failed, group_->rank(),
                    message() << "rank " << group_->rank() << " failed in " << call_.describe() << ": " << reason});
    } catch (...) {
      std::terminate();  // no memory to say what failed: others would wait for ever
    }
    drop();
  }
  /// What MPI has begun to move from or to a caller's memory it has to end, for which the other rank must call MPI.
  [[gnu::noinline, gnu::cold]] void withdraw() noexcept {
    awake();
    group_->withdraw(call_);
    drop();
  }

 private:
  struct incoming {
    mpi_letter* letter = nullptr;  // of a small message that is awaited or there
    bool large = false;            // a large one is
    std::byte* to = nullptr;
    std::size_t bytes = 0;
    std::size_t begun = 0;  // bytes that have come or are to come by `request`
    MPI_Request request = MPI_REQUEST_NULL;
    landing_memory::piece own;  // where it lands, unless the caller has said where
  };
  struct outgoing {
    mpi_letter* token;  // null when it has come
    int peer;
    std::uint64_t fingerprint;
    const std::byte* data;  // of what is not yet sent
    std::size_t bytes;
    MPI_Request request;
  };

  [[gnu::noinline]] bool send_large(int peer, const std::byte* data, std::size_t bytes) {
    mpi_letter& letter = group_->job().mail().take();
    check_mpi(MPI_Irecv(letter.data(), sizeof(mpi_header), MPI_BYTE, peer, mpi_tags::token(index_), group_->comm(),
                        &letter.request),
              "MPI_Irecv");
    sending_.push_back({&letter, peer, fingerprint_, data, bytes, MPI_REQUEST_NULL});
    return false;
  }
  [[gnu::noinline]] void ask_for_payload(incoming& i, int peer, std::size_t bytes, std::byte* landing) {
    if (landing == nullptr) {
      i.own = memory_.take(bytes);
      landing = i.own.memory.data();
    }
    i.to = landing;
    i.bytes = bytes;
    i.begun = 0;
    i.large = true;
    receive_more(i, peer);
    mpi_letter& token = group_->job().mail().take();
    token.header = {fingerprint_, bytes};
    check_mpi(MPI_Isend(token.data(), sizeof(mpi_header), MPI_BYTE, peer, mpi_tags::token(index_), group_->comm(),
                        &token.request),
              "MPI_Isend");
    group_->job().mail().leave(token);
  }
  TUTTI_ALWAYS_INLINE void ask(incoming& i, int peer, std::size_t bytes, std::byte* landing) {
    if (bytes > mpi_letter::most_bytes) return ask_for_payload(i, peer, bytes, landing);
    i.letter = &group_->job().mail().take();
    // Room for any small one, so that one of another call is told rather than cut off.
    check_mpi(MPI_Irecv(i.letter->data(), sizeof(mpi_header) + mpi_letter::most_bytes, MPI_BYTE, peer,
                        mpi_tags::small(index_), group_->comm(), &i.letter->request),
              "MPI_Irecv");
  }
  void receive_more(incoming& i, int peer) {
    const std::size_t rest = i.bytes - i.begun;
    const std::size_t n = rest < mpi_most_bytes ? rest : mpi_most_bytes;
    check_mpi(MPI_Irecv(i.to + i.begun, static_cast<int>(n), MPI_BYTE, peer, mpi_tags::payload(index_), group_->comm(),
                        &i.request),
              "MPI_Irecv");
    i.begun += n;
  }

  TUTTI_ALWAYS_INLINE const std::byte* look_for_letter(incoming& i, int peer, std::size_t bytes) {
    int there = 0;
    check_mpi(MPI_Test(&i.letter->request, &there, MPI_STATUS_IGNORE), "MPI_Test");
    if (there == 0) return nullptr;
    const mpi_header& came = i.letter->header;
    if (came.fingerprint != fingerprint_ || came.bytes != bytes) [[unlikely]]
      refuse(peer, came, bytes, true);
    return i.letter->payload;
  }
  [[gnu::noinline]] const std::byte* look_for_payload(incoming& i, int peer) {
    for (;;) {
      int there = 0;
      check_mpi(MPI_Test(&i.request, &there, MPI_STATUS_IGNORE), "MPI_Test");
      if (there == 0) return nullptr;
      if (i.begun == i.bytes) return i.to;
      receive_more(i, peer);
    }
  }
  /// To be called wherever a rank waits: others may wait for what it has not sent.
  [[gnu::noinline]] void send_more() {
    for (outgoing* o = sending_.begin(); o != sending_.end();) {
      if (has_been_sent(*o)) {
        sending_.erase(o);
      } else {
        awaited_ = o->peer;
        ++o;
      }
    }
  }
  bool has_been_sent(outgoing& o) {
    int done = 0;
    if (o.token != nullptr) {
      check_mpi(MPI_Test(&o.token->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done == 0) return false;
      const mpi_header wanted = o.token->header;
      group_->job().mail().give_back(*std::exchange(o.token, nullptr));
      if (wanted.fingerprint != o.fingerprint || wanted.bytes != o.bytes) [[unlikely]]
        refuse(o.peer, wanted, o.bytes, false);
    }
    for (;;) {
      check_mpi(MPI_Test(&o.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done == 0) return false;
      if (o.bytes == 0) return true;
      const std::size_t n = o.bytes < mpi_most_bytes ? o.bytes : mpi_most_bytes;
      check_mpi(MPI_Isend(o.data, static_cast<int>(n), MPI_BYTE, o.peer, mpi_tags::payload(index_), group_->comm(),
                          &o.request),
                "MPI_Isend");
      o.data += n;
      o.bytes -= n;
    }
  }

  [[noreturn, gnu::noinline, gnu::cold]] void refuse(int peer, const mpi_header& theirs, std::size_t bytes,
                                                     bool receives) {
    awaited_ = peer;
    if (call_.is_message()) group_->misfit(peer, call_, receives);
    if (theirs.fingerprint != fingerprint_) group_->disagree(peer);
    const auto sent = static_cast<std::size_t>(theirs.bytes);
    group_->fail(receives ? unexpected_size(here(), sent, bytes)
                          : unexpected_size({peer, group_->rank(), round_, call_}, bytes, sent));
    group_->raise();
  }

  /// What is asked for is not wanted any more. Returns when MPI reads and writes no memory of a caller's.
  void drop() noexcept {
    mpi_job& job = group_->job();
    if (job.gone()) return;
    try {
      for (incoming& i : in_) {
        if (i.letter != nullptr) {
          mpi_letter& letter = *std::exchange(i.letter, nullptr);
          if (letter.request == MPI_REQUEST_NULL) {
            job.mail().give_back(letter);
          } else {
            job.mail().cancel(letter);
          }
        }
        if (i.large) finish(i.request, true);
        i.large = false;
        i.own = {};
      }
      for (outgoing& o : sending_) {
        if (o.token != nullptr) job.mail().cancel(*o.token);
        finish(o.request, false);
      }
      sending_.clear();
    } catch (...) {
      std::terminate();  // MPI goes on reading or writing memory that the caller takes back
    }
  }
  /// Whoever is at the other end has come, and looks after its end too: it may give up what it sends here, and wait for
  /// this rank to receive that, as this rank does for it.
  void finish(MPI_Request& request, bool receives) {
    if (request == MPI_REQUEST_NULL) return;
    if (receives) check_mpi(MPI_Cancel(&request), "MPI_Cancel");
    group_->job().poll_until(
        [&request, this] {
          mpi_job::receive_one_in_vain(group_->comm(), mpi_tags::payload(index_));
          int done = 0;
          check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
          return done != 0;
        },
        std::chrono::nanoseconds::max());
  }

  int index_;
  owned_array<incoming> in_;
  array_list<outgoing> sending_;  // large messages that have not been sent
  landing_memory memory_;
};

}  // namespace tutti::detail
