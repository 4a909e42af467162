// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call_site.hpp>
#include <tutti/core/place.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

/// The consecutive parameters that one rank updates; it keeps the rule's state for these and no others.
struct parameter_range {
  std::size_t first;
  std::size_t count;
};

namespace detail {
template <class T>
struct update_archetype {
  void operator()(std::span<const T>) const {}
};

/// Sums over `samples` samples become means. One division on the finished sum: every policy rounds alike.
template <class T>
void make_mean(std::span<T> sums, std::uint64_t samples) {
  const T divisor = static_cast<T>(samples);
  for (T& sum : sums) sum /= divisor;
}
}  // namespace detail

/// How the ranks of a group agree on their parameters. A policy is a value that may hold settings and counters:
///
/// - `sync.updates(at, n)`: which of `n` parameters the rank at that place updates.
/// - `sync.start(comm, parameters, where)`: collective, once: every rank gets the same parameters.
/// - `sync.step(comm, parameters, gradient, samples, update, where)`: collective, once a step. `gradient` is the sum
/// over
///   this rank's `samples` samples, zeros where there are none; the policy may write to it. It calls `update(mean)`
///   when it has the mean gradient of the parameters that this rank updates, and does not call it when no rank had a
///   sample.
///
/// `where` is the user's line, for messages.
template <class S, class Communicator, class T>
concept synchronisation = std::copyable<S> &&
    requires(S& sync, Communicator& comm, place at, std::span<T> span, std::uint64_t samples,
             detail::update_archetype<T> update, call_site where) {
  { sync.updates(at, std::size_t{}) } -> std::same_as<parameter_range>;
  sync.start(comm, span, where);
  sync.step(comm, span, span, samples, update, where);
};

}  // namespace tutti
