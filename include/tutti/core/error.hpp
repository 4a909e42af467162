// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>

namespace tutti {

/// What kind of thing went wrong. Every exception of the library carries one of these as its `code()`.
enum class errc {
  usage = 1,    ///< one rank can see that the call is wrong; nothing was sent
  mismatch,     ///< only the group can see it: the ranks called different things
  peer_failed,  ///< a rank threw, died or left while others waited for it
  timed_out,    ///< the communicator's deadline passed
  resource      ///< the system refused memory, threads, descriptors
};

namespace detail {
class category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "tutti"; }
  std::string message(int value) const override {
    switch (static_cast<errc>(value)) {
      case errc::usage:
        return "wrong use";
      case errc::mismatch:
        return "ranks disagree";
      case errc::peer_failed:
        return "peer failed";
      case errc::timed_out:
        return "timed out";
      case errc::resource:
        return "out of resources";
    }
    return "unknown error";
  }
};
}  // namespace detail

/// The category of `errc` values.
inline const std::error_category& error_category() noexcept {
  static const detail::category instance;
  return instance;
}

/// Makes `errc` usable as `std::error_code`.
inline std::error_code make_error_code(errc code) noexcept { return {static_cast<int>(code), error_category()}; }

/// Base of every exception of the library. The message names the call, the rank, the peer and the values.
class error : public std::system_error {
 public:
  error(errc code, const std::string& message) : std::system_error(make_error_code(code), message) {}
};

/// The call is wrong in a way that this rank alone can see. Nothing was sent; the communicator stays usable.
class usage_error : public error {
 public:
  explicit usage_error(const std::string& message) : error(errc::usage, message) {}
};

/// The ranks' calls do not fit together. Every rank of the communicator throws the same text, which names both sides'
/// values and call sites; the communicator is unusable afterwards.
class mismatch : public error {
 public:
  explicit mismatch(const std::string& message) : error(errc::mismatch, message) {}
};

/// Another rank threw, died, or left while it was waited for. The communicator is unusable afterwards.
class peer_failed : public error {
 public:
  peer_failed(int peer, const std::string& message) : error(errc::peer_failed, message), peer_(peer) {}
  /// The rank that failed.
  int peer() const noexcept { return peer_; }

 private:
  int peer_;
};

/// The communicator's deadline passed. Every rank throws it, naming who was late and where.
class timed_out : public error {
 public:
  timed_out(int peer, const std::string& message) : error(errc::timed_out, message), peer_(peer) {}
  /// The rank that was late.
  int peer() const noexcept { return peer_; }

 private:
  int peer_;
};

/// The system refused something the library needs.
class resource_error : public error {
 public:
  explicit resource_error(const std::string& message) : error(errc::resource, message) {}
};

/// Why a communicator became unusable: kept once for the group, thrown on every rank.
struct failure {
  errc kind = errc::peer_failed;
  int peer = -1;
  std::string text;

  /// Throws the exception that `kind` stands for.
  [[noreturn]] void raise() const {
    switch (kind) {
      case errc::mismatch:
        throw mismatch(text);
      case errc::timed_out:
        throw timed_out(peer, text);
      case errc::resource:
        throw resource_error(text);
      case errc::usage:
        throw usage_error(text);
      case errc::peer_failed:
        break;
    }
    throw peer_failed(peer, text);
  }
};

namespace detail {

/// To be called where an exception is handled: `tell(what)` is told what it says, and it goes on.
template <class Tell>
[[noreturn, gnu::cold, gnu::noinline]] void tell_and_rethrow(Tell&& tell) {
  try {
    throw;
  } catch (const std::exception& e) {
    tell(e.what());
    throw;
  } catch (...) {
    tell("an exception that is no std::exception");
    throw;
  }
}

}  // namespace detail

}  // namespace tutti

template <>
struct std::is_error_code_enum<tutti::errc> : std::true_type {};
