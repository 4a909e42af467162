// SPDX-License-Identifier: BSL-1.0

// F1, as in mismatch_rooted.cpp, for the collectives without a root.

#include "communicator/mismatch.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

using namespace test;
using tutti::bruck, tutti::circulant, tutti::dissemination, tutti::flat, tutti::halving_doubling, tutti::naive,
    tutti::ring;

TEST_CASE("F1 mismatch: reduce_scatter") {
  const deadline limit(std::chrono::seconds(60));
  const auto check = []<class A, class B>() {
    check_subject(
        {"reduce_scatter by " + std::string(A::name),
         reduce_scatter<A, int>,
         {{"count", reduce_scatter<A, int>, 3, 0, "", ""},
          {"count", reduce_scatter<A, int>, 1, 0, "", ""},
          {"type and count", reduce_scatter<A, double>, 1, 0, "", ""},
          {"type", reduce_scatter<A, float>, 0, 0, "x int", "x float"},
          {"operation", reduce_scatter<A, int, std::multiplies<>>, 0, 0, "with std::plus<", "with std::multiplies<"},
          {"algorithm", reduce_scatter<B, int>, 0, 0, "by " + std::string(A::name), "by " + std::string(B::name)},
          {"collective", alltoall<A, int>, 0, 0, "called reduce_scatter of", "called alltoall of"},
          {"collective", allreduce<A, int>, 0, 0, "called reduce_scatter of", "called allreduce of"}}});
  };
  check.operator()<flat, ring>();
  check.operator()<ring, flat>();
}

TEST_CASE("F1 mismatch: allgather") {
  const deadline limit(std::chrono::seconds(60));
  const auto check = []<class A, class B>() {
    check_subject({"allgather by " + std::string(A::name),
                   allgather<A, int>,
                   {{"count", allgather<A, int>, 3, 0, "", ""},
                    {"count", allgather<A, int>, 1, 0, "", ""},
                    {"type and count", allgather<A, double>, 1, 0, "", ""},
                    {"type", allgather<A, float>, 0, 0, "x int", "x float"},
                    {"algorithm", allgather<B, int>, 0, 0, "by " + std::string(A::name), "by " + std::string(B::name)},
                    {"collective", alltoall<A, int>, 0, 0, "called allgather of", "called alltoall of"},
                    {"collective", barrier<dissemination>, 0, 0, "called allgather of", "called barrier by"}}});
  };
  check.operator()<flat, circulant>();
  check.operator()<circulant, flat>();
}

TEST_CASE("F1 mismatch: allreduce") {
  const deadline limit(std::chrono::seconds(60));
  const auto check = []<class A, class B>() {
    check_subject(
        {"allreduce by " + std::string(A::name),
         allreduce<A, int>,
         {{"count", allreduce<A, int>, 3, 0, "", ""},
          {"count", allreduce<A, int>, 1, 0, "", ""},
          {"type and count", allreduce<A, double>, 1, 0, "", ""},
          {"type", allreduce<A, float>, 0, 0, "x int", "x float"},
          {"operation", allreduce<A, int, std::multiplies<>>, 0, 0, "with std::plus<", "with std::multiplies<"},
          {"algorithm", allreduce<B, int>, 0, 0, "by " + std::string(A::name), "by " + std::string(B::name)},
          {"collective", reduce<flat, int>, 0, 0, "called allreduce of", "called reduce of"},
          {"collective", iallreduce<A, int>, 0, 0, "called allreduce of", "called iallreduce of"}}});
  };
  check.operator()<naive, halving_doubling>();
  check.operator()<halving_doubling, naive>();
}

TEST_CASE("F1 mismatch: alltoall") {
  const deadline limit(std::chrono::seconds(60));
  const auto check = []<class A, class B>() {
    check_subject({"alltoall by " + std::string(A::name),
                   alltoall<A, int>,
                   {{"count", alltoall<A, int>, 3, 0, "", ""},
                    {"count", alltoall<A, int>, 1, 0, "", ""},
                    {"type and count", alltoall<A, double>, 1, 0, "", ""},
                    {"type", alltoall<A, float>, 0, 0, "x int", "x float"},
                    {"algorithm", alltoall<B, int>, 0, 0, "by " + std::string(A::name), "by " + std::string(B::name)},
                    {"collective", allgather<A, int>, 0, 0, "called alltoall of", "called allgather of"}}});
  };
  check.operator()<flat, bruck>();
  check.operator()<bruck, flat>();
}

TEST_CASE("F1 mismatch: barrier") {
  const deadline limit(std::chrono::seconds(60));
  check_subject({"barrier",
                 barrier<dissemination>,
                 {{"algorithm", barrier<flat>, 0, 0, "called barrier by dissemination", "called barrier by flat"},
                  {"collective", allgather<bruck, int>, 0, 0, "called barrier by", "called allgather of"},
                  {"collective", broadcast<flat, int>, 0, 0, "called barrier by", "called broadcast of"},
                  {"collective", iallreduce<flat, int>, 0, 0, "called barrier by", "called iallreduce of"}}});
}

TEST_CASE("F1 mismatch: iallreduce") {
  const deadline limit(std::chrono::seconds(120));
  const auto check = []<class A, class B>() {
    const auto differences = [](verb another_count, verb another_type, verb half_count, verb another_operation,
                                verb another_algorithm) -> std::vector<difference> {
      return {{"count", another_count, 3, 0, "", ""},
              {"count", another_count, 1, 0, "", ""},
              {"type and count", half_count, 1, 0, "", ""},
              {"type", another_type, 0, 0, "x int", "x float"},
              {"operation", another_operation, 0, 0, "with std::plus<", "with std::multiplies<"},
              {"algorithm", another_algorithm, 0, 0, "by " + std::string(A::name), "by " + std::string(B::name)},
              {"collective", allreduce<A, int>, 0, 0, "called iallreduce of", "called allreduce of"},
              {"collective", barrier<dissemination>, 0, 0, "called iallreduce of", "called barrier by"}};
    };
    check_subject({"iallreduce by " + std::string(A::name), iallreduce<A, int>,
                   differences(iallreduce<A, int>, iallreduce<A, float>, iallreduce<A, double>,
                               iallreduce<A, int, std::multiplies<>>, iallreduce<B, int>)});
    check_subject({"iallreduce finished late by " + std::string(A::name), late_iallreduce<A, int>,
                   differences(late_iallreduce<A, int>, late_iallreduce<A, float>, late_iallreduce<A, double>,
                               late_iallreduce<A, int, std::multiplies<>>, late_iallreduce<B, int>)});
  };
  check.operator()<naive, circulant>();
  check.operator()<circulant, naive>();
}
