// SPDX-License-Identifier: BSL-1.0
#pragma once

// Names of shared memory for as long as it has one: between the two calls that open it and take the name away.

#include <tutti/core/process.hpp>

#include <dirent.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace tutti::detail {

/// A name that says which process it belongs to, and that nobody can guess: "/tutti-PID-START-RANDOM".
class named_segment {
 public:
  named_segment() noexcept {
    unsigned char chance[16];
    if (::getrandom(chance, sizeof chance, 0) != sizeof chance) return;
    const process_identity mine = this_process();
    int at = std::snprintf(text_, sizeof text_, "/tutti-%" PRId32 "-%" PRIu64 "-", mine.pid, mine.start_time);
    for (const unsigned char c : chance) {
      text_[at++] = digits[c / 16];
      text_[at++] = digits[c % 16];
    }
    text_[at] = '\0';
  }
  /// Whether there is one: the system may have no random numbers.
  explicit operator bool() const noexcept { return text_[0] != '\0'; }
  const char* text() const noexcept { return text_; }

  /// The process that a name says, if it is such a name.
  static bool owner_of(const char* name, process_identity& owner) noexcept {
    int end = 0;
    return std::sscanf(name, "tutti-%" SCNd32 "-%" SCNu64 "-%n", &owner.pid, &owner.start_time, &end) == 2 && end > 0 &&
           std::strspn(name + end, digits) == 32 && name[end + 32] == '\0' && owner.pid > 0;
  }

 private:
  static constexpr char digits[] = "0123456789abcdef";
  char text_[96] = {};
};

/// Takes away the names that processes have left which were killed between the two calls. (One that lives where this
/// process does not see it only loses a name that it is about to take away.)
inline void remove_leftovers() noexcept {
  DIR* const folder = ::opendir("/dev/shm");
  if (folder == nullptr) return;
  while (const dirent* const entry = ::readdir(folder)) {
    process_identity owner{};
    if (!named_segment::owner_of(entry->d_name, owner) || look_for(owner) != presence::gone) continue;
    char name[sizeof entry->d_name + 1];
    std::snprintf(name, sizeof name, "/%s", entry->d_name);
    ::shm_unlink(name);
  }
  ::closedir(folder);
}

}  // namespace tutti::detail
