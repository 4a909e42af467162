// SPDX-License-Identifier: BSL-1.0
#pragma once

/// Everything that needs no dependency beyond the standard library and the operating system.

#include <tutti/collective/allgather.hpp>
#include <tutti/collective/allreduce.hpp>
#include <tutti/collective/alltoall.hpp>
#include <tutti/collective/barrier.hpp>
#include <tutti/collective/broadcast.hpp>
#include <tutti/collective/exscan.hpp>
#include <tutti/collective/gather.hpp>
#include <tutti/collective/iallreduce.hpp>
#include <tutti/collective/reduce.hpp>
#include <tutti/collective/reduce_scatter.hpp>
#include <tutti/collective/scan.hpp>
#include <tutti/collective/scatter.hpp>
#include <tutti/core/bfloat16.hpp>
#include <tutti/core/exact_sum.hpp>
#include <tutti/core/float16.hpp>
#include <tutti/run.hpp>
#include <tutti/schedule/algorithms.hpp>
