// SPDX-License-Identifier: BSL-1.0
#pragma once

// Who a process is among those that a launcher started with it.

#include <tutti/communicator/launching_process.hpp>
#include <tutti/core/environment_variables.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>

#include <unistd.h>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tutti {

/// What a launcher says about a process that it started.
struct launched {
  int rank = 0;         ///< in `[0, size)`
  int size = 1;         ///< number of ranks of the job
  int local_rank = -1;  ///< rank among those of this host; -1 if the launcher does not tell
  int local_size = -1;  ///< number of ranks on this host; -1 if the launcher does not tell
  std::string job;      ///< the same on all ranks of the job, and another for another job, as far as the launcher tells
  std::string source;   ///< the variables that told, such as "RANK, WORLD_SIZE"
};

namespace detail {

/// The variables of one kind of launcher; null where it has none.
struct launcher_variables {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

inline constexpr launcher_variables tutti_variables{"TUTTI_RANK", "TUTTI_SIZE", nullptr, nullptr};
inline constexpr launcher_variables torch_variables{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
inline constexpr launcher_variables open_mpi_variables{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                                       "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
inline constexpr launcher_variables pmi_variables{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
inline constexpr launcher_variables slurm_variables{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr};

/// In the order in which they are believed: what was set on purpose, then what runs inside something else. An mpirun
/// inside a Slurm job sees the variables of the job's script, which say rank 0.
inline constexpr const launcher_variables* known_launchers[] = {&tutti_variables, &torch_variables, &open_mpi_variables,
                                                                &pmi_variables, &slurm_variables};

/// Reads what launchers say through `lookup(name)`, which returns the value of a variable or null.
template <class Lookup>
class launch_environment : environment_variables<Lookup> {
  using variables = environment_variables<Lookup>;
  using variables::is, variables::is_set, variables::number, variables::text;

 public:
  explicit launch_environment(Lookup& lookup) : variables(lookup) {}

  launched read() const {
    const launcher_variables& from = chosen();
    launched told;
    told.size = number(from.size, 1);
    told.rank = number(from.rank, 0);
    below(from.rank, told.rank, from.size, told.size);
    if (from.local_size != nullptr && is_set(from.local_size)) {
      told.local_size = number(from.local_size, 1);
      if (told.local_size > told.size)
        throw usage_error(is(from.local_size) << ", expected at most " << from.size << ", which is " << told.size);
    }
    if (from.local_rank != nullptr && is_set(from.local_rank)) {
      told.local_rank = number(from.local_rank, 0);
      if (told.local_size != -1)
        below(from.local_rank, told.local_rank, from.local_size, told.local_size);
      else
        below(from.local_rank, told.local_rank, from.size, told.size);
    }
    if (&from == &slurm_variables) told.local_size = slurm_tasks_here();
    told.job = job(from);
    told.source = message() << from.rank << ", " << from.size;
    return told;
  }

 private:
  /// The first launcher both of whose variables are set. One alone may stand there for another reason, so it is a
  /// mistake only where nothing better is found; not so our own.
  const launcher_variables& chosen() const {
    const launcher_variables* half = nullptr;
    for (const launcher_variables* const each : known_launchers) {
      const bool rank = is_set(each->rank);
      const bool size = is_set(each->size);
      if (rank && size) return *each;
      if ((rank || size) && half == nullptr) half = each;
      if (half == &tutti_variables) break;
    }
    if (half != nullptr) {
      const bool rank = is_set(half->rank);
      const char* const set = rank ? half->rank : half->size;
      const char* const missing = rank ? half->size : half->rank;
      throw usage_error(is(set) << ", but " << missing << " is not set, expected both");
    }
    message nothing;
    nothing << "launch from the environment: no launcher says which rank this is; looked for";
    const char* before = " ";
    for (const launcher_variables* const each : known_launchers) {
      nothing << before << each->rank << " and " << each->size;
      before = ", ";
    }
    throw usage_error(nothing);
  }

  void below(const char* name, int found, const char* limit_name, int limit) const {
    if (found >= limit) throw usage_error(is(name) << ", expected less than " << limit_name << ", which is " << limit);
  }

  /// Slurm lists the number of tasks of each node as in "2(x3),1": three nodes of 2, then one of 1.
  int slurm_tasks_here() const {
    std::string_view list = text("SLURM_STEP_TASKS_PER_NODE");
    long long node = 0;
    if (!take_number(node, text("SLURM_NODEID"))) return -1;
    while (!list.empty()) {
      long long tasks = 0;
      long long nodes = 1;
      if (!take_number(tasks, list, &list)) return -1;
      if (list.substr(0, 2) == "(x" && !take_number(nodes, list.substr(2), &list)) return -1;
      if (list.substr(0, 1) == ")") list.remove_prefix(1);
      if (node < nodes) return static_cast<int>(tasks);
      node -= nodes;
      if (list.substr(0, 1) != ",") return -1;
      list.remove_prefix(1);
    }
    return -1;
  }
  /// Reads the number that the text begins with, of at most nine digits, and tells what follows it.
  static bool take_number(long long& number, std::string_view from, std::string_view* rest = nullptr) {
    std::size_t length = 0;
    number = 0;
    while (length < from.size() && length < 9 && from[length] >= '0' && from[length] <= '9')
      number = 10 * number + (from[length++] - '0');
    if (rest != nullptr) *rest = from.substr(length);
    return length != 0;
  }

  std::string job(const launcher_variables& from) const {
    std::string told;
    add(told, "TUTTI_JOB");
    if (!told.empty()) return told;
    if (&from == &torch_variables) {
      add(told, "TORCHELASTIC_RUN_ID");
      if (!text("MASTER_PORT").empty()) {
        add(told, "MASTER_ADDR");
        add(told, "MASTER_PORT");
      }
    } else if (&from == &open_mpi_variables) {
      add(told, "PMIX_NAMESPACE");
      add(told, "OMPI_MCA_ess_base_jobid");
      // The number of a job has 16 bits that differ between jobs. This is a random key, common to the ranks, and not
      // for all to read.
      if (const std::string_view key = text("OMPI_MCA_orte_precondition_transports"); !key.empty())
        told += message() << (told.empty() ? "" : " ") << "transports key #" << digest(key);
    } else if (&from == &pmi_variables) {
      add(told, "PMI_JOBID");
      long long socket = 0;
      if (told.empty() && take_number(socket, text("PMI_FD"))) {
        const pid_t manager = maker_of_socket(static_cast<int>(socket));
        if (manager > 0) told = named_process("PMI process manager", manager);
      }
    } else if (&from == &slurm_variables) {
      add(told, "SLURM_JOB_ID");
      add(told, is_set("SLURM_STEP_ID") ? "SLURM_STEP_ID" : "SLURM_STEPID");
    }
    return told.empty() ? named_process("parent process", getppid()) : told;
  }
  void add(std::string& told, const char* name) const {
    if (text(name).empty()) return;
    told += message() << (told.empty() ? "" : " ") << name << "=" << text(name);
  }
  static std::uint64_t digest(std::string_view key) {
    std::uint64_t h = 14695981039346656037ULL;  // FNV-1a
    for (const char c : key) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return h;
  }
};

}  // namespace detail

/// Whether a launcher says anything, on purpose or not: whether a variable that tells rank or size is set.
template <class Lookup>
bool is_launched(Lookup&& lookup) {
  for (const detail::launcher_variables* const each : detail::known_launchers)
    if (lookup(each->rank) != nullptr || lookup(each->size) != nullptr) return true;
  return false;
}
/// The same from the environment of this process.
inline bool is_launched() {
  return is_launched([](const char* name) { return std::getenv(name); });
}

/// Who this process is, according to the launcher that started it: rank, size and job from the variables that
/// `lookup(name)` finds, a callable that returns the value as a `const char*`, or null.
///
/// The first complete pair is believed:
/// | launcher               | rank, size                                 | local rank, local size                     |
/// |------------------------|--------------------------------------------|--------------------------------------------|
/// | by hand                | TUTTI_RANK, TUTTI_SIZE                     |                                            |
/// | torchrun               | RANK, WORLD_SIZE                           | LOCAL_RANK, LOCAL_WORLD_SIZE               |
/// | Open MPI               | OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE | OMPI_COMM_WORLD_LOCAL_RANK, ..._LOCAL_SIZE |
/// | MPICH, Intel MPI (PMI) | PMI_RANK, PMI_SIZE                         | MPI_LOCALRANKID, MPI_LOCALNRANKS           |
/// | Slurm                  | SLURM_PROCID, SLURM_NTASKS                 | SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE   |
///
/// The job is TUTTI_JOB if that is set, else what the launcher calls it: TORCHELASTIC_RUN_ID, MASTER_ADDR and
/// MASTER_PORT; PMIX_NAMESPACE and OMPI_MCA_ess_base_jobid; PMI_JOBID, or else the process at the other end of PMI_FD;
/// SLURM_JOB_ID and SLURM_STEP_ID. Where no variable tells, it is the parent process and when that started: a shell
/// that starts all ranks. Where a wrapper that stays (timeout, a debugger) stands between such a launcher and each
/// rank, or the launcher has left, the ranks have different parents: set TUTTI_JOB then.
///
/// Throws `usage_error` that names the variable, its value and what was expected: for a value that is no number or out
/// of range, a rank that is not below the size, or one variable of a pair without the other; and one that lists the
/// variables looked for if there are none.
template <class Lookup>
launched from_environment(Lookup&& lookup) {
  return detail::launch_environment<Lookup>(lookup).read();
}

/// The same from the environment of this process. No other thread may change it meanwhile.
inline launched from_environment() {
  return from_environment([](const char* name) { return std::getenv(name); });
}

}  // namespace tutti
