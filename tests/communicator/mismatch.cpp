// SPDX-License-Identifier: BSL-1.0

// F1, F2: what only the group can see. One rank calls something else than the others; every rank hears of it, in the
// same words, at this call or, where the collective had let it go, at its next one.

#include "communicator/outcome.hpp"
#include "deadline.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace {

using communicator = tutti::communicator<tutti::threads>;

struct arguments {
  std::size_t each;  // elements for each rank
  int root;
  tutti::call_site where;
};

/// A collective with its types fixed, so that one table can hold all of them.
using verb = void (*)(communicator&, const arguments&);

template <class T>
std::vector<T> whole(communicator& comm, const arguments& a) {
  return std::vector<T>(a.each * static_cast<std::size_t>(comm.size()), T(1));
}

template <class A, class T>
void broadcast(communicator& comm, const arguments& a) {
  tutti::broadcast<A>(comm, whole<T>(comm, a), a.root, a.where);
}
template <class A, class T>
void scatter(communicator& comm, const arguments& a) {
  tutti::scatter<A>(comm, whole<T>(comm, a), std::vector<T>(a.each), a.root, a.where);
}
template <class A, class T>
void gather(communicator& comm, const arguments& a) {
  tutti::gather<A>(comm, std::vector<T>(a.each), whole<T>(comm, a), a.root, a.where);
}
template <class A, class T, class Op = std::plus<>>
void reduce(communicator& comm, const arguments& a) {
  tutti::reduce<A>(comm, whole<T>(comm, a), whole<T>(comm, a), Op{}, a.root, a.where);
}
template <class A, class T, class Op = std::plus<>>
void reduce_scatter(communicator& comm, const arguments& a) {
  tutti::reduce_scatter<A>(comm, whole<T>(comm, a), std::vector<T>(a.each), Op{}, a.where);
}
template <class A, class T>
void allgather(communicator& comm, const arguments& a) {
  tutti::allgather<A>(comm, std::vector<T>(a.each), whole<T>(comm, a), a.where);
}
template <class A, class T, class Op = std::plus<>>
void allreduce(communicator& comm, const arguments& a) {
  tutti::allreduce<A>(comm, whole<T>(comm, a), whole<T>(comm, a), Op{}, a.where);
}
template <class A, class T>
void alltoall(communicator& comm, const arguments& a) {
  tutti::alltoall<A>(comm, whole<T>(comm, a), whole<T>(comm, a), a.where);
}
template <class A>
void barrier(communicator& comm, const arguments& a) {
  tutti::barrier<A>(comm, a.where);
}
template <class A, class T, class Op = std::plus<>>
void iallreduce(communicator& comm, const arguments& a) {
  auto data = whole<T>(comm, a);
  tutti::iallreduce<A>(comm, data, Op{}, a.where).wait();
}
/// Begun, and finished only after another collective.
template <class A, class T, class Op = std::plus<>>
void late_iallreduce(communicator& comm, const arguments& a) {
  auto data = whole<T>(comm, a);
  auto pending = tutti::iallreduce<A>(comm, data, Op{}, a.where);
  tutti::barrier(comm);
  pending.wait();
}

/// One field in which the odd rank's call differs, and what the message says of both calls besides their places.
struct difference {
  std::string field;
  verb call;
  std::size_t each;
  int root;
  std::string usual_value;
  std::string odd_value;
};

struct subject {
  std::string name;
  verb call;
  std::vector<difference> differences;
};

constexpr int moved_root = -1;  // the root after the usual one

std::string of(std::size_t count, const char* type) { return "of " + std::to_string(count) + " x " + type; }

constexpr tutti::call_site usual_place{"usual.cpp", 1};
constexpr tutti::call_site odd_place{"odd.cpp", 2};

void check_each(const subject& s, int ranks, std::size_t each) {
  for (const difference& d : s.differences) {
    for (const int odd : std::set<int>{0, 1, ranks - 1}) {
      const int usual_root = ranks / 2;
      const int odd_root = d.root == moved_root ? (usual_root + 1) % ranks : usual_root;
      const std::string name = s.name + ", " + d.field + " differs on rank " + std::to_string(odd) + " of " +
                               std::to_string(ranks) + ", " + std::to_string(each) + " elements each";
      CAPTURE(name);
      const auto ended = test::outcomes_of_run(ranks, [&](communicator& comm) {
        tutti::barrier(comm);
        const auto first = test::outcome_of([&] {
          if (comm.rank() == odd) {
            d.call(comm, {d.each == 0 ? each : each * d.each / 2, odd_root, odd_place});
          } else {
            s.call(comm, {each, usual_root, usual_place});
          }
          // The one who finds out may do so inside the first barrier, after it has let others go from that, too.
          tutti::barrier(comm);
          tutti::barrier(comm);
        });
        // Once more, and the same is thrown again, whatever is called.
        const auto again = test::outcome_of([&] { tutti::allreduce(comm, std::vector<int>(3), std::plus{}); });
        if (!(first == again)) throw std::logic_error("not the same twice: " + first.text + " and then " + again.text);
        tutti::barrier(comm);
      });
      const std::string& text = ended.of[0].text;
      for (const auto& of_rank : ended.of) {
        CHECK(of_rank.kind == "mismatch");
        CHECK(of_rank.text == text);
      }
      CHECK(ended.run.kind == "mismatch");
      CHECK(ended.run.text == text);
      CAPTURE(text);
      CHECK(test::contains(text, "rank " + std::to_string(odd) + " called "));
      CHECK(test::contains(text, "odd.cpp:2"));
      CHECK(test::contains(text, "usual.cpp:1"));
      const auto p = static_cast<std::size_t>(ranks);
      const bool counted = d.field == "count" || d.field == "type and count";
      CHECK(test::contains(text, counted ? of(p * each, "int") : d.usual_value));
      const std::string odd_value = d.field == "count"            ? of(p * each * d.each / 2, "int")
                                    : d.field == "type and count" ? of(p * each / 2, "double")
                                    : d.field == "root"           ? "root " + std::to_string(odd_root)
                                                                  : d.odd_value;
      CHECK(test::contains(text, odd_value));
    }
  }
}

void check_subject(const subject& s) {
  for (const int ranks : {2, 3, 5}) {
    check_each(s, ranks, 2);                           // in the channel
    check_each(s, ranks, 200);                         // copied
    if (!test::sanitized) check_each(s, ranks, 4000);  // where the sender has it
  }
}

}  // namespace

using tutti::binomial, tutti::bruck, tutti::circulant, tutti::dissemination, tutti::flat, tutti::halving_doubling,
    tutti::maximum, tutti::naive, tutti::ring;

// In each list: another count, larger and smaller; another type of the same size; fewer elements of twice the size, so
// that the same bytes are sent; another algorithm; another collective; another order of calls.

TEST_CASE("F1 mismatch: broadcast") {
  const test::deadline limit(std::chrono::seconds(60));
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
  const test::deadline limit(std::chrono::seconds(60));
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
  const test::deadline limit(std::chrono::seconds(60));
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
  const test::deadline limit(std::chrono::seconds(60));
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

TEST_CASE("F1 mismatch: reduce_scatter") {
  const test::deadline limit(std::chrono::seconds(60));
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
  const test::deadline limit(std::chrono::seconds(60));
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
  const test::deadline limit(std::chrono::seconds(60));
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
  const test::deadline limit(std::chrono::seconds(60));
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
  const test::deadline limit(std::chrono::seconds(60));
  check_subject({"barrier",
                 barrier<dissemination>,
                 {{"algorithm", barrier<flat>, 0, 0, "called barrier by dissemination", "called barrier by flat"},
                  {"collective", allgather<bruck, int>, 0, 0, "called barrier by", "called allgather of"},
                  {"collective", broadcast<flat, int>, 0, 0, "called barrier by", "called broadcast of"},
                  {"collective", iallreduce<flat, int>, 0, 0, "called barrier by", "called iallreduce of"}}});
}

TEST_CASE("F1 mismatch: iallreduce") {
  const test::deadline limit(std::chrono::seconds(120));
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

TEST_CASE("F1 mismatch: the order of two calls") {
  const test::deadline limit(std::chrono::seconds(60));
  const std::vector<std::pair<verb, std::string>> verbs{{broadcast<flat, int>, "broadcast"},
                                                        {scatter<binomial, int>, "scatter"},
                                                        {gather<flat, int>, "gather"},
                                                        {reduce<binomial, int>, "reduce"},
                                                        {reduce_scatter<ring, int>, "reduce_scatter"},
                                                        {allgather<circulant, int>, "allgather"},
                                                        {allreduce<naive, int>, "allreduce"},
                                                        {alltoall<bruck, int>, "alltoall"},
                                                        {barrier<dissemination>, "barrier"},
                                                        {iallreduce<ring, int>, "iallreduce"}};
  for (const int ranks : {2, 3, 5}) {
    for (const auto& [first, first_name] : verbs) {
      for (const auto& [second, second_name] : verbs) {
        if (first == second) continue;
        const std::string name = first_name + " and " + second_name + ", " + std::to_string(ranks) + " ranks";
        CAPTURE(name);
        const auto ended = test::outcomes_of_run(ranks, [&, one = first, other = second](communicator& comm) {
          const bool odd = comm.rank() == 1;
          (odd ? other : one)(comm, {5, 0, odd ? odd_place : usual_place});
          (odd ? one : other)(comm, {5, 0, {"second.cpp", 3}});
          tutti::barrier(comm);
        });
        for (const auto& of_rank : ended.of) {
          CHECK(of_rank.kind == "mismatch");
          CHECK(of_rank.text == ended.run.text);
        }
        CAPTURE(ended.run.text);
        CHECK(test::contains(ended.run.text, "called " + first_name + ' '));
        CHECK(test::contains(ended.run.text, "rank 1 called " + second_name + ' '));
        CHECK(test::contains(ended.run.text, "usual.cpp:1"));
        CHECK(test::contains(ended.run.text, "odd.cpp:2"));
      }
    }
  }
}

TEST_CASE("F2 mismatch: the four that another library let pass or hung on, with the lines where they were called") {
  const test::deadline limit(std::chrono::seconds(60));
  std::atomic<int> odd_line = 0;
  std::atomic<int> usual_line = 0;
  for (const int ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    const auto check = [&](const std::string& what, auto&& odd_call, auto&& usual_call) {
      CAPTURE(what);
      const auto ended = test::outcomes_of_run(ranks, [&](communicator& comm) {
        std::vector<int> data(200, 1);
        if (comm.rank() == 1) {
          odd_call(comm, data);
        } else {
          usual_call(comm, data);
        }
        tutti::barrier(comm);
      });
      for (const auto& of_rank : ended.of) {
        CHECK(of_rank.kind == "mismatch");
        CHECK(of_rank.text == ended.run.text);
      }
      CAPTURE(ended.run.text);
      CHECK(test::contains(ended.run.text, __FILE__ ":" + std::to_string(odd_line)));
      CHECK(test::contains(ended.run.text, __FILE__ ":" + std::to_string(usual_line)));
    };
    check(
        "sum and product",
        [&](communicator& comm, std::vector<int>& data) {
          odd_line = __LINE__ + 1;
          tutti::allreduce(comm, data, std::multiplies{});
        },
        [&](communicator& comm, std::vector<int>& data) {
          usual_line = __LINE__ + 1;
          tutti::allreduce(comm, data, std::plus{});
        });
    check(
        "roots",
        [&](communicator& comm, std::vector<int>& data) {
          odd_line = __LINE__ + 1;
          tutti::broadcast(comm, data, 1);
        },
        [&](communicator& comm, std::vector<int>& data) {
          usual_line = __LINE__ + 1;
          tutti::broadcast(comm, data, 0);
        });
    check(
        "100 and 200 elements",
        [&](communicator& comm, std::vector<int>& data) {
          odd_line = __LINE__ + 1;
          tutti::allreduce(comm, std::span(data).first(100), std::plus{});
        },
        [&](communicator& comm, std::vector<int>& data) {
          usual_line = __LINE__ + 1;
          tutti::allreduce(comm, data, std::plus{});
        });
    check(
        "200 and 100 elements",
        [&](communicator& comm, std::vector<int>& data) {
          odd_line = __LINE__ + 1;
          tutti::allreduce(comm, data, std::plus{});
        },
        [&](communicator& comm, std::vector<int>& data) {
          usual_line = __LINE__ + 1;
          tutti::allreduce(comm, std::span(data).first(100), std::plus{});
        });
  }
}

TEST_CASE("F1 mismatch: a message that nobody received is found in the end") {
  const test::deadline limit(std::chrono::seconds(30));
  for (const int ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    const auto ended = test::outcomes_of_run(ranks, [](communicator& comm) {
      tutti::barrier(comm);
      if (comm.rank() == 1) broadcast<flat, int>(comm, {2, 1, odd_place});
    });
    for (const auto& of_rank : ended.of) CHECK(of_rank.kind == "none");
    CHECK(ended.run.kind == "mismatch");
    CAPTURE(ended.run.text);
    CHECK(test::contains(ended.run.text, "rank 0 never received what rank 1 sent in broadcast of"));
    CHECK(test::contains(ended.run.text, "odd.cpp:2"));
  }
}
