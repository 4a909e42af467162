// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>

#include <sys/mman.h>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <new>
#include <system_error>

namespace tutti::detail {

/// Knows whether this is the process that armed it, not one made by fork() since: the kernel gives a child zeros in
/// place of its page. Costs a load.
class fork_guard {
 public:
  fork_guard() {
    void* const page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
      throw resource_error(message() << "the system refused a page of memory: "
                                     << std::generic_category().message(errno));
    // Where the system does not do it (before Linux 4.14, or valgrind), a child is not told apart.
    ::madvise(page, bytes, MADV_WIPEONFORK);
    armed_ = new (page) std::atomic<bool>(true);
  }
  fork_guard(const fork_guard&) = delete;
  fork_guard& operator=(const fork_guard&) = delete;
  ~fork_guard() { ::munmap(armed_, bytes); }

  /// The same knowledge without the page, for those that it outlives.
  class view {
   public:
    explicit view(const fork_guard& guard) noexcept : armed_(guard.armed_) {}
    bool armed() const noexcept { return armed_->load(std::memory_order_relaxed); }

   private:
    const std::atomic<bool>* armed_;
  };

  void arm() noexcept { armed_->store(true, std::memory_order_relaxed); }
  bool armed() const noexcept { return armed_->load(std::memory_order_relaxed); }
  /// Throws `usage_error`: this is not that process.
  [[noreturn, gnu::noinline, gnu::cold]] static void refuse(int rank) {
    throw usage_error(message() << "this process was made by fork() in rank " << rank
                                << " and is no rank: only the process that joined the group may use the communicator");
  }

 private:
  static constexpr std::size_t bytes = 4096;
  std::atomic<bool>* armed_;
};

}  // namespace tutti::detail
