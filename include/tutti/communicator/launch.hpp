// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>

#include <pthread.h>
#include <cstddef>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <type_traits>

namespace tutti::detail {

/// The exceptions of the ranks of one `run`.
class rank_exceptions {
 public:
  explicit rank_exceptions(int size) : of_(static_cast<std::size_t>(size)) {}

  /// Keeps the exception that is being handled as that of the rank.
  [[gnu::cold]] void keep(int rank) noexcept {
    const std::lock_guard lock(mutex_);
    of_[static_cast<std::size_t>(rank)] = std::current_exception();
    if (!first_) first_ = of_[static_cast<std::size_t>(rank)];
  }

  /// Rethrows that of the rank, or else the one that came first; returns if there is none. A rank that fails tells the
  /// others at once, but its own exception may have farther to go than those it brings about.
  void rethrow(int rank) {
    if (rank >= 0 && of_[static_cast<std::size_t>(rank)]) std::rethrow_exception(of_[static_cast<std::size_t>(rank)]);
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  owned_array<std::exception_ptr> of_;
  std::exception_ptr first_;
};

/// One rank's thread and what it does.
template <class Body, class Failed>
struct rank_thread {
  pthread_t id{};
  int rank = 0;
  Body* body = nullptr;
  Failed* failed = nullptr;
  rank_exceptions* exceptions = nullptr;

  void work() noexcept {
    try {
      (*body)(rank);
    } catch (const std::exception& e) {
      fail(e.what());
    } catch (...) {
      fail("an exception that is no std::exception");
    }
  }
  /// Called while an exception is being handled.
  void fail(const char* what) {
    exceptions->keep(rank);
    (*failed)(rank, what);
  }
  /// Zero, or the number of the error. A std::thread is this too, but takes much longer to compile.
  int start() { return pthread_create(&id, nullptr, enter, this); }
  static void* enter(void* self) {
    static_cast<rank_thread*>(self)->work();
    return nullptr;
  }
};

/// Runs `body(rank)` in a thread of its own for each of `size` ranks and joins them all. `failed(rank, what)` is told
/// of a body that throws, before the others are joined; in the end the exception of rank `cause()` is rethrown, or else
/// the one that came first. Threads that cannot be started count as a failure of that rank.
template <class Body, class Failed, class Cause>
void run_threads(int size, Body&& body, Failed&& failed, Cause&& cause) {
  using thread = rank_thread<std::remove_reference_t<Body>, std::remove_reference_t<Failed>>;
  rank_exceptions exceptions(size);
  owned_array<thread> threads(static_cast<std::size_t>(size));
  int started = 0;
  for (; started < size; ++started) {
    thread& t = threads[static_cast<std::size_t>(started)];
    t.rank = started;
    t.body = &body;
    t.failed = &failed;
    t.exceptions = &exceptions;
    const int refused = t.start();
    if (refused == 0) continue;
    const std::string text = message() << "run: the system refused thread " << started << " of " << size << ": "
                                       << std::generic_category().message(refused);
    try {
      throw resource_error(text);
    } catch (const resource_error&) {
      t.fail(text.c_str());
    }
    break;
  }
  for (int rank = 0; rank < started; ++rank) pthread_join(threads[static_cast<std::size_t>(rank)].id, nullptr);
  exceptions.rethrow(cause());
}

}  // namespace tutti::detail
