// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <doctest/doctest.h>

#include <dirent.h>
#include <sys/stat.h>
#include <cstdlib>

namespace test {

/// How many descriptors this process has open.
inline int open_descriptors() {
  int result = -1;  // the one that is counted with
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) std::abort();
  while (const dirent* const entry = readdir(folder)) result += entry->d_name[0] != '.';
  closedir(folder);
  return result;
}

/// How many of them are sockets: for where other threads run, which may open others at any time, as the undefined
/// sanitizer opens a pipe to find out whether memory can be read.
inline int open_sockets() {
  int result = 0;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) std::abort();
  while (const dirent* const entry = readdir(folder)) {
    struct stat what {};
    result += entry->d_name[0] != '.' && fstat(std::atoi(entry->d_name), &what) == 0 && S_ISSOCK(what.st_mode);
  }
  closedir(folder);
  return result;
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
