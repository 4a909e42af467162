// SPDX-License-Identifier: BSL-1.0
#pragma once

// How the ranks that a launcher has started are to talk, as far as what it says tells.

#include <tutti/communicator/environment.hpp>

#include <cstdlib>

namespace tutti::detail {

/// How ranks talk.
enum class launch_kind : unsigned char {
  alone,      ///< there is no launcher, or one rank
  processes,  ///< all are on one host
  hosts,      ///< they may be on several
  mpi         ///< MPI has started them, and the program is compiled with it
};

/// Decides by what `lookup(name)` finds, the value of a variable or null. Throws `usage_error` naming the variable that
/// is wrong.
template <class Lookup>
launch_kind launch_kind_of(Lookup&& lookup, bool with_mpi) {
  if (!is_launched(lookup)) return launch_kind::alone;
  const launched me = from_environment(lookup);
  const bool by_mpi = me.source.starts_with("OMPI_") || me.source.starts_with("PMI_");
  if (with_mpi && by_mpi) return launch_kind::mpi;
  if (me.size == 1) return launch_kind::alone;
  if (me.local_size != -1) return me.local_size == me.size ? launch_kind::processes : launch_kind::hosts;
  // Nobody says how many are here. Where nobody says where rank 0 is either, only one host can be meant.
  const bool elsewhere = lookup("MASTER_ADDR") != nullptr || me.source.starts_with("SLURM_");
  return elsewhere ? launch_kind::hosts : launch_kind::processes;
}

/// Which MPI's launcher says that it has started several ranks, where the MPI that the program is linked with knows of
/// one alone: null if none does. `open_mpi`: that MPI is Open MPI, else one with PMI. Its own launcher is believed
/// before the other, inside which it may have been started.
template <class Lookup>
const launcher_variables* launcher_of_more_ranks(Lookup&& lookup, bool open_mpi) {
  const launcher_variables& own = open_mpi ? open_mpi_variables : pmi_variables;
  const launcher_variables& other = open_mpi ? pmi_variables : open_mpi_variables;
  for (const launcher_variables* const each : {&own, &other})
    if (const char* const size = lookup(each->size)) return std::atoi(size) > 1 ? each : nullptr;
  return nullptr;
}

}  // namespace tutti::detail
