// SPDX-License-Identifier: BSL-1.0
#pragma once

// The transports that the conformance suite runs on. One joins by one more line in `launchers`. (The simulated one, on
// which rounds are many and time costs nothing, has tests of its own: fewer types, and more ranks.)

#include <tutti/tutti.hpp>

#include <tuple>
#include <utility>

namespace conformance {

/// A launcher runs `f(comm)` on each of `ranks` ranks and rethrows what the first failing rank threw. Where the ranks
/// do not share memory `f` is copied to them, so what it captures by reference is only read.
struct threads {
  static constexpr const char* name = "threads";
  static constexpr bool shares_memory = true;
  using communicator = tutti::communicator<tutti::threads>;
  template <class F>
  static void run(int ranks, F&& f) {
    tutti::run(ranks, std::forward<F>(f));
  }
};

using launchers = std::tuple<threads>;

}  // namespace conformance
