// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/communicator/communicator.hpp>
#include <tutti/communicator/environment.hpp>
#include <tutti/communicator/launch.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/tcp.hpp>
#include <tutti/transport/tcp/loopback.hpp>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

namespace tutti {

namespace detail {

/// What a rank does from beginning to end: returns when all ranks have left. `failed(failure)` is told why the group
/// failed, if it did, while what was thrown is on its way.
template <class F, class Failed>
void run_tcp_rank(const tcp_options& options, F& f, Failed&& failed) {
  tcp_group group(options);
  const auto fail = [&](const char* what) {
    group.fail({errc::peer_failed, options.rank, message() << "rank " << options.rank << " failed: " << what});
    failed(group.why());
  };
  try {
    communicator<tcp> comm{tcp(group)};
    f(comm);
    group.check();
    group.leave();
    group.part();
  } catch (const std::exception& e) {
    fail(e.what());
    throw;
  } catch (...) {
    fail("an exception that is no std::exception");
    throw;
  }
}

/// What `lookup(name)` says that a user may set, for the rank that the launcher says.
template <class Lookup>
tcp_options tcp_environment(Lookup&& lookup) {
  const launched me = from_environment(lookup);
  const auto text = [&](const char* name) {
    const char* const found = lookup(name);
    return std::string(found == nullptr ? "" : found);
  };
  // The whole text is a number of at most nine digits.
  const auto number = [](const std::string& digits) {
    long value = digits.empty() || digits.size() > 9 ? -1 : 0;
    for (const char digit : digits) value = value < 0 || digit < '0' || digit > '9' ? -1 : 10 * value + (digit - '0');
    return value;
  };
  const auto refuse = [&](const char* name, const char* expected) {
    throw usage_error(message() << "launch from the environment: " << name << " is \"" << text(name) << "\", expected "
                                << expected);
  };
  const auto duration = [&](const char* name, auto& limit) {
    if (text(name).empty()) return;
    const long value = number(text(name));
    if (value < 0) refuse(name, "a whole number of at most nine digits");
    limit = std::remove_reference_t<decltype(limit)>(value);
  };

  tcp_options o;
  o.rank = me.rank;
  o.size = me.size;
  o.local_size = me.local_size;
  std::string host = text("MASTER_ADDR");
  if (host.empty() && me.local_size == me.size) host = "127.0.0.1";
  if (host.find(':') != std::string::npos && !host.starts_with('[')) host = "[" + host + "]";
  const std::string port = text("MASTER_PORT").empty() ? "29500" : text("MASTER_PORT");
  if (!host.empty()) o.master = host + ":" + port;
  // Ranks on several hosts, or in several terminals, have where they meet in common.
  o.job = me.local_job ? "job at " + o.master : me.job;
  o.token = text("TUTTI_TOKEN");
  o.address = text("TUTTI_ADDRESS");
  o.interface = text("TUTTI_INTERFACE");
  if (const std::string ports = text("TUTTI_PORTS"); !ports.empty()) {
    const std::size_t dash = ports.find('-');
    const long first = number(ports.substr(0, dash));
    const long last = dash == std::string::npos ? first : number(ports.substr(dash + 1));
    if (first < 1 || last < first || last > 65535)
      refuse("TUTTI_PORTS", "a port from 1 to 65535, or the first and the last of several, as in 29600-29699");
    o.first_port = static_cast<int>(first);
    o.last_port = static_cast<int>(last);
  }
  duration("TUTTI_START_TIMEOUT_MS", o.start_timeout);
  duration("TUTTI_HEARTBEAT_MS", o.heartbeat);
  duration("TUTTI_BUSY_POLL_US", o.busy_poll);
  return o;
}

}  // namespace detail

/// Runs `f(comm)` as one rank of a job whose ranks talk through TCP, on one host or several, and returns when all have
/// ended. `comm` is a `tutti::communicator<tutti::tcp>&`. What `f` throws comes out of it.
///
/// If `f` throws on a rank, or its process or host is gone, every other rank throws `peer_failed` naming it, whether or
/// not it waits for that rank: at once where the system says so, else within the heartbeat of `options`. Throws
/// `usage_error` naming the option that is wrong, `timed_out` naming the ranks that did not come, `mismatch` if their
/// programs differ or in the end they have not all made the same calls, `resource_error` if the system refuses
/// descriptors, threads or memory.
///
/// Costs one connection to rank 0 for each other rank, one for each pair that has something to say, and a thread that
/// sleeps. One rank alone opens nothing.
template <class F>
void run_tcp(const tcp_options& options, F&& f) {
  TUTTI_FAULT_RANK(options.rank);
  detail::run_tcp_rank(options, f, [](const failure&) {});
}

/// The same as the rank that this process is among those that a launcher has started: torchrun, srun, an mpirun, or a
/// script (`tutti::from_environment` says what is read), which meet at MASTER_ADDR and MASTER_PORT.
template <class F>
void run_tcp(F&& f) {
  run_tcp(tcp::from_environment(), std::forward<F>(f));
}

/// The same with all ranks as threads of this process, which talk over loopback: to try something out. Rethrows the
/// first exception that a rank threw.
template <class F>
void run_tcp(int size, F&& f) {
  if (size < 1) throw usage_error(message() << "run_tcp: number of ranks is " << size << ", must be at least 1");
  detail::tcp_loopback all(size);
  std::atomic<int> culprit{-1};
  detail::run_threads(
      size,
      [&](int rank) {
        detail::run_tcp_rank(all.options(rank), f, [&](const failure& why) {
          if (why.kind == errc::peer_failed) culprit.store(why.peer, std::memory_order_relaxed);
        });
      },
      [](int, const char*) {}, [&] { return culprit.load(std::memory_order_relaxed); });
}

/// What the launcher of this process says, and where rank 0 is:
/// - MASTER_ADDR and MASTER_PORT; 127.0.0.1 where all ranks are on this host as far as the launcher tells, and 29500;
/// - TUTTI_TOKEN: what only the ranks of the job know;
/// - TUTTI_ADDRESS or TUTTI_INTERFACE, TUTTI_PORTS ("29600-29699"): where this rank listens;
/// - TUTTI_START_TIMEOUT_MS, TUTTI_HEARTBEAT_MS, TUTTI_BUSY_POLL_US.
inline tcp_options tcp::from_environment() {
  return detail::tcp_environment([](const char* name) { return std::getenv(name); });
}

}  // namespace tutti
