// SPDX-License-Identifier: BSL-1.0

// Our side of the comparison: one collective by one algorithm over one transport, every size, as lines on stdout.
// With TUTTI_COMPARE_COLLECTIVE defined as allreduce, say, it knows that collective only and compiles the sooner; with
// TUTTI_COMPARE_TCP defined it knows the transport tcp, and no other; with TUTTI_COMPARE_MPI the transport mpi, whose
// ranks its launcher starts.

#if defined(TUTTI_COMPARE_TCP)
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tutti/run_tcp.hpp>
#elif defined(TUTTI_COMPARE_MPI)
#include <tutti/run_mpi.hpp>
#else
#include <tutti/run_processes.hpp>
#endif

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "calls.hpp"
#include "measure.hpp"
#include "ranks.hpp"

namespace {

// Calls visit.operator()<C, A...>() for what the command line names.
template <class Visit>
void chosen(const measure::arguments& asked, Visit visit) {
  std::string there_are;
  bool found = false;
  measure::each_collective([&]<tutti::collective C>() {
    if (tutti::name_of(C) != measure::name_of(asked.what)) return;
    measure::each_algorithm<C>([&]<tutti::collective, class... A>(std::string_view name) {
      there_are += (there_are.empty() ? "" : ", ") + std::string(name);
      if (name != asked.algorithm) return;
      found = true;
      visit.template operator()<C, A...>();
    });
  });
  if (!found) {
    throw std::invalid_argument("no algorithm '" + asked.algorithm + "' for " +
                                std::string(measure::name_of(asked.what)) + "; there are " + there_are);
  }
}

// Starts the ranks of a transport and returns the exit code. A new transport is one more line.
#if defined(TUTTI_COMPARE_TCP)
// The ranks are processes of this host that meet over loopback, at a listener that rank 0 takes over.
template <class Rank>
int run(const measure::arguments& asked, Rank rank) {
  if (asked.transport != "tcp") throw std::invalid_argument("this program knows the transport tcp only");
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener, asked.ranks) != 0 || getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw std::runtime_error("cannot listen on loopback");
  return measure::in_processes(asked.ranks, [&](int r) {
    tutti::tcp_options options;
    options.rank = r;
    options.size = options.local_size = asked.ranks;
    options.master = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    options.job = "compare";
    options.token = std::to_string(getppid());
    options.listener = r == 0 ? listener : -1;
    if (r != 0) close(listener);
    tutti::run_tcp(options, rank);
  });
}
#elif defined(TUTTI_COMPARE_MPI)
template <class Rank>
int run(const measure::arguments& asked, Rank rank) {
  if (asked.transport != "mpi") throw std::invalid_argument("this program knows the transport mpi only");
  tutti::run_mpi([&](auto& comm) {
    if (asked.ranks != comm.size()) throw std::invalid_argument("the launcher started another number of ranks");
    rank(comm);
  });
  return 0;
}
#else
template <class Rank>
int run(const measure::arguments& asked, Rank rank) {
  if (asked.transport == "threads") return tutti::run(asked.ranks, rank), 0;
  if (asked.transport == "processes") {
    if (const char* const way = std::getenv("TUTTI_COMPARE_DELIVERY"); way != nullptr && way[0] != '\0')
      tutti::detail::delivery_choice::forced = static_cast<tutti::detail::delivery>(way[0] - '0');
    return tutti::run_processes(asked.ranks, rank), 0;
  }
  throw std::invalid_argument("unknown transport '" + asked.transport +
                              "'; there are threads, processes, and tcp and mpi in " + "programs of their own");
}
#endif

}  // namespace

int main(int argc, char** argv) {
  return measure::program(argc, argv, [](const measure::arguments& asked) {
    int code = 0;
    chosen(
        asked, [&]<tutti::collective C, class... A>() {
          if (asked.dry_run) return;
          code = run(asked, [&](auto& comm) {
            measure::pin(comm.rank(), asked.cpus);
            measure::group group(comm);
            measure::report_cpus(group);
            measure::all_sizes(group, asked,
                               [&](measure::buffers& data, auto use) { measure::with_call<C, A...>(comm, data, use); });
          });
        });
    return code;
  });
}
