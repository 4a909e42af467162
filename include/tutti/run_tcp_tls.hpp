// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/run_tcp.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp_tls.hpp>

#include <utility>

namespace tutti {

/// `run_tcp` with all connections encrypted by TLS 1.3: `comm` is a `tutti::communicator<tutti::tcp_tls>&`. All ranks
/// of a job call the same of the two.
///
/// `options` says which files have this rank's certificate, its key, and the authorities of which one must have signed
/// the certificate of every rank. A certificate serves if it is valid now, and for servers and clients if it says for
/// what; the names in it are not looked at, since ranks are reached by addresses. The ranks of a job may share one.
///
/// Throws what `run_tcp` throws; `usage_error` if a file is missing, cannot be read, or no rank would accept the
/// certificate. A rank that is refused for its certificate, or refuses that of rank 0, throws `timed_out` saying so
/// after `start_timeout`, as rank 0 does, which names the ranks that are missing.
template <class F>
void run_tcp_tls(const tcp_options& options, F&& f) {
  TUTTI_FAULT_RANK(options.rank);
  detail::run_tcp_rank<tcp_tls>(options, f, [](const failure&) {});
}

/// The same as the rank that this process is among those that a launcher has started, see `run_tcp`. The files are
/// those that TUTTI_TLS_CERTIFICATE, TUTTI_TLS_KEY and TUTTI_TLS_AUTHORITY name.
template <class F>
void run_tcp_tls(F&& f) {
  run_tcp_tls(tcp_tls::from_environment(), std::forward<F>(f));
}

inline tcp_options tcp_tls::from_environment() { return tcp::from_environment(); }

}  // namespace tutti
