// SPDX-License-Identifier: BSL-1.0
#pragma once

// Somebody who connects to a rank of a job that encrypts, and is none of it.

#include <tutti/core/descriptor.hpp>
#include <tutti/transport/tcp/handshake.hpp>
#include <tutti/transport/tcp/tls_session.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "transport/tls_certificates.hpp"

namespace test {

class stranger {
 public:
  explicit stranger(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0)
      throw std::runtime_error("cannot connect");
  }

  stranger& says(const std::string& bytes) {
    static_cast<void>(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));  // it may be dropped already
    return *this;
  }
  /// Shakes hands, with that certificate or none, whatever certificate the rank has.
  stranger& speaks_tls(const identity_files* files) {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (files != nullptr &&
        (SSL_CTX_use_certificate_chain_file(context_.get(), files->certificate.c_str()) != 1 ||
         SSL_CTX_use_PrivateKey_file(context_.get(), files->private_key.c_str(), SSL_FILETYPE_PEM) != 1))
      throw std::runtime_error("cannot use the certificate");
    session_ = std::make_unique<tutti::detail::tls_session>(context_.get(), socket_.get(), false, 1);
    while (session_->handshake() == tutti::detail::tls_session::steps::wants) wait();
    return *this;
  }
  /// As a rank of another job does.
  stranger& says_hello() {
    tutti::detail::tcp_hello hello;
    hello.who = tutti::detail::tcp_credentials::of("another job", "another token");
    const auto frame = hello.encode();
    session_->encrypt(frame.data(), frame.size());
    session_->flush();
    return *this;
  }
  /// Waits until it is; false if it is told anything before.
  bool is_dropped() {
    for (;;) {
      std::byte byte{};
      tutti::detail::socket_result got =
          session_ == nullptr ? tutti::detail::socket_read(socket_.get(), &byte, 1) : session_->read(&byte, 1);
      if (got.bytes != 0) return false;
      if (got.ended || got.error != 0) return true;
      wait();
    }
  }

 private:
  struct free_context {
    void operator()(SSL_CTX* c) const { SSL_CTX_free(c); }
  };
  void wait() const {
    pollfd one{socket_.get(), POLLIN, 0};
    while (::poll(&one, 1, -1) < 0 && errno == EINTR) {
    }
  }

  tutti::detail::descriptor_owner socket_;
  std::unique_ptr<SSL_CTX, free_context> context_;
  std::unique_ptr<tutti::detail::tls_session> session_;
};

}  // namespace test
