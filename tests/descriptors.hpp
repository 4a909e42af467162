// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <doctest/doctest.h>

#include <dirent.h>
#include <sys/stat.h>
#include <cstdlib>

namespace test {

/// How many descriptors this process has open of which `which(descriptor)` is true.
template <class Which>
int count_descriptors(Which&& which) {
  int result = 0;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) std::abort();
  while (const dirent* const entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    const int descriptor = std::atoi(entry->d_name);
    result += descriptor != dirfd(folder) && which(descriptor);
  }
  closedir(folder);
  return result;
}

inline int open_descriptors() {
  return count_descriptors([](int) { return true; });
}

/// For where other threads run, which may open others at any time, as the undefined sanitizer opens a pipe to find out
/// whether memory can be read.
inline int open_sockets() {
  return count_descriptors([](int descriptor) {
    struct stat what {};
    return fstat(descriptor, &what) == 0 && S_ISSOCK(what.st_mode);
  });
}

/// Checks in the end that no descriptor has been left open.
class no_leak {
 public:
  no_leak() = default;
  no_leak(const no_leak&) = delete;
  no_leak& operator=(const no_leak&) = delete;
  ~no_leak() { CHECK(open_descriptors() == before_); }

 private:
  int before_ = open_descriptors();
};

}  // namespace test
