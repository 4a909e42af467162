// SPDX-License-Identifier: BSL-1.0

// F1: what only the group can see. One rank calls something else than the others; every rank hears of it, in the same
// words, at this call or, where the collective had let it go, at its next one.

#include "communicator/mismatch.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

using namespace test;
using tutti::binomial, tutti::flat, tutti::maximum;

// In each list: another count, larger and smaller; fewer elements of twice the size, so that the same bytes are sent;
// another type of the same size; another operation, root, algorithm, collective.

TEST_CASE("F1 mismatch: broadcast") {
  const deadline limit(std::chrono::seconds(60));
  const auto check = []<class A, class B>() {
    check_subject({"broadcast by " + std::string(A::name),
                   broadcast<A, int>,
                   {{"count", broadcast<A, int>, 3, 0, "", ""},
                    {"count", broadcast<A, int>, 1, 0, "", ""},
                    {"type and count", broadcast<A, double>, 1, 0, "", ""},
                    {"type", broadcast<A, float>, 0, 0, "x int", "x float"},
                    {"root", broadcast<A, int>, 0, moved_root, "root ", ""},
                    {"algorithm", broadcast<B, int>, 0, 0, "by " + std::string(A::name), "by " + std::string(B::name)},
                    {"collective", scatter<A, int>, 0, 0, "called broadcast of", "called scatter of"},
                    {"collective", allreduce<A, int>, 0, 0, "called broadcast of", "called allreduce of"}}});
  };
  check.operator()<flat, binomial>();
  check.operator()<binomial, flat>();
}

TEST_CASE("F1 mismatch: scatter") {
  const deadline limit(std::chrono::seconds(60));
  const auto check = []<class A, class B>() {
    check_subject({"scatter by " + std::string(A::name),
                   scatter<A, int>,
                   {{"count", scatter<A, int>, 3, 0, "", ""},
                    {"count", scatter<A, int>, 1, 0, "", ""},
                    {"type and count", scatter<A, double>, 1, 0, "", ""},
                    {"type", scatter<A, float>, 0, 0, "x int", "x float"},
                    {"root", scatter<A, int>, 0, moved_root, "root ", ""},
                    {"algorithm", scatter<B, int>, 0, 0, "by " + std::string(A::name), "by " + std::string(B::name)},
                    {"collective", gather<A, int>, 0, 0, "called scatter of", "called gather of"},
                    {"collective", broadcast<A, int>, 0, 0, "called scatter of", "called broadcast of"}}});
  };
  check.operator()<flat, binomial>();
  check.operator()<binomial, flat>();
}

TEST_CASE("F1 mismatch: gather") {
  const deadline limit(std::chrono::seconds(60));
  const auto check = []<class A, class B>() {
    check_subject({"gather by " + std::string(A::name),
                   gather<A, int>,
                   {{"count", gather<A, int>, 3, 0, "", ""},
                    {"count", gather<A, int>, 1, 0, "", ""},
                    {"type and count", gather<A, double>, 1, 0, "", ""},
                    {"type", gather<A, float>, 0, 0, "x int", "x float"},
                    {"root", gather<A, int>, 0, moved_root, "root ", ""},
                    {"algorithm", gather<B, int>, 0, 0, "by " + std::string(A::name), "by " + std::string(B::name)},
                    {"collective", reduce<A, int>, 0, 0, "called gather of", "called reduce of"},
                    {"collective", scatter<A, int>, 0, 0, "called gather of", "called scatter of"}}});
  };
  check.operator()<flat, binomial>();
  check.operator()<binomial, flat>();
}

TEST_CASE("F1 mismatch: reduce") {
  const deadline limit(std::chrono::seconds(60));
  const auto check = []<class A, class B>() {
    check_subject({"reduce by " + std::string(A::name),
                   reduce<A, int>,
                   {{"count", reduce<A, int>, 3, 0, "", ""},
                    {"count", reduce<A, int>, 1, 0, "", ""},
                    {"type and count", reduce<A, double>, 1, 0, "", ""},
                    {"type", reduce<A, float>, 0, 0, "x int", "x float"},
                    {"operation", reduce<A, int, maximum>, 0, 0, "with std::plus<", "maximum root"},
                    {"root", reduce<A, int>, 0, moved_root, "root ", ""},
                    {"algorithm", reduce<B, int>, 0, 0, "by " + std::string(A::name), "by " + std::string(B::name)},
                    {"collective", gather<A, int>, 0, 0, "called reduce of", "called gather of"},
                    {"collective", allreduce<A, int>, 0, 0, "called reduce of", "called allreduce of"}}});
  };
  check.operator()<flat, binomial>();
  check.operator()<binomial, flat>();
}
