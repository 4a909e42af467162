// SPDX-License-Identifier: BSL-1.0

// What launchers say: who is believed, what is refused, and which processes belong to one job.

#include <tutti/communicator/environment.hpp>
#include <tutti/communicator/launch_kind.hpp>

#include <doctest/doctest.h>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <string>
#include <string_view>

#include "communicator/outcome.hpp"
#include "communicator/variables.hpp"

namespace {

using test::variables;
using test::with;

tutti::launched read(const variables& set) { return tutti::from_environment(test::lookup_in(set)); }

/// The text of the usage error that reading ends in.
std::string refusal(const variables& set) {
  const test::outcome o = test::outcome_of([&] { read(set); });
  CHECK(o.kind == "usage_error");
  return o.text;
}

const variables torch{{"RANK", "5"},
                      {"WORLD_SIZE", "8"},
                      {"LOCAL_RANK", "1"},
                      {"LOCAL_WORLD_SIZE", "4"},
                      {"TORCHELASTIC_RUN_ID", "none"},
                      {"MASTER_ADDR", "127.0.0.1"},
                      {"MASTER_PORT", "29500"}};
// What mpirun of Open MPI 4.1.4 sets, as far as it is read.
const variables open_mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"OMPI_MCA_ess_base_jobid", "5701633"},
                         {"OMPI_MCA_orte_precondition_transports", "58fae736c5825a76-e99015ab162eeb48"},
                         {"PMIX_NAMESPACE", "5701633"},
                         {"PMIX_RANK", "1"}};
// What mpirun of MPICH 4.0.2 sets, but for the numbers of its sockets.
const variables mpich{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};
const variables slurm{{"SLURM_PROCID", "6"},
                      {"SLURM_NTASKS", "7"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURM_JOB_ID", "4711"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_NODEID", "3"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}};
const variables by_hand{{"TUTTI_RANK", "2"}, {"TUTTI_SIZE", "3"}, {"TUTTI_JOB", "mine"}};

struct expected {
  const variables* set;
  int rank, size, local_rank, local_size;
  const char* source;
};
const expected launchers[] = {{&by_hand, 2, 3, -1, -1, "TUTTI_RANK, TUTTI_SIZE"},
                              {&torch, 5, 8, 1, 4, "RANK, WORLD_SIZE"},
                              {&open_mpi, 1, 2, 1, 2, "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE"},
                              {&mpich, 0, 2, 0, 2, "PMI_RANK, PMI_SIZE"},
                              {&slurm, 6, 7, 0, 1, "SLURM_PROCID, SLURM_NTASKS"}};

void check(const tutti::launched& told, const expected& e) {
  CAPTURE(e.source);
  CHECK(told.rank == e.rank);
  CHECK(told.size == e.size);
  CHECK(told.local_rank == e.local_rank);
  CHECK(told.local_size == e.local_size);
  CHECK(told.source == e.source);
}

}  // namespace

TEST_CASE("each launcher's variables are read") {
  for (const expected& e : launchers) check(read(*e.set), e);
}

TEST_CASE("where several launchers speak, what was set on purpose and what runs inside is believed") {
  variables all;
  for (const expected& outer : launchers) all = with(all, *outer.set);
  for (const expected& e : launchers) {  // each is believed once those before it are gone
    tutti::launched told = read(all);
    check(told, e);
    for (const auto& [name, value] : *e.set) all.erase(name);
  }
}

TEST_CASE("the name of the job") {
  CHECK(read(by_hand).job == "TUTTI_JOB=mine");
  CHECK(read(torch).job == "TORCHELASTIC_RUN_ID=none MASTER_ADDR=127.0.0.1 MASTER_PORT=29500");
  CHECK(read(slurm).job == "SLURM_JOB_ID=4711 SLURM_STEP_ID=0");
  CHECK(read(with(mpich, {{"PMI_JOBID", "4711.0"}})).job == "PMI_JOBID=4711.0");
  CHECK(read(open_mpi).job.starts_with("PMIX_NAMESPACE=5701633 OMPI_MCA_ess_base_jobid=5701633 transports key #"));
  SUBCASE("TUTTI_JOB overrules every launcher's own") {
    for (const expected& e : launchers) CHECK(read(with(*e.set, {{"TUTTI_JOB", "x"}})).job == "TUTTI_JOB=x");
  }
  SUBCASE("the ranks of one job agree on it") {
    CHECK(read(with(torch, {{"RANK", "0"}, {"LOCAL_RANK", "0"}})).job == read(torch).job);
    CHECK(read(with(open_mpi, {{"OMPI_COMM_WORLD_RANK", "0"}, {"PMIX_RANK", "0"}})).job == read(open_mpi).job);
    CHECK(read(with(slurm, {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "1"}})).job ==
          read(slurm).job);
  }
  SUBCASE("another job has another") {
    CHECK(read(with(torch, {{"MASTER_PORT", "29501"}})).job != read(torch).job);
    CHECK(read(with(torch, {{"TORCHELASTIC_RUN_ID", "other"}})).job != read(torch).job);
    CHECK(read(with(open_mpi, {{"OMPI_MCA_ess_base_jobid", "1"}})).job != read(open_mpi).job);
    CHECK(read(with(open_mpi, {{"OMPI_MCA_orte_precondition_transports", "0-0"}})).job != read(open_mpi).job);
    CHECK(read(with(slurm, {{"SLURM_STEP_ID", "1"}})).job != read(slurm).job);
  }
  SUBCASE("a key is not shown") {
    CHECK_FALSE(test::contains(read(open_mpi).job, "58fae736c5825a76"));
    CHECK_FALSE(test::contains(read(open_mpi).job, "e99015ab162eeb48"));
  }
}

TEST_CASE("where no variable tells the job, it is the parent process and its start") {
  const std::string parent = tutti::detail::named_process("parent process", getppid());
  CHECK(parent.starts_with("parent process " + std::to_string(getppid()) + " started at tick "));
  CHECK(test::contains("0123456789", parent.substr(parent.size() - 1)));
  CHECK(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).job == parent);
  CHECK(read({{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}, {"TUTTI_JOB", ""}}).job == parent);
  CHECK(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}).job == parent);
  CHECK(read(mpich).job == parent);
  CHECK(read(with(mpich, {{"PMI_FD", "-1"}})).job == parent);
  CHECK(read(with(mpich, {{"PMI_FD", "999999"}})).job == parent);

  // Children of one process find the same name for it, which here is this process.
  for (int child = 0; child < 2; ++child) {
    const std::string mine = tutti::detail::named_process("parent process", getpid());
    const pid_t id = fork();
    REQUIRE(id >= 0);
    if (id == 0) _exit(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).job == mine ? 0 : 1);
    int status = -1;
    REQUIRE(waitpid(id, &status, 0) == id);
    CHECK(status == 0);
  }
}

TEST_CASE("a PMI process manager is known by its socket, also behind a wrapper") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const std::string manager = tutti::detail::named_process("PMI process manager", getpid());
  const variables rank = with(mpich, {{"PMI_FD", std::to_string(ends[1])}});
  CHECK(read(rank).job == manager);
  const pid_t wrapper = fork();
  REQUIRE(wrapper >= 0);
  if (wrapper == 0) {
    const pid_t wrapped = fork();
    if (wrapped == 0) _exit(read(rank).job == manager ? 0 : 1);
    int status = -1;
    _exit(wrapped > 0 && waitpid(wrapped, &status, 0) == wrapped && status == 0 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(wrapper, &status, 0) == wrapper);
  CHECK(status == 0);
  close(ends[0]);
  close(ends[1]);

  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  CHECK(tutti::detail::maker_of_socket(pipe_ends[0]) == 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_CASE("the start of a process is the 22nd field, whatever its name is") {
  using tutti::detail::start_time_in;
  CHECK(start_time_in("7 (cat) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 4711 23\n") == "4711");
  CHECK(start_time_in("7 (a) b) (c 1) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 4711\n") == "4711");
  CHECK(start_time_in("7 (cat) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21").empty());
  CHECK(start_time_in("7 cat S").empty());
  CHECK(start_time_in("").empty());
  CHECK(tutti::detail::start_time_of(0) == "unknown");
}

TEST_CASE("C11 a value that is no number or out of range is named, and what was expected") {
  const std::string any = "expected a whole number from 0 to 2147483647";
  for (const char* const value : {"", "abc", "-1", "+1", " 1", "1 ", "1.0", "0x1", "2147483648", "99999999999999999999",
                                  "18446744073709551617"}) {
    CAPTURE(value);
    const std::string text = refusal(with(torch, {{"RANK", value}}));
    CHECK(test::contains(text, "RANK is \"" + std::string(value) + "\", " + any));
  }
  for (const char* const value : {"", "abc", "0", "-3", "2147483648"}) {
    CAPTURE(value);
    CHECK(
        test::contains(refusal(with(slurm, {{"SLURM_NTASKS", value}})),
                       "SLURM_NTASKS is \"" + std::string(value) + "\", expected a whole number from 1 to 2147483647"));
  }
  CHECK(test::contains(refusal(with(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "x"}})),
                       "OMPI_COMM_WORLD_LOCAL_RANK is \"x\", " + any));
  const tutti::launched largest = read({{"RANK", "2147483646"}, {"WORLD_SIZE", "2147483647"}});
  CHECK(largest.rank == 2147483646);
  CHECK(largest.size == 2147483647);
  CHECK(read(with(torch, {{"RANK", "007"}})).rank == 7);
}

TEST_CASE("ranks are below sizes") {
  CHECK(test::contains(refusal(with(torch, {{"RANK", "8"}})),
                       "RANK is \"8\", expected less than WORLD_SIZE, which is 8"));
  CHECK(test::contains(refusal(with(by_hand, {{"TUTTI_SIZE", "1"}})),
                       "TUTTI_RANK is \"2\", expected less than TUTTI_SIZE, which is 1"));
  CHECK(test::contains(refusal(with(torch, {{"LOCAL_RANK", "4"}})),
                       "LOCAL_RANK is \"4\", expected less than LOCAL_WORLD_SIZE, which is 4"));
  CHECK(test::contains(refusal(with(torch, {{"LOCAL_WORLD_SIZE", "9"}})),
                       "LOCAL_WORLD_SIZE is \"9\", expected at most WORLD_SIZE, which is 8"));
  CHECK(test::contains(refusal(with(slurm, {{"SLURM_LOCALID", "7"}})),
                       "SLURM_LOCALID is \"7\", expected less than SLURM_NTASKS, which is 7"));
}

TEST_CASE("one variable of a pair alone is a mistake, unless another launcher tells both") {
  CHECK(test::contains(refusal({{"RANK", "3"}}), "RANK is \"3\", but WORLD_SIZE is not set, expected both"));
  CHECK(test::contains(refusal({{"WORLD_SIZE", "4"}}), "WORLD_SIZE is \"4\", but RANK is not set, expected both"));
  CHECK(test::contains(refusal({{"SLURM_NTASKS", "4"}}), "SLURM_NTASKS is \"4\", but SLURM_PROCID is not set"));
  CHECK(read(with(open_mpi, {{"RANK", "7"}})).rank == 1);
  CHECK(test::contains(refusal(with(open_mpi, {{"TUTTI_RANK", "7"}})), "TUTTI_SIZE is not set, expected both"));
  CHECK(test::contains(refusal(with(torch, {{"TUTTI_SIZE", "7"}})), "TUTTI_RANK is not set, expected both"));
}

TEST_CASE("without a launcher the error lists what was looked for") {
  const std::string text = refusal({{"TUTTI_JOB", "mine"}, {"HOME", "/"}});
  for (const char* const name : {"TUTTI_RANK", "TUTTI_SIZE", "RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                                 "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID", "SLURM_NTASKS"}) {
    CAPTURE(name);
    CHECK(test::contains(text, name));
  }
}

TEST_CASE("Slurm's list of tasks on each node") {
  const auto here = [](const char* list, const char* node) {
    return read(with(slurm, {{"SLURM_STEP_TASKS_PER_NODE", list}, {"SLURM_NODEID", node}})).local_size;
  };
  CHECK(here("7", "0") == 7);
  CHECK(here("2(x3),1", "0") == 2);
  CHECK(here("2(x3),1", "2") == 2);
  CHECK(here("2(x3),1", "3") == 1);
  CHECK(here("1,3(x2)", "1") == 3);
  for (const char* const list : {"", "x", "2(x", "2(x)", "(x2)", "2(x3", "2;1", "2(x3),"}) {
    CAPTURE(list);
    CHECK(here(list, "3") == -1);
  }
  CHECK(here("2(x3),1", "4") == -1);
  CHECK(here("2(x3),1", "") == -1);
}

TEST_CASE("how ranks talk follows from what their launcher says") {
  using tutti::detail::launch_kind;
  const auto kind_of = [](const variables& set, bool with_mpi = false) {
    return tutti::detail::launch_kind_of(test::lookup_in(set), with_mpi);
  };
  const variables by_torch{{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
  const variables by_mpirun{
      {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  const variables by_srun{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_NODEID", "0"}};
  const variables by_a_shell{{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "4"}};
  CHECK(kind_of({}) == launch_kind::alone);
  CHECK(kind_of({}, true) == launch_kind::alone);
  CHECK(kind_of({{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "1"}}) == launch_kind::alone);
  CHECK(kind_of(with(by_torch, {{"LOCAL_WORLD_SIZE", "4"}})) == launch_kind::processes);
  CHECK(kind_of(with(by_torch, {{"LOCAL_WORLD_SIZE", "2"}})) == launch_kind::hosts);
  CHECK(kind_of(by_torch) == launch_kind::hosts);
  CHECK(kind_of(by_mpirun) == launch_kind::processes);
  CHECK(kind_of(by_mpirun, true) == launch_kind::mpi);
  CHECK(kind_of(with(by_mpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})) == launch_kind::hosts);
  CHECK(kind_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, true) == launch_kind::mpi);
  CHECK(kind_of(with(by_srun, {{"SLURM_STEP_TASKS_PER_NODE", "4"}})) == launch_kind::processes);
  CHECK(kind_of(with(by_srun, {{"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}})) == launch_kind::hosts);
  CHECK(kind_of(by_srun, true) == launch_kind::hosts);
  CHECK(kind_of(by_a_shell) == launch_kind::processes);
  CHECK(kind_of(with(by_a_shell, {{"MASTER_ADDR", "node1"}})) == launch_kind::hosts);
  CHECK_THROWS_AS(kind_of({{"TUTTI_RANK", "0"}}), tutti::usage_error);
  CHECK_THROWS_AS(kind_of({{"RANK", "4"}, {"WORLD_SIZE", "4"}}), tutti::usage_error);
}

TEST_CASE("an MPI that knows of one rank was started by a launcher that knows of more") {
  const auto by = [](const variables& set, bool linked_with) {
    return tutti::detail::launcher_of_more_ranks(test::lookup_in(set), linked_with);
  };
  const auto* const none = static_cast<const tutti::detail::launcher_variables*>(nullptr);
  for (const bool linked_with_open_mpi : {false, true}) {
    CAPTURE(linked_with_open_mpi);
    CHECK(by({}, linked_with_open_mpi) == none);
    CHECK(by(slurm, linked_with_open_mpi) == none);  // a script of several tasks may start one
    CHECK(by(open_mpi, linked_with_open_mpi) == &tutti::detail::open_mpi_variables);
    CHECK(by(mpich, linked_with_open_mpi) == &tutti::detail::pmi_variables);
    CHECK(by({{"PMI_SIZE", "1"}, {"OMPI_COMM_WORLD_SIZE", "1"}}, linked_with_open_mpi) == none);
  }
  // One rank that its own launcher has started inside one rank of the other's.
  CHECK(by(with(mpich, {{"OMPI_COMM_WORLD_SIZE", "1"}}), true) == none);
  CHECK(by(with(open_mpi, {{"PMI_SIZE", "1"}}), false) == none);
}

TEST_CASE("the environment of this process is what is read by default") {
  // What it says is the caller's affair; that both ways say the same is ours.
  const auto described = [](auto&& reading) {
    try {
      const tutti::launched l = reading();
      return std::to_string(l.rank) + "/" + std::to_string(l.size) + " " + l.job + " " + l.source;
    } catch (const tutti::usage_error& e) {
      return std::string(e.what());
    }
  };
  CHECK(described([] { return tutti::from_environment(); }) ==
        described([] { return tutti::from_environment([](const char* name) { return std::getenv(name); }); }));
}
