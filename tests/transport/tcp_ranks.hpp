// SPDX-License-Identifier: BSL-1.0
#pragma once

// Ranks over TCP whose options, listeners and threads are in the hands of a test, and what each of them came to.

#include <tutti/run_tcp.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "communicator/outcome.hpp"

namespace test {

using tcp_comm = tutti::communicator<tutti::tcp>;

/// A job on loopback in which the port of every rank's listener is known beforehand, so that connections to it can be
/// led elsewhere.
class listening_job {
 public:
  explicit listening_job(int size) {
    for (int rank = 0; rank < size; ++rank) {
      const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      socklen_t length = sizeof address;
      if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
          listen(listener, 64) != 0 || getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0)
        std::abort();
      ports_.push_back(ntohs(address.sin_port));
      tutti::tcp_options o;
      o.rank = rank;
      o.size = o.local_size = size;
      o.master = "127.0.0.1:" + std::to_string(ports_.front());
      o.job = "test " + std::to_string(getpid()) + " " + std::to_string(ports_.front());
      o.token = "only for this test";
      o.listener = listener;
      options.push_back(std::move(o));
    }
  }
  std::uint16_t port(int rank) const { return ports_[static_cast<std::size_t>(rank)]; }
  std::vector<tutti::tcp_options> options;  ///< the ranks take their listeners over

 private:
  std::vector<std::uint16_t> ports_;
};

/// `work(comm)` as that rank. One instance of all that is below it is enough for a test.
inline outcome outcome_of_tcp(const tutti::tcp_options& options, const std::function<void(tcp_comm&)>& work) {
  return outcome_of([&] { tutti::run_tcp(options, work); });
}

/// `work(comm)` as each rank, a thread of its own: how `run_tcp` ended there.
inline std::vector<outcome> outcomes_of_tcp(const std::vector<tutti::tcp_options>& options,
                                            const std::function<void(tcp_comm&)>& work) {
  std::vector<outcome> result(options.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < options.size(); ++rank)
    threads.emplace_back([&, rank] { result[rank] = outcome_of_tcp(options[rank], work); });
  for (std::thread& each : threads) each.join();
  return result;
}

}  // namespace test
