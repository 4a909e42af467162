// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/algorithms.hpp>
#include <tutti/schedule/segments.hpp>

#include <doctest/doctest.h>

#include <algorithm>

using tutti::best_segments;
using tutti::pipeline;
using tutti::pipeline_of;

namespace {

double time_of(pipeline p, int segments, double bytes, double round, double byte) {
  return (p.fixed + p.each * segments) * (round + byte * bytes / segments);
}

/// By trying all.
double least_time(pipeline p, double bytes, double round, double byte, int most) {
  double least = time_of(p, 1, bytes, round, byte);
  for (int k = 2; k <= most; ++k) least = std::min(least, time_of(p, k, bytes, round, byte));
  return least;
}

template <class S>
void check_pipeline(int size, double fixed, double each) {
  CAPTURE(size);
  CHECK(pipeline_of<S>(size).fixed == fixed);
  CHECK(pipeline_of<S>(size).each == each);
}

}  // namespace

TEST_CASE("a pipeline's rounds grow evenly with its segments") {
  check_pipeline<tutti::chain::broadcast>(8, 6, 1);
  check_pipeline<tutti::chain::allreduce>(8, 12, 2);
  check_pipeline<tutti::chain::scan>(8, 6, 1);
  check_pipeline<tutti::two_tree::reduce>(8, 4, 1);
  check_pipeline<tutti::two_tree::allreduce>(9, 10, 2);
  check_pipeline<tutti::circulant_pipelined::broadcast>(33, 5, 1);
  check_pipeline<tutti::chain::broadcast>(1, 0, 0);
}

TEST_CASE("as many segments as take the least time, within one in twenty") {
  for (const pipeline p : {pipeline{6, 1}, pipeline{5, 1}, pipeline{10, 2}, pipeline{62, 1}}) {
    for (const double bytes : {1e6, 1e7, 1e8}) {
      CAPTURE(p.fixed);
      CAPTURE(bytes);
      constexpr double round = 1e-6;
      constexpr double byte = 1e-10;
      const int k = best_segments(p, bytes, round, byte, 1 << 20);
      CHECK(k > 1);
      CHECK(time_of(p, k, bytes, round, byte) <= 1.05 * least_time(p, bytes, round, byte, 2000));
    }
  }
}

TEST_CASE("one segment where a round costs more than all bytes, and never more than there are elements") {
  CHECK(best_segments({6, 1}, 8, 1e-6, 1e-10, 1000) == 1);
  CHECK(best_segments({0, 1}, 1e9, 1e-6, 1e-10, 1000) == 1);
  CHECK(best_segments({0, 0}, 1e9, 1e-6, 1e-10, 1000) == 1);
  CHECK(best_segments({6, 1}, 1e9, 1e-6, 1e-10, 7) == 7);
  CHECK(best_segments({1000, 1}, 1e5, 1e-6, 1e-10, 1000) == 10);  // not one byte each
}
