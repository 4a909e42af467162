// SPDX-License-Identifier: BSL-1.0

// What the simulation does with schedules that are not as regular as most.

#include <tutti/schedule/algorithms.hpp>
#include <tutti/simulation/simulate.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

using namespace tutti;
using enum tutti::collective;

namespace {

/// A schedule of one block that a function writes: `Round(at, k, emit)`.
template <auto Round, int Rounds>
struct scripted {
  static constexpr bool rank_ordered = false;
  static constexpr bool overlapping = true;
  constexpr int rounds(place) const { return Rounds; }
  constexpr int blocks(int) const { return 1; }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    Round(at, k, emit);
  }
};

constexpr network plain{.latency = 10, .overhead = 0, .gap = 0, .byte = 1, .fold = 0, .ports = 1};

std::string error_of(const auto& s, int size, const network& net = plain) {
  try {
    simulate(s, size, 1, net);
  } catch (const usage_error& e) {
    return e.what();
  }
  return "no error";
}
bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("ranks may be in different rounds: what comes early is kept until its round") {
  // Rank 0 sends to rank 1 in each round; rank 1 first waits for the slow rank 2.
  constexpr auto chain = [](place at, int k, auto& emit) {
    if (at.rank == 0) emit(send_to{1, one_block(0)});
    if (at.rank == 1 && k == 0) emit(combine{2, one_block(0), side::left});
    if (at.rank == 1 && k > 0) emit(recv_from{0, one_block(0)});
    if (at.rank == 2 && k == 2) emit(send_to{1, one_block(0)});
    if (at.rank == 0 && k == 2) emit(recv_from{2, one_block(0)});
    if (at.rank == 2 && k == 1) emit(send_to{0, one_block(0)});
  };
  // Rank 0: three sends of 5 bytes, the first two of which rank 1 receives.
  const scripted<chain, 3> s{};
  CHECK(contains(error_of(s, 3), "rank 1 of 3 gets a message from rank 0 that it never receives"));
  const scripted<chain, 2> shorter{};
  CHECK(contains(error_of(shorter, 3), "rank 1 of 3 waits in round 0 for a message from rank 2 that never comes"));
}

TEST_CASE("messages between two ranks are matched in the order in which they were sent") {
  // Two messages of one round to one peer, apart: the first is stored, the second folded, and folding takes long.
  constexpr auto twice = [](place at, int, auto& emit) {
    if (at.rank == 0) {
      emit(send_to{1, one_block(0)});
      emit(send_to{2, one_block(0)});
      emit(send_to{1, one_block(0)});
    } else if (at.rank == 1) {
      emit(recv_from{0, one_block(0)});
      emit(combine{2, one_block(0), side::left});
      emit(combine{0, one_block(0), side::left});
    } else {
      emit(recv_from{0, one_block(0)});
      emit(send_to{1, one_block(0)});
    }
  };
  network net = plain;
  net.fold = 100;
  const auto r = simulate(scripted<twice, 1>{}, 3, 1, net);
  CHECK(r.messages == 4);
  // Rank 0's first comes at 11; rank 2's behind it at 12 and is folded until 112; rank 0's second until 212.
  CHECK(r.makespan == 212);
}

TEST_CASE("sends leave in listed order, arrivals are taken in as they come") {
  // Rank 0 hears of a near rank that began late and of a far one's long message.
  constexpr auto gather = [](place at, int k, auto& emit) {
    if (at.rank == 0 && k == 0) {
      emit(combine{1, one_block(0), side::left});
      emit(combine{2, one_block(0), side::left});
    }
    if (at.rank == 1 && k == 1) emit(send_to{0, one_block(0)});
    if (at.rank == 1 && k == 0) emit(recv_from{3, one_block(0)});
    if (at.rank == 3 && k == 0) emit(send_to{1, one_block(0)});
    if (at.rank == 2 && k == 0) emit(send_to{0, one_block(0)});
  };
  network net = plain;
  net.fold = 50;
  // Rank 2's comes at 11: folded until 61. Rank 1's leaves at 11 and comes at 22: folded until 111.
  std::vector<double> finish(4);
  const auto r = simulate_each_rank(scripted<gather, 2>{}, 4, 1, net, finish);
  CHECK(r.makespan == 111);
  CHECK(finish == std::vector<double>{111, 12, 1, 1});
}

TEST_CASE("a round waits until its sends have left") {
  constexpr auto stream = [](place at, int, auto& emit) {
    if (at.rank == 0) emit(send_to{1, one_block(0)});
    if (at.rank == 1) emit(recv_from{0, one_block(0)});
  };
  std::vector<double> finish(2);
  simulate_each_rank(scripted<stream, 4>{}, 2, 3, plain, finish);
  CHECK(finish == std::vector<double>{12, 22});  // pipelined: one latency
}

namespace {

/// A pipelined chain with segments: rank r passes segment j on in round r + j. Idle in most rounds, and says so.
struct pipelined_chain {
  int root;
  int segments;
  bool says_so;
  mutable long long asked = 0;

  static constexpr bool rank_ordered = true;
  static constexpr bool overlapping = false;

  int rounds(place at) const { return at.size + segments - 2; }
  int blocks(int) const { return segments; }
  int next_round(place at, int k) const {
    if (!says_so) return k;
    const int first = at.rank == 0 ? 0 : at.rank - 1;
    const int last = at.rank + 1 < at.size ? at.rank + segments - 1 : at.rank + segments - 2;
    return k < first ? first : k <= last ? k : rounds(at);
  }
  template <class Emit>
  void round(place at, int k, Emit&& emit) const {
    ++asked;
    if (const int j = k - at.rank; j >= 0 && j < segments && at.rank + 1 < at.size)
      emit(send_to{at.rank + 1, one_block(j)});
    if (const int j = k - at.rank + 1; j >= 0 && j < segments && at.rank > 0)
      emit(recv_from{at.rank - 1, one_block(j)});
  }
};
static_assert(schedule<pipelined_chain>);

}  // namespace

TEST_CASE("a pipelined chain of k segments costs k - 1 segments more than one, and idle rounds need not be asked for") {
  for (const int p : {2, 3, 10}) {
    for (const int k : {1, 4, 20}) {
      network net = plain;
      net.latency = 7;
      const auto bytes = static_cast<std::size_t>(k * 3);
      const pipelined_chain slow{0, k, false};
      const pipelined_chain fast{0, k, true};
      const auto r = simulate(slow, p, bytes, net);
      // A segment's way to the last rank, and the others behind it.
      CHECK(r.makespan == (p - 1) * (3 + 7) + (k - 1) * 3);
      CHECK(r == simulate(fast, p, bytes, net));
      CHECK(slow.asked == p * (p + k - 2));
      CHECK(fast.asked <= p * (k + 1));
      CHECK(count(slow, p) == count(fast, p));
    }
  }
}

namespace {

struct own_fold {
  static constexpr bool rank_ordered = false;
  static constexpr bool overlapping = false;
  [[maybe_unused]] static constexpr int vectors = 2;
  constexpr int rounds(place) const { return 2; }
  constexpr int blocks(int) const { return 4; }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    if (k == 1 && at.rank == 0) emit(send_to{1, one_block(0)});
    if (k == 1 && at.rank == 1) emit(recv_from{0, one_block(0)});
    if (k == 0 && at.rank == 0) emit(reduce_local{{1, 1, 2}, side::left, 1, 0});
  }
};

}  // namespace

TEST_CASE("folding blocks of its own keeps a rank's processor busy") {
  network net = plain;
  net.fold = 3;
  const auto r = simulate(own_fold{}, 2, 20, net);  // 5 bytes a block, two are folded
  CHECK(r.makespan == 10 * 3 + 5 + 10);
  CHECK(r.messages == 1);
}

TEST_CASE("what cannot be simulated is said with its value") {
  constexpr auto nothing = [](place, int, auto&) {};
  constexpr auto far = [](place at, int, auto& emit) { emit(send_to{at.rank + 7, one_block(0)}); };
  const scripted<nothing, 1> s{};
  CHECK(contains(error_of(s, 0), "simulate: 0 ranks, not 1 or more"));
  CHECK(contains(error_of(scripted<far, 1>{}, 2), "rank 0 of 2 names rank 7 as its peer"));
  network net = plain;
  net.ports = 0;
  CHECK(contains(error_of(s, 2, net), "0 ports, not 1 or more"));
  net = plain;
  net.gap = -1;
  CHECK(contains(error_of(s, 2, net), "gap is -1.0"));
  net.gap = 0.0 / net.fold;
  CHECK(contains(error_of(s, 2, net), "the network's gap is"));
  std::vector<double> finish(3);
  CHECK_THROWS_WITH_AS(simulate_each_rank(s, 2, 1, plain, finish),
                       doctest::Contains("room for the times of 3 ranks, not of 2"), usage_error);
}

TEST_CASE("the same arguments give the same result, each rank's time too") {
  const schedule_for<allreduce, circulant> s{};
  std::vector<double> once(37), again(37);
  const auto first = simulate_each_rank(s, 37, 1000, network{}, once);
  CHECK(first == simulate_each_rank(s, 37, 1000, network{}, again));
  CHECK(once == again);
  CHECK(*std::max_element(once.begin(), once.end()) == first.makespan);
}

TEST_CASE("messages and bytes are those that are counted") {
  for (const int p : {2, 5, 16, 31}) {
    for_each_algorithm([&]<class A>() {
      if constexpr (implements<A, allreduce>) {
        if (!supports<A>(p)) return;
        const auto s = detail::make_schedule<schedule_for<allreduce, A>>(0, 3);
        const schedule_cost counted = count(s, p, 1000);
        const simulation_result r = simulate(s, p, 1000, network{});
        CAPTURE(name_of<A>());
        CHECK(r.rounds == counted.rounds);
        CHECK(r.messages == counted.messages);
        CHECK(r.bytes == counted.volume);
        CHECK(r.busiest == counted.sent);
      }
    });
  }
}
