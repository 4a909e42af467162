// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the environment says of a job whose ranks talk through TCP.

#include <tutti/core/clock.hpp>
#include <tutti/core/environment_variables.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/job_hash.hpp>
#include <tutti/transport/tcp/address.hpp>
#include <tutti/transport/tcp/options.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::detail {

/// The first host of a list of Slurm's: of "node[07-12,3],login" that is "node07". Empty if it is no such list.
inline std::string first_host_of(std::string_view list) {
  std::string host;
  for (std::size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const std::size_t end = list.find(']', i);
    if (end == std::string_view::npos) return {};
    const std::string_view numbers = list.substr(i + 1, end - i - 1);
    const std::string_view first = numbers.substr(0, numbers.find_first_of(",-"));
    if (first.empty()) return {};
    host += first;
    i = end;
  }
  return host;
}

/// The same port on all ranks of a job, and most likely another for another job; none that the system gives to those
/// who connect.
inline int port_of_job(std::string_view job) { return 15000 + static_cast<int>(job_hash::of(job).words[0] % 17000); }

/// Reads what `lookup(name)` finds: the value of a variable, or null. `Launched` is a `tutti::launched`.
template <class Launched, class Lookup>
class tcp_environment : environment_variables<Lookup> {
  using variables = environment_variables<Lookup>;
  using variables::is, variables::is_set, variables::number, variables::text;

 public:
  tcp_environment(const Launched& me, Lookup& lookup) : variables(lookup), me_(me) {}

  tcp_options read() const {
    tcp_options o;
    o.rank = me_.rank;
    o.size = me_.size;
    o.local_size = me_.local_size;
    o.token = text("TUTTI_TOKEN");
    o.host = text("TUTTI_HOST");
    o.address = text("TUTTI_ADDRESS");
    o.interface = text("TUTTI_INTERFACE");
    o.certificate = text("TUTTI_TLS_CERTIFICATE");
    o.private_key = text("TUTTI_TLS_KEY");
    o.authority = text("TUTTI_TLS_AUTHORITY");
    read_ports(o);
    if (is_set("TUTTI_LISTENER")) o.listener = number("TUTTI_LISTENER", 0);
    using std::chrono::microseconds;
    using std::chrono::milliseconds;
    if (is_set("TUTTI_START_TIMEOUT_MS")) o.start_timeout = milliseconds(number("TUTTI_START_TIMEOUT_MS", 1));
    if (is_set("TUTTI_HEARTBEAT_MS")) o.heartbeat = milliseconds(number("TUTTI_HEARTBEAT_MS", 1));
    if (is_set("TUTTI_BUSY_POLL_US")) o.busy_poll = microseconds(number("TUTTI_BUSY_POLL_US", 0));
    const bool needs_master = o.size > 1 && (o.rank != 0 || o.listener == -1);
    if (needs_master || is_set("MASTER_ADDR") || is_set("MASTER_PORT")) o.master = master();
    o.job = job(o.master);
    return o;
  }

 private:
  void read_ports(tcp_options& o) const {
    if (!is_set("TUTTI_PORTS")) return;
    const std::string_view ports = text("TUTTI_PORTS");
    const std::size_t dash = ports.find('-');
    const std::string_view first = ports.substr(0, dash);
    const std::string_view last = dash == std::string_view::npos ? first : ports.substr(dash + 1);
    if (!parse_port(first, o.first_port) || !parse_port(last, o.last_port) || o.first_port < 1 ||
        o.last_port < o.first_port)
      throw usage_error(is("TUTTI_PORTS")
                        << ", expected a port from 1 to 65535, or two as in 20000-20100, the first at "
                           "most the second");
  }

  bool one_host() const { return me_.local_size == me_.size; }
  bool by_slurm() const { return me_.source.starts_with("SLURM_"); }

  std::string master() const {
    std::string host(text("MASTER_ADDR"));
    int port = 0;
    if (is_set("MASTER_PORT") && (!parse_port(text("MASTER_PORT"), port) || port == 0))
      throw usage_error(is("MASTER_PORT") << ", expected a port from 1 to 65535");
    if (is_set("MASTER_ADDR") && host.empty())
      throw usage_error(is("MASTER_ADDR") << ", expected the name or the address of rank 0's host");
    if (is_set("MASTER_ADDR") != is_set("MASTER_PORT") && !one_host() && !by_slurm()) {
      const bool address = is_set("MASTER_ADDR");
      throw usage_error(is(address ? "MASTER_ADDR" : "MASTER_PORT")
                        << ", but " << (address ? "MASTER_PORT" : "MASTER_ADDR") << " is not set, expected both");
    }
    if (host.empty() && one_host()) host = "127.0.0.1";
    if (host.empty() && by_slurm()) host = first_node();
    if (host.empty())
      throw usage_error(message() << "launch from the environment: " << me_.source << " say that this is rank "
                                  << me_.rank << " of " << me_.size
                                  << ", and nothing says where rank 0 is; set MASTER_ADDR and MASTER_PORT on all ranks "
                                     "to the address of rank 0's host and a free port of it (127.0.0.1 and 29500, for "
                                     "example, if all ranks are on one host)");
    if (port == 0) port = port_of_job(me_.job);
    // There torchrun's own store listens.
    if (text("TORCHELASTIC_USE_AGENT_STORE") == "True") port += port < 65535 ? 1 : -1;
    const bool six = host.find(':') != std::string::npos && host.front() != '[';
    return message() << (six ? "[" : "") << host << (six ? "]:" : ":") << port;
  }
  /// Rank 0 is on the first node of a step, as far as the tasks are not distributed by hand.
  std::string first_node() const {
    for (const char* const name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
      if (!is_set(name)) continue;
      std::string host = first_host_of(text(name));
      if (host.empty())
        throw usage_error(is(name) << ", expected a list of nodes; set MASTER_ADDR to the address of rank 0's host");
      return host;
    }
    return {};
  }

  /// What a launcher calls a job may be known on one host only: then it is where rank 0 is.
  std::string job(const std::string& master) const {
    const bool local = me_.job.starts_with("parent process ") || me_.job.starts_with("PMI process manager ");
    return local && !one_host() && !master.empty() ? "master " + master : me_.job;
  }

  const Launched& me_;
};

/// The options of the rank that a launcher says this is (`tutti::from_environment`), from the variables that
/// `lookup(name)` finds, a callable that returns the value as a `const char*`, or null:
///
/// | variable                                           | option                                                    |
/// |----------------------------------------------------|-----------------------------------------------------------|
/// | MASTER_ADDR, MASTER_PORT                           | `master`                                                  |
/// | TUTTI_JOB, or what the launcher calls the job      | `job`                                                     |
/// | TUTTI_TOKEN                                        | `token`                                                   |
/// | TUTTI_HOST                                         | `host`                                                    |
/// | TUTTI_ADDRESS, TUTTI_INTERFACE                     | `address`, `interface`                                    |
/// | TUTTI_PORTS, such as 20000-20100                   | `first_port`, `last_port`                                 |
/// | TUTTI_LISTENER                                     | `listener`, the number of a descriptor                    |
/// | TUTTI_TLS_CERTIFICATE, TUTTI_TLS_KEY              | `certificate`, `private_key`                              |
/// | TUTTI_TLS_AUTHORITY                                | `authority`                                               |
/// | TUTTI_START_TIMEOUT_MS, TUTTI_HEARTBEAT_MS         | `start_timeout`, `heartbeat`                              |
/// | TUTTI_BUSY_POLL_US                                 | `busy_poll`                                               |
///
/// Where the launcher says that all ranks are on one host, MASTER_ADDR may be missing: it is 127.0.0.1 then. Under
/// Slurm it is the first node of SLURM_STEP_NODELIST, or else of SLURM_JOB_NODELIST. MASTER_PORT is then one from 15000
/// to 31999 that depends on the job. Where torchrun listens at MASTER_PORT itself, as TORCHELASTIC_USE_AGENT_STORE
/// says, rank 0 listens at the next port. No other launcher says where rank 0 is: Open MPI, MPICH and Intel MPI know
/// it, but do not tell, nor does a script that sets RANK or TUTTI_RANK.
///
/// Throws `usage_error` that names the variable, its value and what was expected.
template <class Launched, class Lookup>
tcp_options tcp_options_from_environment(const Launched& me, Lookup&& lookup) {
  return tcp_environment<Launched, Lookup>(me, lookup).read();
}

}  // namespace tutti::detail
