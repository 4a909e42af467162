// SPDX-License-Identifier: BSL-1.0

// What a program finds that the launcher of another MPI has started than the one it is linked with. MPI reads the
// environment when it begins: one of the processes that mpirun has started makes itself one of such a launcher's.

#include <tutti/run_mpi.hpp>

#include <unistd.h>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "transport/mpi_program.hpp"

namespace {

#if defined(OPEN_MPI)
constexpr tutti::detail::launcher_variables own = tutti::detail::open_mpi_variables;
constexpr tutti::detail::launcher_variables other = tutti::detail::pmi_variables;
constexpr const char* whose = "PMI_SIZE=4 says that the launcher of MPICH or another MPI with PMI has started several";
constexpr const char* linked = "but MPI_COMM_WORLD has one: the program is linked with Open MPI v";
#else
constexpr tutti::detail::launcher_variables own = tutti::detail::pmi_variables;
constexpr tutti::detail::launcher_variables other = tutti::detail::open_mpi_variables;
constexpr const char* whose = "OMPI_COMM_WORLD_SIZE=4 says that the launcher of Open MPI has started several ranks";
constexpr const char* linked = "but MPI_COMM_WORLD has one: the program is linked with MPICH Version: ";
#endif

/// As if nobody had started this process.
void forget_launcher() {
  std::vector<std::string> names;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view name = std::string_view(*each).substr(0, std::string_view(*each).find('='));
    if (name.starts_with("OMPI_ALLOW_RUN_AS_ROOT")) continue;
    for (const char* const beginning : {"OMPI_", "ORTE_", "PMIX_", "PMI_", "HYD", "MPI_LOCAL"})
      if (name.starts_with(beginning)) names.emplace_back(name);
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

}  // namespace

int main() {
  alarm(60);  // and it is killed
  if (tutti::from_environment().rank != 0) return 0;
  forget_launcher();
  setenv(other.rank, "2", 1);
  setenv(other.size, "4", 1);
  int calls = 0;
  const auto alone = [&](auto& comm) {
    test::check(comm.size() == 1, "a rank that is alone");
    ++calls;
  };
  for (const char* const part : {whose, linked}) {
    test::throws<tutti::usage_error>("run_mpi", part, [&] { tutti::run_mpi(alone); });
    test::throws<tutti::usage_error>("run_mpi on all", part, [&] { tutti::run_mpi(MPI_COMM_WORLD, alone); });
  }
  test::check(calls == 0, "nothing has run");
  tutti::run_mpi(MPI_COMM_SELF, alone);
  // Its own launcher has started one rank, inside one of the other's.
  setenv(own.rank, "0", 1);
  setenv(own.size, "1", 1);
  tutti::run_mpi(alone);
  test::check(calls == 2, "both have run");
  return test::failures;
}
