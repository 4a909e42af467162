// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/descriptor.hpp>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <fcntl.h>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace tutti::detail {

/// Waits on the service thread until a data connection can be written to. The connection's descriptor is unknown to
/// Asio, so that what arrives on it wakes nobody but who waits for it; this watches a copy, for as long as it takes.
class tcp_flusher {
 public:
  tcp_flusher(asio::io_context& io, int size) : io_(&io), waits_(static_cast<std::size_t>(size)) {}

  /// Calls `ready()` once the connection to that rank can be written to. One at a time for each rank.
  template <class Ready>
  void await(int rank, int descriptor, Ready ready) {
    wait& w = waits_[static_cast<std::size_t>(rank)];
    descriptor_owner copy(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    if (copy) {
      asio::error_code wrong;
      w.writer = std::make_unique<asio::posix::stream_descriptor>(*io_);
      w.writer->assign(copy.get(), wrong);
      if (!wrong) {
        copy.release();
        w.writer->async_wait(asio::posix::stream_descriptor::wait_write, [&w, ready](const asio::error_code& ended) {
          if (ended) return;
          w.writer.reset();
          ready();
        });
        return;
      }
      w.writer.reset();
    }
    // No descriptor to be had: it looks again and again.
    w.timer = std::make_unique<asio::steady_timer>(*io_, nap);
    w.timer->async_wait([&w, ready](const asio::error_code& ended) {
      if (ended) return;
      w.timer.reset();
      ready();
    });
  }
  /// Nothing is waited for any more.
  void close() noexcept {
    for (wait& w : waits_) {
      w.writer.reset();
      w.timer.reset();
    }
  }

 private:
  struct wait {
    std::unique_ptr<asio::posix::stream_descriptor> writer;
    std::unique_ptr<asio::steady_timer> timer;
  };
  static constexpr std::chrono::milliseconds nap{1};

  asio::io_context* io_;
  std::vector<wait> waits_;
};

}  // namespace tutti::detail
