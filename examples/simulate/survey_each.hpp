// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "survey.hpp"

#include <tutti/schedule/algorithms.hpp>
#include <tutti/schedule/cost.hpp>
#include <tutti/simulation/simulate.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>

namespace planning {

/// Whether a round of the schedule is found by looking at every block: then large numbers of ranks take too long.
template <class S>
struct searched {
  static bool among(int) { return false; }
};
template <tutti::route R>
struct searched<tutti::alltoall_of<R>> {
  static bool among(int) { return true; }
};
template <tutti::route R>
struct searched<tutti::scatter_of<R>> {
  static bool among(int size) { return !tutti::detail::nested_ways<R>(size); }
};
template <>
struct searched<tutti::swing::scatter> {
  static bool among(int size) { return searched<tutti::scatter_of<tutti::bine>>::among(size - size % 2); }
};
template <class S>
struct searched<tutti::dual<S>> : searched<S> {};
template <class A, class B>
struct searched<tutti::then<A, B>> {
  static bool among(int size) { return searched<A>::among(size) || searched<B>::among(size); }
};

/// The schedule with root 0 and, where it cuts the vector into segments, as many as the model says: the way is L rounds
/// longer than one, and segments of sqrt(n alpha / (L beta)) bytes balance filling it against starting each.
template <class S>
S make_schedule(const question& asked) {
  const auto with = [](int segments) { return tutti::detail::make_schedule<S>(0, segments); };
  if constexpr (tutti::segmented<S>) {
    const double alpha = asked.network.latency + 2 * asked.network.overhead;
    const double filling = with(1).rounds({asked.ranks - 1, asked.ranks}) - 1;
    const double ideal = std::sqrt(static_cast<double>(asked.bytes) * asked.network.byte * filling / alpha);
    return with(std::isfinite(ideal) ? static_cast<int>(std::clamp(ideal, 1.0, 4096.0)) : 1);
  } else {
    return with(1);
  }
}

/// Seconds to find up to a hundred rounds of a rank: the median of several, since in a tree few have much to do.
template <class S>
double seconds_to_look(const S& s, int size) {
  std::array<double, 9> taken{};
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const auto rank = static_cast<double>(size) * static_cast<double>(i + 1) / static_cast<double>(taken.size() + 1);
    const tutti::place at{static_cast<int>(rank), size};
    const auto begin = std::chrono::steady_clock::now();
    const int rounds = std::min(s.rounds(at), 100);
    int steps = 0;
    for (int k = tutti::next_round(s, at, 0); k < rounds; k = tutti::next_round(s, at, k + 1)) {
      s.round(at, k, [&](auto) { ++steps; });
    }
    taken[i] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() + 1e-15 * steps;
  }
  std::nth_element(taken.begin(), taken.begin() + taken.size() / 2, taken.end());
  return taken[taken.size() / 2];
}

/// A time that the simulated one is not below: what the processor and the ports of a rank have to do, without any
/// waiting.
template <class S>
double least_makespan(const S& s, tutti::place at, std::size_t bytes, const tutti::network& net) {
  const tutti::detail::set_bytes measure{{bytes, s.blocks(at.size)}};
  double processor = 0, sent = 0, received = 0;
  const int rounds = s.rounds(at);
  for (int k = tutti::next_round(s, at, 0); k < rounds; k = tutti::next_round(s, at, k + 1)) {
    tutti::for_each_message(s, at, k, measure, [&](const tutti::message_end& m) {
      if (m.peer != at.rank) {
        processor += net.overhead;
        (m.sent ? sent : received) += static_cast<double>(m.size);
      }
      processor += static_cast<double>(m.folded) * net.fold;
    });
  }
  return std::max(processor, std::max(sent, received) * net.byte / net.ports);
}

/// Why the simulation would be too much, if it would be. Guessed from a rank in the middle.
template <class S>
std::string too_much(const S& s, const question& asked, const limits& most) {
  const int p = asked.ranks;
  const bool even = asked.bytes % static_cast<std::size_t>(s.blocks(p)) == 0;
  const bool one_for_all = tutti::symmetric_schedule<S>::among(p) && (even || tutti::relays_blocks<S>);
  const double ranks = one_for_all ? 1 : p;
  const tutti::place middle{p / 2, p};
  const int rounds = s.rounds(middle);
  char text[96];
  if (searched<S>::among(p) && ranks * p * rounds > 2e9) {
    std::snprintf(text, sizeof text, "left out: %d ranks would look at %d blocks in each of %d rounds", p, p, rounds);
    return text;
  }
  double messages = 0, in_flight = 0, asked_for = 0;
  for (int k = tutti::next_round(s, middle, 0); k < rounds; k = tutti::next_round(s, middle, k + 1)) {
    int sends = 0;
    tutti::for_each_message(s, middle, k, tutti::detail::set_blocks{}, [&](const tutti::message_end& m) {
      if (m.sent) ++sends;
    });
    messages += sends;
    in_flight = std::max<double>(in_flight, sends);
    if (ranks * messages > most.messages || ranks * in_flight > most.in_flight) {
      std::snprintf(text, sizeof text, "left out: about %.1g messages or more, and no rank stands for all",
                    static_cast<double>(p) * messages * rounds / (k + 1));
      return text;
    }
    if (ranks * ++asked_for > most.rounds) {
      std::snprintf(text, sizeof text, "left out: %d ranks, each with up to %d rounds", p, rounds);
      return text;
    }
  }
  if (std::isfinite(most.makespan) && least_makespan(s, middle, asked.bytes, asked.network) > most.makespan) {
    return "left out: too slow";
  }
  if (one_for_all) return {};  // to look would take as long as to simulate
  // Last, since it depends on the machine.
  const double looks = seconds_to_look(s, p) * ranks;
  if (looks > most.seconds) {
    std::snprintf(text, sizeof text, "left out: to find all rounds of %d ranks would take about %.0f s", p, looks);
    return text;
  }
  return {};
}

template <tutti::collective C>
std::vector<answer> survey_each(const question& asked, const limits& most, const std::vector<std::string_view>& only) {
  std::vector<answer> answers;
  tutti::for_each_algorithm([&]<class A>() {
    if constexpr (tutti::implements<A, C>) {
      const std::string_view name = tutti::name_of<A>();
      if (!tutti::supports<A>(asked.ranks)) return;
      if (!only.empty() && std::find(only.begin(), only.end(), name) == only.end()) return;
      const auto s = make_schedule<tutti::schedule_for<C, A>>(asked);
      answer mine;
      mine.algorithm = name;
      mine.left_out = too_much(s, asked, most);
      if (mine) {
        const auto begin = std::chrono::steady_clock::now();
        mine.result = tutti::simulate(s, asked.ranks, C == tutti::collective::barrier ? 0 : asked.bytes, asked.network);
        mine.wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      }
      answers.push_back(mine);
    }
  });
  return answers;
}

}  // namespace planning
