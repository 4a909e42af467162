// SPDX-License-Identifier: BSL-1.0
#pragma once

// From names on the command line to types: the library is told everything at compile time.

#include "images.hpp"
#include "options.hpp"

#include <tutti/training/all_reduce.hpp>
#include <tutti/training/momentum.hpp>
#include <tutti/training/nesterov.hpp>
#include <tutti/training/parameter_server.hpp>
#include <tutti/training/plain.hpp>
#include <tutti/training/sgd.hpp>
#include <tutti/tutti.hpp>

#include <string>
#include <string_view>

namespace digits {

template <class... Algorithms>
struct algorithms {};

using allreduce_algorithms =
    algorithms<tutti::flat, tutti::ring, tutti::circulant, tutti::pat, tutti::bruck, tutti::halving_doubling,
               tutti::recursive_doubling, tutti::single_master, tutti::naive>;
using server_algorithms =
    algorithms<tutti::single_master, tutti::ring, tutti::circulant, tutti::pat, tutti::bruck, tutti::binomial>;

/// Calls `use(Sync<A>{})` with the algorithm A of that name.
template <template <class> class Sync, class... Algorithms, class Use>
void with_algorithm(algorithms<Algorithms...>, const options& wanted, Use use) {
  const auto if_named = [&]<class A>(A) {
    if (tutti::name_of<A>() != wanted.algorithm) return false;
    use(Sync<A>{});
    return true;
  };
  if (wanted.algorithm == "auto") {
    use(Sync<tutti::automatic>{});
  } else if (!(if_named(Algorithms{}) || ...)) {
    std::string names = "auto";
    ((names += ", " + std::string(tutti::name_of<Algorithms>())), ...);
    throw input_error("--algorithm is '" + wanted.algorithm + "', not one of those for " + wanted.sync + ": " + names);
  }
}

/// Calls `use(sync)` with the synchronisation that is asked for.
template <class Use>
void with_sync(const options& wanted, Use use) {
  if (wanted.sync == "all_reduce") return with_algorithm<tutti::all_reduce>(allreduce_algorithms{}, wanted, use);
  if (wanted.sync == "parameter_server")
    return with_algorithm<tutti::parameter_server>(server_algorithms{}, wanted, use);
  throw input_error("--sync is '" + wanted.sync + "', not all_reduce or parameter_server");
}

/// Calls `use(rule)` with the update rule that is asked for.
template <class Use>
void with_rule(const options& wanted, Use use) {
  if (wanted.rule == "plain") return use(tutti::plain{.rate = wanted.rate});
  if (wanted.rule == "momentum") return use(tutti::momentum{.rate = wanted.rate});
  if (wanted.rule == "nesterov") return use(tutti::nesterov{.rate = wanted.rate});
  throw input_error("--rule is '" + wanted.rule + "', not plain, momentum or nesterov");
}

/// Whether something else starts the ranks, of which this process is one.
inline bool is_launched(const options& wanted) {
  return wanted.transport == "launched" || wanted.transport == "tcp" || wanted.transport == "mpi" ||
         wanted.transport == "auto";
}

/// Throws `input_error` if a name is not known.
inline void check_names(const options& wanted) {
  if (wanted.transport != "threads" && wanted.transport != "processes" && !is_launched(wanted))
    throw input_error("--transport is '" + wanted.transport + "', not threads, processes, launched, tcp, mpi or auto");
  with_rule(wanted, [](auto) {});
  with_sync(wanted, [](auto) {});
}

}  // namespace digits
