// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>

#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tutti::detail {

/// Runs `body(rank)` in a thread of its own for each of `size` ranks and joins them all. `failed(rank, what)` is told of a
/// body that throws, before the others are joined; the exception that came first is rethrown in the end. Threads that
/// cannot be started count as a failure of that rank.
template <class Body, class Failed>
void run_threads(int size, Body&& body, Failed&& failed) {
  std::mutex mutex;
  std::exception_ptr first;
  const auto fail = [&](int rank, const char* what) {
    {
      const std::lock_guard lock(mutex);
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
      const std::string text = message() << "run: the system refused thread " << rank << " of " << size << ": " << e.what();
      try {
        throw resource_error(text);
      } catch (...) {
        fail(rank, text.c_str());
      }
      break;
    }
  }
  for (std::thread& t : threads) t.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace tutti::detail
