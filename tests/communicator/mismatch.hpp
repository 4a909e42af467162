// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "communicator/outcome.hpp"
#include "deadline.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace test {

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

inline constexpr int moved_root = -1;  // the root after the usual one

inline std::string of(std::size_t count, const char* type) { return "of " + std::to_string(count) + " x " + type; }

inline constexpr tutti::call_site usual_place{"usual.cpp", 1};
inline constexpr tutti::call_site odd_place{"odd.cpp", 2};

inline void check_each(const subject& s, int ranks, std::size_t each) {
  for (const difference& d : s.differences) {
    for (const int odd : std::set<int>{0, 1, ranks - 1}) {
      const int usual_root = ranks / 2;
      const int odd_root = d.root == moved_root ? (usual_root + 1) % ranks : usual_root;
      const std::string name = s.name + ", " + d.field + " differs on rank " + std::to_string(odd) + " of " +
                               std::to_string(ranks) + ", " + std::to_string(each) + " elements each";
      CAPTURE(name);
      const auto ended = outcomes_of_run(ranks, [&](communicator& comm) {
        tutti::barrier(comm);
        const auto first = outcome_of([&] {
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
        const auto again = outcome_of([&] { tutti::allreduce(comm, std::vector<int>(3), std::plus{}); });
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
      CHECK(contains(text, "rank " + std::to_string(odd) + " called "));
      CHECK(contains(text, "odd.cpp:2"));
      CHECK(contains(text, "usual.cpp:1"));
      const auto p = static_cast<std::size_t>(ranks);
      const bool counted = d.field == "count" || d.field == "type and count";
      CHECK(contains(text, counted ? of(p * each, "int") : d.usual_value));
      const std::string odd_value = d.field == "count"            ? of(p * each * d.each / 2, "int")
                                    : d.field == "type and count" ? of(p * each / 2, "double")
                                    : d.field == "root"           ? "root " + std::to_string(odd_root)
                                                                  : d.odd_value;
      CHECK(contains(text, odd_value));
    }
  }
}

inline void check_subject(const subject& s) {
  for (const int ranks : {2, 3, 5}) {
    check_each(s, ranks, 2);                     // in the channel
    check_each(s, ranks, 200);                   // copied
    if (!sanitized) check_each(s, ranks, 4000);  // where the sender has it
  }
}

}  // namespace test
