// SPDX-License-Identifier: BSL-1.0

// What launchers and the user say of a job over TCP: where rank 0 is, who belongs together, and what is refused.

#include <tutti/transport/tcp/environment.hpp>

#include <tutti/communicator/environment.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "communicator/outcome.hpp"
#include "communicator/variables.hpp"

namespace {

using test::variables;
using test::with;

tutti::tcp_options read(const variables& set) {
  const auto lookup = test::lookup_in(set);
  return tutti::detail::tcp_options_from_environment(tutti::from_environment(lookup), lookup);
}

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
                      {"MASTER_ADDR", "node1"},
                      {"MASTER_PORT", "29500"}};
const variables slurm{{"SLURM_PROCID", "6"},
                      {"SLURM_NTASKS", "7"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURM_JOB_ID", "4711"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_NODEID", "3"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                      {"SLURM_JOB_NODELIST", "gpu[07-10],login"}};
const variables open_mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "5701633"}};
const variables mpich{{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};
const variables by_hand{{"TUTTI_RANK", "2"}, {"TUTTI_SIZE", "3"}};
const variables at_loopback{{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};

}  // namespace

TEST_CASE("where torchrun listens itself rank 0 listens at the next port") {
  CHECK(read(with(torch, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).master == "node1:29501");
  CHECK(read(with(torch, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_PORT", "65535"}})).master ==
        "node1:65534");
  CHECK(read(with(torch, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).master == "node1:29500");
}

TEST_CASE("torchrun says where rank 0 is") {
  const tutti::tcp_options o = read(torch);
  CHECK(o.rank == 5);
  CHECK(o.size == 8);
  CHECK(o.local_size == 4);
  CHECK(o.master == "node1:29500");
  CHECK(o.job == "TORCHELASTIC_RUN_ID=none MASTER_ADDR=node1 MASTER_PORT=29500");
  CHECK(o.token.empty());
  CHECK(o.address.empty());
  CHECK(o.interface.empty());
  CHECK(o.first_port == 0);
  CHECK(o.last_port == 0);
  CHECK(o.listener == -1);
  CHECK(o.start_timeout == tutti::tcp_options{}.start_timeout);
  CHECK(o.heartbeat == tutti::tcp_options{}.heartbeat);
  CHECK(o.busy_poll == tutti::tcp_options{}.busy_poll);
}

TEST_CASE("C9: an IPv6 address of rank 0 needs no brackets in its own variable") {
  CHECK(read(with(torch, {{"MASTER_ADDR", "::1"}})).master == "[::1]:29500");
  CHECK(read(with(torch, {{"MASTER_ADDR", "[::1]"}})).master == "[::1]:29500");
  CHECK(read(with(torch, {{"MASTER_ADDR", "fe80::1%eth0"}})).master == "[fe80::1%eth0]:29500");
}

TEST_CASE("Slurm's first node is where rank 0 is, and the port depends on the job") {
  const tutti::tcp_options o = read(slurm);
  CHECK(o.job == "SLURM_JOB_ID=4711 SLURM_STEP_ID=0");
  CHECK(o.master == "gpu07:" + std::to_string(tutti::detail::port_of_job(o.job)));
  CHECK(o.local_size == 1);
  CHECK(read(with(slurm, {{"SLURM_STEP_NODELIST", "gpu[09-10]"}})).master.starts_with("gpu09:"));
  CHECK(read(with(slurm, {{"SLURM_JOB_ID", "4712"}})).master != o.master);
  // What is set on purpose counts, each for itself.
  CHECK(read(with(slurm, at_loopback)).master == "127.0.0.1:29500");
  CHECK(read(with(slurm, {{"MASTER_PORT", "1"}})).master == "gpu07:1");
  CHECK(read(with(slurm, {{"MASTER_ADDR", "x"}})).master.starts_with("x:"));
  const std::string text = refusal(with(slurm, {{"SLURM_JOB_NODELIST", "gpu[07"}}));
  CHECK(test::contains(text, "SLURM_JOB_NODELIST is \"gpu[07\", expected a list of nodes; set MASTER_ADDR"));
}

TEST_CASE("the first of Slurm's lists of hosts") {
  using tutti::detail::first_host_of;
  CHECK(first_host_of("node1") == "node1");
  CHECK(first_host_of("node1,node2") == "node1");
  CHECK(first_host_of("node[1-4]") == "node1");
  CHECK(first_host_of("node[001-004,7]") == "node001");
  CHECK(first_host_of("node[3,1-2]-ib,x") == "node3-ib");
  CHECK(first_host_of("rack[1-2]node[08-09],y[1-2]") == "rack1node08");
  for (const char* const list : {"", ",", "[", "node[", "node[]", "node[-1]", "node[,1]"}) {
    CAPTURE(list);
    CHECK(first_host_of(list).empty());
  }
}

TEST_CASE("ports of jobs are none that the system gives to those who connect, and differ") {
  std::set<int> ports;
  for (int job = 0; job < 100; ++job) {
    const int port = tutti::detail::port_of_job("SLURM_JOB_ID=" + std::to_string(job));
    CHECK(port >= 15000);
    CHECK(port < 32000);
    ports.insert(port);
  }
  CHECK(ports.size() > 90);
}

TEST_CASE("on one host rank 0 is at loopback, if nothing else is said") {
  const tutti::tcp_options o = read(open_mpi);
  CHECK(o.job == "PMIX_NAMESPACE=5701633");
  CHECK(o.master == "127.0.0.1:" + std::to_string(tutti::detail::port_of_job(o.job)));
  CHECK(read(with(open_mpi, {{"MASTER_PORT", "77"}})).master == "127.0.0.1:77");
  CHECK(
      read(with(slurm, {{"SLURM_STEP_TASKS_PER_NODE", "7"}, {"SLURM_NODEID", "0"}})).master.starts_with("127.0.0.1:"));
}

TEST_CASE("other launchers do not say where rank 0 is: the error says what to set") {
  for (const variables& set : {with(open_mpi, {{"OMPI_COMM_WORLD_SIZE", "4"}}), mpich, by_hand,
                               variables{{"RANK", "1"}, {"WORLD_SIZE", "2"}}}) {
    const std::string text = refusal(set);
    CAPTURE(text);
    CHECK(test::contains(text, "nothing says where rank 0 is; set MASTER_ADDR and MASTER_PORT on all ranks"));
  }
  CHECK(test::contains(refusal(with(open_mpi, {{"OMPI_COMM_WORLD_SIZE", "4"}})),
                       "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE say that this is rank 1 of 4"));
  CHECK(test::contains(refusal(with(by_hand, {{"MASTER_ADDR", "x"}})),
                       "MASTER_ADDR is \"x\", but MASTER_PORT is not set, expected both"));
  CHECK(test::contains(refusal(with(by_hand, {{"MASTER_PORT", "1"}})),
                       "MASTER_PORT is \"1\", but MASTER_ADDR is not set, expected both"));
  // A job of one needs nobody.
  CHECK(read({{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "1"}}).master.empty());
  // Nor does rank 0 with a listener.
  CHECK(read(with(by_hand, {{"TUTTI_RANK", "0"}, {"TUTTI_LISTENER", "3"}})).listener == 3);
}

TEST_CASE("a job that only one host has a name for is called by where rank 0 is") {
  CHECK(read(with(by_hand, at_loopback)).job == "master 127.0.0.1:29500");
  CHECK(read(with(mpich, at_loopback)).job == "master 127.0.0.1:29500");
  CHECK(read(with(with(by_hand, at_loopback), {{"TUTTI_JOB", "mine"}})).job == "TUTTI_JOB=mine");
  CHECK(read(with(open_mpi, at_loopback)).job == "PMIX_NAMESPACE=5701633");
}

TEST_CASE("C10: what the user sets") {
  const tutti::tcp_options o = read(with(torch, {{"TUTTI_TOKEN", "secret"},
                                                 {"TUTTI_ADDRESS", "192.0.2.1"},
                                                 {"TUTTI_INTERFACE", "eth0"},
                                                 {"TUTTI_PORTS", "20000-20100"},
                                                 {"TUTTI_LISTENER", "7"},
                                                 {"TUTTI_TLS_CERTIFICATE", "a.crt"},
                                                 {"TUTTI_TLS_KEY", "a.key"},
                                                 {"TUTTI_TLS_AUTHORITY", "all.crt"},
                                                 {"TUTTI_START_TIMEOUT_MS", "1234"},
                                                 {"TUTTI_HEARTBEAT_MS", "567"},
                                                 {"TUTTI_BUSY_POLL_US", "0"}}));
  CHECK(o.token == "secret");
  CHECK(o.address == "192.0.2.1");
  CHECK(o.interface == "eth0");
  CHECK(o.first_port == 20000);
  CHECK(o.last_port == 20100);
  CHECK(o.listener == 7);
  CHECK(o.certificate == "a.crt");
  CHECK(o.private_key == "a.key");
  CHECK(o.authority == "all.crt");
  CHECK(o.start_timeout.count() == 1234);
  CHECK(o.heartbeat.count() == 567);
  CHECK(o.busy_poll.count() == 0);
  CHECK(read(with(torch, {{"TUTTI_PORTS", "5000"}})).last_port == 5000);
}

TEST_CASE("C11: ports and numbers that are wrong are named, and what was expected") {
  CHECK(read(with(torch, {{"MASTER_PORT", "1"}})).master == "node1:1");
  CHECK(read(with(torch, {{"MASTER_PORT", "65535"}})).master == "node1:65535");
  for (const char* const value : {"0", "65536", "-1", "", "abc", "1 ", "+1", "99999999999999999999"}) {
    CAPTURE(value);
    const std::string quoted = std::string("\"") + value + "\", ";
    CHECK(test::contains(refusal(with(torch, {{"MASTER_PORT", value}})),
                         "MASTER_PORT is " + quoted + "expected a port from 1 to 65535"));
    CHECK(
        test::contains(refusal(with(torch, {{"TUTTI_PORTS", value}})), "TUTTI_PORTS is " + quoted + "expected a port"));
    CHECK(test::contains(refusal(with(torch, {{"TUTTI_PORTS", std::string("1-") + value}})), "expected a port"));
  }
  CHECK(read(with(torch, {{"TUTTI_PORTS", "1-65535"}})).last_port == 65535);
  CHECK(test::contains(refusal(with(torch, {{"TUTTI_PORTS", "6-5"}})), "the first at most the second"));
  for (const char* const name :
       {"TUTTI_LISTENER", "TUTTI_START_TIMEOUT_MS", "TUTTI_HEARTBEAT_MS", "TUTTI_BUSY_POLL_US"})
    for (const char* const value : {"", "-1", "abc", "2147483648", "1.5"}) {
      CAPTURE(name);
      CHECK(test::contains(refusal(with(torch, {{name, value}})),
                           std::string(name) + " is \"" + value + "\", expected a whole number from "));
    }
  CHECK(test::contains(refusal(with(torch, {{"TUTTI_HEARTBEAT_MS", "0"}})), "expected a whole number from 1 to"));
  CHECK(test::contains(refusal(with(torch, {{"MASTER_ADDR", ""}})),
                       "MASTER_ADDR is \"\", expected the name or the address of rank 0's host"));
}
