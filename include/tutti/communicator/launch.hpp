// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>

#include <cstddef>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tutti::detail {

/// Runs `body(rank)` in a thread of its own for each of `size` ranks and joins them all. `failed(rank, what)` is told
/// of a body that throws, before the others are joined; in the end the exception of rank `cause()` is rethrown, or else
/// the one that came first. Threads that cannot be started count as a failure of that rank.
template <class Body, class Failed, class Cause>
void run_threads(int size, Body&& body, Failed&& failed, Cause&& cause) {
  std::mutex mutex;
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(size));
  std::exception_ptr first;
  const auto fail = [&](int rank, const char* what) {
    {
      const std::lock_guard lock(mutex);
      thrown[static_cast<std::size_t>(rank)] = std::current_exception();
      if (!first) first = std::current_exception();
    }
    failed(rank, what);
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    try {
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (const std::exception& e) {
          fail(rank, e.what());
        } catch (...) {
          fail(rank, "an exception that is no std::exception");
        }
      });
    } catch (const std::system_error& e) {
      const std::string text = message() << "run: the system refused thread " << rank << " of " << size << ": "
                                         << e.what();
      try {
        throw resource_error(text);
      } catch (...) {
        fail(rank, text.c_str());
      }
      break;
    }
  }
  for (std::thread& t : threads) t.join();
  // A rank that fails tells the others at once, but its own exception may have farther to go than those it brings
  // about.
  const int rank = cause();
  if (rank >= 0 && thrown[static_cast<std::size_t>(rank)])
    std::rethrow_exception(thrown[static_cast<std::size_t>(rank)]);
  if (first) std::rethrow_exception(first);
}

}  // namespace tutti::detail
