// SPDX-License-Identifier: BSL-1.0
#pragma once

// This file answers: how do the ranks of a library without a launcher of its own start? As processes, forked before
// anything else happens, which end together.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <vector>

namespace measure {

/// Calls `rank(r)` for every r below `ranks`, each in a process of its own. Returns the greatest exit code: 0, 1 where
/// a rank threw or was killed, 2 where it threw std::invalid_argument. When one fails, the others are ended.
template <class Rank>
int in_processes(int ranks, Rank rank) {
  std::vector<pid_t> running;
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const auto end_all = [&] {
    for (const pid_t pid : running) kill(pid, SIGKILL);
  };
  for (int r = 0; r < ranks; ++r) {
    const pid_t pid = fork();
    if (pid < 0) {
      const int error = errno;
      end_all();
      throw std::system_error(error, std::generic_category(), "fork for rank " + std::to_string(r));
    }
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      int code = 0;
      try {
        rank(r);
      } catch (const std::invalid_argument& error) {
        if (r == 0) std::fprintf(stderr, "%s\n", error.what());
        code = 2;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", r, error.what());
        code = 1;
      }
      std::fflush(nullptr);
      _exit(code);
    }
    running.push_back(pid);
  }
  int worst = 0;
  while (!running.empty()) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, 0);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) break;
    running.erase(std::remove(running.begin(), running.end(), pid), running.end());
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (code != 0 && worst == 0) end_all();
    // Those that are ended here say nothing.
    if (worst == 0) worst = code;
  }
  return worst;
}

}  // namespace measure
