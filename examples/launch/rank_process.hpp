// SPDX-License-Identifier: BSL-1.0
#pragma once

// The processes that launch starts, and those that they leave behind.

#include <sys/types.h>
#include <string>
#include <vector>

#include "lines.hpp"
#include "options.hpp"

/// A rank. Its process is not waited for before launch ends, so that no other gets its number, which is also that of
/// its process group.
struct rank_process {
  pid_t pid = -1;
  bool ended = false;
  int code = 0;    // of its end, or
  int signal = 0;  // what killed it
  descriptor out;
  descriptor err;

  bool failed() const { return ended && (code != 0 || signal != 0); }
};

/// What all ranks of the job are told.
class job_environment {
 public:
  job_environment();
  /// In the process of the rank.
  void set(const options& asked, int rank) const;

 private:
  std::string port_;
  std::string job_;
  std::string token_;
};

/// Starts a rank, in a process group of its own, that dies with launch. Throws std::system_error where the system
/// refuses to, and `cannot_run`.
rank_process start(const options& asked, int rank, const job_environment& environment);

/// The command cannot be run; the exit code is that of a shell.
struct cannot_run {
  int error;
  int code() const;
};

/// From here on, ranks are on a host of their own, as far as IPC namespaces tell. Throws std::system_error.
void enter_new_host();

/// Looks whether it has ended.
void look(rank_process& rank);

/// The children of this process that are none of these: what ranks have left behind when they ended.
std::vector<pid_t> left_behind(const std::vector<rank_process>& ranks);
