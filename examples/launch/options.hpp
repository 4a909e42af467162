// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

/// What the command line asks for.
struct options {
  bool help = false;
  int hosts = 1;
  int per_host = 1;
  std::chrono::milliseconds grace{5000};
  std::vector<std::string> command;

  int ranks() const { return hosts * per_host; }
};

inline constexpr char usage[] =
    "usage: launch [-n RANKS | --hosts HOSTS --per-host RANKS] [--grace SECONDS] [--] COMMAND [ARGUMENTS]\n"
    "\n"
    "Starts so many ranks of a command on this host and tells each who it is: TUTTI_RANK, TUTTI_SIZE, TUTTI_JOB,\n"
    "MASTER_ADDR and MASTER_PORT; LOCAL_RANK and LOCAL_WORLD_SIZE. Every line that a rank writes comes out whole, "
    "after\n"
    "[its rank]. When a rank fails, or launch gets SIGINT, SIGTERM, SIGHUP or SIGQUIT, all are ended. The exit code "
    "is\n"
    "that of the rank that failed first, or 128 and its signal.\n"
    "\n"
    "  -n RANKS         how many (1)\n"
    "  --hosts HOSTS    pretends that there are so many: ranks of different ones are in different IPC namespaces\n"
    "  --per-host RANKS on each of them\n"
    "  --grace SECONDS  from the signal that asks the ranks to end to SIGKILL (5)\n"
    "  --help           prints this\n";

/// Throws std::invalid_argument with one line for the user.
options parse(int argc, char** argv);
