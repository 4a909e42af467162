// SPDX-License-Identifier: BSL-1.0

// F1, F2: calls in another order, the same with the places that the message names, and messages left over.

#include "communicator/mismatch.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <random>
#include <string>
#include <vector>

using namespace test;
using tutti::binomial, tutti::bruck, tutti::circulant, tutti::dissemination, tutti::flat, tutti::naive, tutti::ring;

namespace {

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

}  // namespace

TEST_CASE("F1 mismatch: the order of two calls") {
  const deadline limit(std::chrono::seconds(60));
  for (const int ranks : {2, 3, 5}) {
    for (const auto& [first, first_name] : verbs) {
      for (const auto& [second, second_name] : verbs) {
        if (first == second) continue;
        const std::string name = first_name + " and " + second_name + ", " + std::to_string(ranks) + " ranks";
        CAPTURE(name);
        const auto ended = outcomes_of_run(ranks, [&, one = first, other = second](communicator& comm) {
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
        CHECK(contains(ended.run.text, "called " + first_name + ' '));
        CHECK(contains(ended.run.text, "rank 1 called " + second_name + ' '));
        CHECK(contains(ended.run.text, "usual.cpp:1"));
        CHECK(contains(ended.run.text, "odd.cpp:2"));
      }
    }
  }
}

TEST_CASE("F1 mismatch: one rank makes one mistake somewhere in a long program") {
  const deadline limit(std::chrono::seconds(120));
  struct step {
    std::size_t verb;
    std::size_t each;
    int root;
    bool operator==(const step&) const = default;
  };
  std::mt19937 random(5);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  for (int repetition = 0; repetition < (sanitized ? 100 : 300); ++repetition) {
    const int ranks = 2 + repetition % 4;
    const auto some_step = [&] {
      step s{below(verbs.size()), std::vector<std::size_t>{0, 1, 30, 400, 3000}[below(5)],
             static_cast<int>(below(static_cast<std::size_t>(ranks)))};
      const std::string& name = verbs[s.verb].second;
      if (name == "barrier") s.each = 0;
      if (name != "broadcast" && name != "scatter" && name != "gather" && name != "reduce") s.root = 0;
      return s;
    };
    std::vector<step> usual(25);
    for (step& s : usual) s = some_step();
    const auto what = below(3);
    const std::size_t at = below(usual.size());
    std::vector<step> odd = usual;
    const auto place = odd.begin() + static_cast<std::ptrdiff_t>(at);
    if (what == 0) odd.erase(place);
    if (what == 1) odd.insert(place, some_step());
    while (what == 2 && odd[at] == usual[at]) odd[at] = some_step();
    const int odd_rank = static_cast<int>(below(static_cast<std::size_t>(ranks)));
    CAPTURE(repetition);
    CAPTURE(ranks);
    CAPTURE(what);
    CAPTURE(at);
    CAPTURE(odd_rank);
    const auto ended = outcomes_of_run(ranks, [&](communicator& comm) {
      for (const step& s : comm.rank() == odd_rank ? odd : usual)
        verbs[s.verb].first(comm, {s.each, s.root, {verbs[s.verb].second.c_str(), 1}});
    });
    CAPTURE(ended.run);
    // A call too few or too many may first be seen in that somebody has left.
    CHECK((ended.run.kind == "mismatch" || (what != 2 && ended.run.kind == "peer_failed")));
    for (const outcome& o : ended.of) CHECK((o == ended.run || o == outcome{}));
  }
}

TEST_CASE("F2 mismatch: the four that another library let pass or hung on, with the lines where they were called") {
  const deadline limit(std::chrono::seconds(60));
  std::atomic<int> odd_line = 0;
  std::atomic<int> usual_line = 0;
  for (const int ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    const auto check = [&](const std::string& what, auto&& odd_call, auto&& usual_call) {
      CAPTURE(what);
      const auto ended = outcomes_of_run(ranks, [&](communicator& comm) {
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
      CHECK(contains(ended.run.text, __FILE__ ":" + std::to_string(odd_line)));
      CHECK(contains(ended.run.text, __FILE__ ":" + std::to_string(usual_line)));
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

TEST_CASE("F1 mismatch: a call that the others never made is found in the end") {
  const deadline limit(std::chrono::seconds(30));
  for (const int ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    const auto ended = outcomes_of_run(ranks, [](communicator& comm) {
      tutti::barrier(comm);
      if (comm.rank() == 1) broadcast<flat, int>(comm, {2, 1, odd_place});
    });
    for (const auto& of_rank : ended.of) CHECK(of_rank.kind == "none");
    CHECK(ended.run.kind == "mismatch");
    CAPTURE(ended.run.text);
    CHECK(contains(ended.run.text, "rank 0 called nothing"));
    CHECK(contains(ended.run.text, "rank 1 called broadcast of"));
    CHECK(contains(ended.run.text, "odd.cpp:2"));
  }
}

TEST_CASE("F1 mismatch: the very last call differs") {
  const deadline limit(std::chrono::seconds(30));
  for (const int ranks : {2, 3, 5}) {
    for (int odd = 0; odd < ranks; ++odd) {
      for (const auto& [usual, other] : {std::pair<verb, verb>{broadcast<flat, int>, scatter<binomial, int>},
                                         {gather<flat, int>, reduce<flat, int>}}) {
        for (const int root : {0, 1, ranks - 1}) {
          const int odd_root = root == 0 ? 1 : root == 1 && ranks > 2 ? 0 : root;
          CAPTURE(ranks);
          CAPTURE(odd);
          CAPTURE(odd_root);
          const verb odd_verb = root == odd_root ? other : usual;
          const auto ended =
              outcomes_of_run(ranks, [&, usual_verb = usual, r = root, o = odd_root](communicator& comm) {
                tutti::barrier(comm);
                if (comm.rank() == odd) {
                  odd_verb(comm, {2, o, odd_place});
                } else {
                  usual_verb(comm, {2, r, usual_place});
                }
              });
          CHECK(ended.run.kind == "mismatch");
          CAPTURE(ended.run.text);
          CHECK(contains(ended.run.text, "odd.cpp:2"));
          CHECK(contains(ended.run.text, "usual.cpp:1"));
        }
      }
    }
  }
}
