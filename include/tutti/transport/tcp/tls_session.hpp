// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/owned_array.hpp>
#include <tutti/transport/tcp/socket_io.hpp>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <system_error>

namespace tutti::detail {

/// One end of TLS over a socket that does not block: what both planes make of OpenSSL. No call waits, none raises
/// SIGPIPE. One thread at a time.
///
/// What OpenSSL writes is collected here and sent in few calls, so it never has to be asked twice for the same record,
/// and what it answers while it reads, such as to a change of keys, is sent by the next `flush()`.
class tls_session {
 public:
  static constexpr std::size_t record_bytes = SSL3_RT_MAX_PLAIN_LENGTH;
  enum class steps { done, wants, failed };

  /// `records`: for how many there is room. The descriptor stays the caller's. Throws std::bad_alloc.
  tls_session(SSL_CTX* context, int descriptor, bool server, std::size_t records)
      : descriptor_(descriptor), ssl_(SSL_new(context)), out_(records * record_room, "what TLS sends") {
    BIO* const bio = ssl_ == nullptr ? nullptr : BIO_new(method());
    if (bio == nullptr) throw std::bad_alloc();
    BIO_set_data(bio, this);
    SSL_set_bio(ssl_.get(), bio, bio);
#ifdef SSL_OP_IGNORE_UNEXPECTED_EOF
    // Frames, and what the ranks tell the arbiter, say whether something is missing; older versions go on anyway.
    SSL_set_options(ssl_.get(), SSL_OP_IGNORE_UNEXPECTED_EOF);
#endif
    server ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
  }
  tls_session(const tls_session&) = delete;
  tls_session& operator=(const tls_session&) = delete;

  /// Goes on with the handshake. Over when it is `done` and everything is flushed.
  steps handshake() noexcept {
    forget_errors();
    const int result = SSL_do_handshake(ssl_.get());
    const bool blocked = result != 1 && !fail(result);
    flush();
    if (over_ || send_error_ != 0) return steps::failed;
    ready_ = !blocked;
    return blocked ? steps::wants : steps::done;
  }
  bool ready() const { return ready_; }
  SSL* native() const { return ssl_.get(); }
  bool client() const { return SSL_is_server(ssl_.get()) == 0; }

  /// Reads what has come, at most so many bytes, as much as there is.
  socket_result read(std::byte* to, std::size_t bytes) noexcept {
    socket_result result;
    holds_ = false;
    while (!over_ && result.bytes < bytes) {
      std::size_t got = 0;
      forget_errors();
      const int done = SSL_read_ex(ssl_.get(), to + result.bytes, bytes - result.bytes, &got);
      if (done == 1)
        result.bytes += got;
      else if (!fail(done))
        break;
    }
    if (unflushed()) flush();
    if (over_) return {result.bytes, ended_ ? 0 : error_, ended_};
    holds_ = result.bytes == bytes && SSL_has_pending(ssl_.get()) == 1;
    return result;
  }
  /// Something may be there to be read that the descriptor does not show.
  bool holds() const { return holds_; }
  /// Looks for one byte without taking it.
  socket_result peek() noexcept {
    std::byte byte{};
    std::size_t got = 0;
    if (!over_) {
      forget_errors();
      const int done = SSL_peek_ex(ssl_.get(), &byte, 1, &got);
      if (done != 1) fail(done);
    }
    return {got, over_ && !ended_ ? error_ : 0, over_ && ended_};
  }

  /// Whether a record may be encrypted.
  bool has_room() const { return out_.size() - end_ >= record_room; }
  /// Takes one record of at most `record_bytes`, if there is room; false, and the error, if that is not possible.
  bool encrypt(const std::byte* from, std::size_t bytes) noexcept {
    if (error() != 0) return false;
    forget_errors();
    if (encrypted_ >= rekey_bytes) [[unlikely]]
      change_key();
    std::size_t taken = 0;
    const int done = SSL_write_ex(ssl_.get(), from, bytes, &taken);
    if (done == 1 && taken == bytes) [[likely]] {
      encrypted_ += bytes;
      return true;
    }
    if (!fail(done)) error_ = EPROTO;  // it cannot be blocked: there is room
    return false;
  }
  /// Sends what there is room for; the error, or 0.
  int flush() noexcept {
    while (begin_ != end_ && send_error_ == 0) {
      const socket_result sent = socket_write(descriptor_, out_.data() + begin_, end_ - begin_);
      send_error_ = sent.error;
      if (sent.bytes == 0) break;
      begin_ += sent.bytes;
      sent_.store(bytes_sent() + sent.bytes, std::memory_order_relaxed);
    }
    if (begin_ == end_) begin_ = end_ = 0;
    return send_error_;
  }
  bool unflushed() const { return begin_ != end_; }

  /// Bytes that the system has got, ever; any thread.
  std::uint64_t bytes_sent() const noexcept { return sent_.load(std::memory_order_relaxed); }
  /// Bytes that it has given.
  std::uint64_t bytes_received() const noexcept { return received_; }

  /// Tells the other end that nothing follows, as far as there is room.
  void finish() noexcept {
    if (!ready_ || cut_ || error() != 0) return;
    forget_errors();
    SSL_shutdown(ssl_.get());
    flush();
  }

  // ---- What has gone wrong

  /// What OpenSSL says, 0 if nothing.
  unsigned long reason() const { return reason_; }
  long verdict() const { return SSL_get_verify_result(ssl_.get()); }
  bool ended() const { return ended_; }
  /// Of either direction.
  int error() const { return error_ != 0 ? error_ : send_error_; }
  std::string what() const {
    const char* const text = reason_ == 0 ? nullptr : ERR_reason_error_string(reason_);
    return text == nullptr ? std::generic_category().message(error()) : "TLS: " + std::string(text);
  }

  /// After so many bytes the key is changed: a cipher is safe for several times as many.
  std::uint64_t rekey_bytes = std::uint64_t{1} << 36;
  std::uint64_t rekeyed() const { return rekeyed_; }

 private:
  // With all that is added to a record, and a message about keys before it.
  static constexpr std::size_t record_room = record_bytes + 512;

  struct free_ssl {
    void operator()(SSL* s) const { SSL_free(s); }
  };

  /// Of other users of OpenSSL on this thread: they would be taken for those of the next call.
  static void forget_errors() noexcept {
    if (ERR_peek_error() != 0) ERR_clear_error();
  }
  void change_key() noexcept {
    if (SSL_version(ssl_.get()) >= TLS1_3_VERSION) SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    encrypted_ = 0;
    ++rekeyed_;
  }

  /// Whether an operation has failed, and not only come too early.
  bool fail(int result) noexcept {
    const int kind = SSL_get_error(ssl_.get(), result);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) return false;
    over_ = true;
    ended_ = kind == SSL_ERROR_ZERO_RETURN || cut_;
    if (kind == SSL_ERROR_SSL && !ended_) reason_ = ERR_peek_error();
    ERR_clear_error();
    if (!ended_ && error_ == 0) error_ = EPROTO;
    return true;
  }

  static BIO_METHOD* method() {
    static BIO_METHOD* const made = [] {
      BIO_METHOD* const m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tutti");
      if (m == nullptr) throw std::bad_alloc();
      BIO_meth_set_create(m, [](BIO* bio) {
        BIO_set_init(bio, 1);
        return 1;
      });
      BIO_meth_set_read(m, [](BIO* bio, char* to, int bytes) { return of(bio).receive(bio, to, bytes); });
      BIO_meth_set_write(m, [](BIO* bio, const char* from, int bytes) { return of(bio).collect(bio, from, bytes); });
      BIO_meth_set_ctrl(m, [](BIO* bio, int what, long, void*) {
        return what == BIO_CTRL_FLUSH || (what == BIO_CTRL_EOF && of(bio).cut_) ? 1L : 0L;
      });
      return m;
    }();
    return made;
  }
  static tls_session& of(BIO* bio) { return *static_cast<tls_session*>(BIO_get_data(bio)); }

  int receive(BIO* bio, char* to, int bytes) noexcept {
    BIO_clear_retry_flags(bio);
    if (bytes <= 0) return 0;
    const socket_result got =
        socket_read(descriptor_, reinterpret_cast<std::byte*>(to), static_cast<std::size_t>(bytes));
    received_ += got.bytes;
    if (got.bytes != 0) return static_cast<int>(got.bytes);
    if (got.ended) {
      cut_ = true;
      return 0;
    }
    if (got.error == 0)
      BIO_set_retry_read(bio);
    else
      error_ = got.error;
    return -1;
  }
  int collect(BIO* bio, const char* from, int bytes) noexcept {
    BIO_clear_retry_flags(bio);
    if (bytes <= 0) return 0;
    if (out_.size() - end_ < static_cast<std::size_t>(bytes)) make_room();
    const std::size_t room = out_.size() - end_;
    const std::size_t part = room < static_cast<std::size_t>(bytes) ? room : static_cast<std::size_t>(bytes);
    if (part == 0) {
      BIO_set_retry_write(bio);
      return -1;
    }
    std::memcpy(out_.data() + end_, from, part);
    end_ += part;
    return static_cast<int>(part);
  }
  void make_room() noexcept {
    flush();
    if (begin_ == 0) return;
    std::memmove(out_.data(), out_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }

  int descriptor_;
  bool ready_ = false;
  bool holds_ = false;
  bool over_ = false;   // nothing more can be read
  bool ended_ = false;  // since the other end has ended it
  bool cut_ = false;    // the other end has ended the connection
  int error_ = 0;       // of reading, or of TLS itself
  int send_error_ = 0;
  unsigned long reason_ = 0;
  std::uint64_t encrypted_ = 0;
  std::uint64_t rekeyed_ = 0;
  std::atomic<std::uint64_t> sent_{0};
  std::uint64_t received_ = 0;
  std::unique_ptr<SSL, free_ssl> ssl_;
  owned_array<std::byte> out_;  // what is to be sent lies in [begin_, end_)
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace tutti::detail
