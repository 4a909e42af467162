// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/network.hpp>
#include <tutti/schedule/schedule.hpp>
#include <tutti/simulation/result.hpp>

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace planning {

/// What is asked: a collective among so many ranks, with vectors of so many bytes, on a network.
struct question {
  tutti::collective collective = tutti::collective::allreduce;
  int ranks = 2;
  std::size_t bytes = 8;
  tutti::network network;
};

/// How much simulating is too much.
struct limits {
  double messages = 9e7;                                      // of one algorithm
  double rounds = 1e8;                                        // of all ranks, empty ones too
  double seconds = 10;                                        // to find the rounds of all ranks
  double in_flight = 8e6;                                     // at a time: what takes memory
  double makespan = std::numeric_limits<double>::infinity();  // predicted seconds, of what is worth simulating
};

/// An algorithm's answer.
struct answer {
  std::string_view algorithm;
  std::string left_out;  // why there is none; empty if there is
  tutti::simulation_result result;
  double wall = 0;  // seconds that the simulation took

  explicit operator bool() const { return left_out.empty(); }
};

/// Every algorithm of the library for that collective and number of ranks, in the order of the README. Rooted
/// collectives have root 0. If `only` is not empty, those that it names.
std::vector<answer> survey(const question& asked, const limits& most = {},
                           const std::vector<std::string_view>& only = {});

// The collectives, in files of their own: each instantiates the simulation for all algorithms.
using survey_of = std::vector<answer>(const question&, const limits&, const std::vector<std::string_view>&);
survey_of survey_allreduce, survey_reduce_scatter, survey_allgather, survey_alltoall, survey_barrier, survey_scan,
    survey_exscan;
survey_of survey_broadcast, survey_scatter, survey_gather, survey_reduce;

}  // namespace planning
