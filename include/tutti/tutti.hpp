// SPDX-License-Identifier: BSL-1.0
#pragma once

/// What most programs need: every collective and algorithm, on ranks that are threads. Ranks that are processes
/// (tutti/run_processes.hpp) or simulated (tutti/run_simulated.hpp), training, simulation and explanations have headers
/// of their own, which would make every program longer to compile.

#if __cplusplus < 202002L
#error "tutti needs C++20: compile with -std=c++20"
#endif

#include <tutti/collective/allgather.hpp>
#include <tutti/collective/allreduce.hpp>
#include <tutti/collective/alltoall.hpp>
#include <tutti/collective/barrier.hpp>
#include <tutti/collective/broadcast.hpp>
#include <tutti/collective/exscan.hpp>
#include <tutti/collective/gather.hpp>
#include <tutti/collective/iallreduce.hpp>
#include <tutti/collective/point_to_point.hpp>
#include <tutti/collective/reduce.hpp>
#include <tutti/collective/reduce_scatter.hpp>
#include <tutti/collective/scan.hpp>
#include <tutti/collective/scatter.hpp>
#include <tutti/collective/split.hpp>
#include <tutti/core/bfloat16.hpp>
#include <tutti/core/exact_sum.hpp>
#include <tutti/core/float16.hpp>
#include <tutti/run.hpp>
#include <tutti/schedule/algorithms.hpp>
