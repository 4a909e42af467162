// SPDX-License-Identifier: BSL-1.0
// hello_allreduce in whatever way it is started: one program for one process, for the ranks of one host, and for those
// of several, which then talk through memory within a host and through TCP between hosts:
//   hello_auto
//   for rank in 0 1 2 3; do TUTTI_RANK=$rank TUTTI_SIZE=4 hello_auto & done; wait
//   mpirun -n 4 hello_auto
//   MASTER_ADDR=node1 MASTER_PORT=29500 TUTTI_RANK=0 TUTTI_SIZE=4 hello_auto

#include <tutti/core/type_name.hpp>
#include <tutti/run_auto.hpp>
#include <tutti/tutti.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <type_traits>

int main() {
  tutti::run_auto([](auto& comm) {
    auto data = comm.template allocate<float>(1'000'000);  // where the ranks of this host read it without a copy
    std::fill(data.begin(), data.end(), static_cast<float>(comm.rank() + 1));

    tutti::allreduce(comm, data, std::plus<>{});
    using transport = typename std::remove_reference_t<decltype(comm)>::transport_type;
    const std::string over(tutti::type_name<transport>());
    if (comm.rank() == 0) std::printf("sum over %d ranks of %s: %g\n", comm.size(), over.c_str(), data[0]);
  });
}
