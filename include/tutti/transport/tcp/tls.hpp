// SPDX-License-Identifier: BSL-1.0
#pragma once

// Connections that are encrypted, and whose ends show each other certificates.

#include <tutti/core/descriptor.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/tcp/check_options.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp/plain.hpp>
#include <tutti/transport/tcp/tls_session.hpp>
#include <tutti/transport/tcp/tls_socket.hpp>
#include <tutti/transport/tcp/tls_wire.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <asio/error_code.hpp>
#include <asio/ssl/context.hpp>

#include <fcntl.h>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace tutti::detail {

/// TLS 1.3 with certificates on both sides: whoever has none that one of the authorities signed, and that is valid now,
/// is let in nowhere. Names in certificates are not looked at, since ranks are reached by addresses: the authority
/// says who may belong to a job, job and token who does.
class tcp_tls_security {
 public:
  using socket = tcp_tls_socket;
  using wire = tcp_tls_wire;

  /// Reads the files. Throws `usage_error` naming the one that is missing or wrong, or if others would not accept the
  /// certificate either.
  static tcp_tls_security of(const tcp_options& o) {
    check_files(o);
    tcp_tls_security made;
    made.files_ = std::make_shared<files>(o);
    SSL_CTX* const context = made.native();
    asio::error_code wrong;
    SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return 0; });  // nobody is asked
    made.files_->context.use_certificate_chain_file(o.certificate, wrong);
    if (wrong) refuse(o, certificate_is(o), "certificates in PEM format", wrong);
    made.files_->context.use_private_key_file(o.private_key, asio::ssl::context::pem, wrong);
    if (wrong) refuse(o, key_is(o), "the key of the certificate in PEM format, not encrypted", wrong);
    made.files_->context.load_verify_file(o.authority, wrong);
    if (wrong) refuse(o, authority_is(o), "certificates in PEM format", wrong);
    made.files_->context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert, wrong);
    const bool good = !wrong && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1;
    if (!good) throw resource_error(tcp_text(o) << "OpenSSL does not offer TLS 1.3");
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 0);  // nothing is sent that nobody reads
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_mode(context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_AUTO_RETRY);
    check_own_certificate(o, context);
    return made;
  }

  /// Shakes hands; calls `handler(error)` when each end has accepted the other, as far as it knows: the client hears
  /// of being refused when it reads next.
  template <class Handler>
  void async_secure(socket& s, tcp_side side, Handler&& handler) const {
    TUTTI_FAULT_POINT("tcp.tls.handshake");
    s.async_handshake(native(), side == tcp_side::server, std::forward<Handler>(handler));
  }

  /// What this end has against the other, or the other against this one; empty if nothing is known.
  [[gnu::cold]] std::string objection(const socket& s) const {
    using greetings = socket::greetings;
    if (s.greeting() == greetings::by_plain_rank) return "is a rank that does not use TLS, expected " + expected();
    const tls_session* const session = s.session();
    if (session == nullptr) return {};
    const int reason = ERR_GET_REASON(session->reason());
    const std::string why = session->reason() == 0 ? std::string() : session->what();
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
      return message() << "has a certificate that is not accepted ("
                       << X509_verify_cert_error_string(session->verdict()) << "), expected " << expected();
    if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) return "has no certificate, expected " + expected();
    if (is_about_certificate(reason))
      return message() << "does not accept the certificate \"" << files_->certificate
                       << "\" (TUTTI_TLS_CERTIFICATE): " << why
                       << "; is it signed by the authority that is expected there?";
    if (session->client() && !session->ready()) {
      if (session->reason() != 0) return "does not speak TLS as a rank does (" + why + ")";
      if (session->ended() || session->error() != 0)
        return "ended the connection in the TLS handshake, as whoever does not use TLS does";
      return "does not go on with the TLS handshake";
    }
    return session->reason() == 0 ? std::string() : "broke off (" + why + ")";
  }
  static const char* objection(const std::byte*) { return nullptr; }
  static socket_result peek(socket& s) noexcept { return s.session()->peek(); }

 private:
  struct files {
    explicit files(const tcp_options& o)
        : context(asio::ssl::context::tls), certificate(o.certificate), authority(o.authority) {}
    asio::ssl::context context;
    std::string certificate;
    std::string authority;
  };

  static message quoted(const char* what, const std::string& file) {
    return message() << what << " is \"" << file << "\"";
  }
  static message certificate_is(const tcp_options& o) {
    return quoted("certificate (TUTTI_TLS_CERTIFICATE)", o.certificate);
  }
  static message key_is(const tcp_options& o) { return quoted("private_key (TUTTI_TLS_KEY)", o.private_key); }
  static message authority_is(const tcp_options& o) { return quoted("authority (TUTTI_TLS_AUTHORITY)", o.authority); }

  [[noreturn]] static void refuse(const tcp_options& o, const message& what, const char* expected,
                                  const asio::error_code& wrong) {
    ERR_clear_error();
    throw usage_error(tcp_text(o) << what.str() << ", expected " << expected << " (" << wrong.message() << ")");
  }
  static void check_files(const tcp_options& o) {
    const std::pair<const std::string*, message> all[] = {
        {&o.certificate, certificate_is(o)}, {&o.private_key, key_is(o)}, {&o.authority, authority_is(o)}};
    for (const auto& [file, text] : all)
      if (file->empty())
        throw usage_error(tcp_text(o) << text.str()
                                      << ", expected a file: run_tcp_tls needs certificate, private_key and authority");
    for (const auto& [file, text] : all) {
      const descriptor_owner opened(::open(file->c_str(), O_RDONLY | O_CLOEXEC));
      if (!opened)
        throw usage_error(tcp_text(o) << text.str() << ", expected a file that can be read ("
                                      << std::generic_category().message(errno) << ")");
    }
  }
  /// Whether others, who have the same authority, will accept it.
  static void check_own_certificate(const tcp_options& o, SSL_CTX* context) {
    struct free_store {
      void operator()(X509_STORE_CTX* s) const { X509_STORE_CTX_free(s); }
    };
    STACK_OF(X509)* between = nullptr;
    SSL_CTX_get0_chain_certs(context, &between);
    for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
      const std::unique_ptr<X509_STORE_CTX, free_store> check(X509_STORE_CTX_new());
      if (check == nullptr || X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(context),
                                                  SSL_CTX_get0_certificate(context), between) != 1)
        throw std::bad_alloc();
      X509_STORE_CTX_set_purpose(check.get(), purpose);
      if (X509_verify_cert(check.get()) == 1) continue;
      const int wrong = X509_STORE_CTX_get_error(check.get());
      ERR_clear_error();
      throw usage_error(tcp_text(o) << certificate_is(o).str() << ", which no rank would accept ("
                                    << X509_verify_cert_error_string(wrong) << "), expected one that is valid now, for "
                                    << "servers and clients, and signed by the authority in \"" << o.authority
                                    << "\" (TUTTI_TLS_AUTHORITY)");
    }
  }
  /// Whether it is what the other end says that does not like this end's certificate.
  static bool is_about_certificate(int reason) {
    const int alert = reason - SSL_AD_REASON_OFFSET;
    return alert == SSL_AD_CERTIFICATE_REQUIRED || alert == SSL_AD_UNKNOWN_CA ||
           (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN);
  }

  std::string expected() const {
    return "one signed by the authority in \"" + files_->authority + "\" (TUTTI_TLS_AUTHORITY)";
  }
  SSL_CTX* native() const { return files_->context.native_handle(); }

  std::shared_ptr<files> files_;
};

}  // namespace tutti::detail
