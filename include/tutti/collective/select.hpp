// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/core/arena.hpp>
#include <tutti/schedule/algorithms.hpp>

#include <cstddef>

namespace tutti {

/// The algorithm is chosen by cost: from the schedule's counted rounds, messages and bytes and the transport's parameters,
/// the same on every rank.
struct automatic {
  static constexpr std::string_view name = "automatic";
};

namespace detail {

struct scratch_scope {
  arena& scratch;
  ~scratch_scope() { scratch.reset(); }
};

template <collective C, class Algorithm, bool Commutes, class Comm, class F>
void choose(Comm& comm, std::size_t bytes, F&& f) {
  const scratch_scope scope{comm.scratch()};
  if constexpr (!std::is_same_v<Algorithm, automatic>) {
    require_algorithm<Algorithm, C>();
    if constexpr (implements<Algorithm, C>) {
      check_supported<Algorithm>(comm.place(), C);
      f.template operator()<Algorithm>();
    }
  } else if constexpr (C == collective::allreduce) {
    if (bytes <= 8192) f.template operator()<naive>(); else f.template operator()<flat>();
  } else if constexpr (C == collective::barrier) {
    f.template operator()<dissemination>();
  } else {
    f.template operator()<flat>();
  }
}

}  // namespace detail

}  // namespace tutti
