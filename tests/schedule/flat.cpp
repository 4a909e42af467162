// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/flat.hpp>
#include <tutti/schedule/single_master.hpp>

#include "prove.hpp"

#include <cstddef>
#include <set>
#include <string>
#include <vector>

using namespace schedule_test;
using enum tutti::collective;

static_assert(route_is_proved<tutti::flat>());
static_assert(std::is_same_v<tutti::flat::reduce, tutti::single_master::reduce>);  // the stars are proved there
static_assert(tutti::schedule_for<allreduce, tutti::flat>::rank_ordered);
static_assert(tutti::schedule_for<reduce, tutti::flat>::rank_ordered);

TEST_CASE("flat is proved for all collectives, sizes and roots") {
  check_route<tutti::flat>(512);
  CHECK(prove<tutti::flat>() == 9);
}

TEST_CASE("what the route derives is as right as what flat writes out") {
  for (int size = 1; size <= 24; ++size) {
    CHECK(tutti::correct<reduce_scatter, tutti::reduce_scatter_of<tutti::flat>>(size));
    CHECK(tutti::correct<allgather, tutti::allgather_of<tutti::flat>>(size));
    CHECK(tutti::correct<alltoall, tutti::alltoall_of<tutti::flat>>(size));
    for (int root = 0; root < size; ++root) {
      CHECK(tutti::correct<reduce, tutti::reduce_of<tutti::flat>>(size, root));
      CHECK(tutti::correct<broadcast, tutti::broadcast_of<tutti::flat>>(size, root));
      CHECK(tutti::correct<scatter, tutti::scatter_of<tutti::flat>>(size, root));
      CHECK(tutti::correct<gather, tutti::gather_of<tutti::flat>>(size, root));
    }
  }
}

TEST_CASE("flat costs one round, n(p-1)/p bytes and fan-in p-1; allreduce twice that") {
  for (int size = 2; size <= 64; ++size) {
    CAPTURE(size);
    const long long others = size - 1;
    const tutti::schedule_cost expected{.rounds = 2,
                                        .fan_in = size - 1,
                                        .messages = 2 * size * others,
                                        .busiest = 2 * others,
                                        .volume = 2 * size * others,
                                        .sent = 2 * others,
                                        .received = 2 * others,
                                        .folds = others,
                                        .scratch = 1};
    CHECK(cost<allreduce, tutti::flat>(size) == expected);
    CHECK(cost<reduce, tutti::flat>(size).received == others);
    CHECK(cost<alltoall, tutti::flat>(size).sent == others);
    CHECK(cost<alltoall, tutti::flat>(size).rounds == 1);
  }
}

TEST_CASE("flat folds in rank order and sends to the next rank first") {
  std::string log;
  tutti::schedule_for<reduce_scatter, tutti::flat>{}.round({2, 4}, 0, [&](auto step) {
    if constexpr (tutti::is_send<decltype(step)>) log += " send to " + std::to_string(step.peer);
    if constexpr (tutti::is_combine<decltype(step)>) {
      log += (step.operand == tutti::side::left ? " left " : " right ") + std::to_string(step.peer);
    }
  });
  CHECK(log == " send to 3 send to 0 send to 1 left 0 left 1 right 3");
}

TEST_CASE("in flat's allgather nobody is sent to by two ranks at the same time, and arrivals are taken in that order") {
  for (int size = 2; size <= 9; ++size) {
    const auto n = static_cast<std::size_t>(size);
    std::vector<std::vector<int>> to(n), from(n);
    for (int rank = 0; rank < size; ++rank) {
      tutti::schedule_for<allgather, tutti::flat>{}.round({rank, size}, 0, [&](auto step) {
        if constexpr (tutti::is_send<decltype(step)>) to[static_cast<std::size_t>(rank)].push_back(step.peer);
        if constexpr (tutti::is_recv<decltype(step)>) from[static_cast<std::size_t>(rank)].push_back(step.peer);
      });
    }
    for (std::size_t turn = 0; turn + 1 < n; ++turn) {
      std::set<int> sent_to;
      for (std::size_t rank = 0; rank < n; ++rank) {
        const int peer = to[rank].at(turn);
        sent_to.insert(peer);
        CHECK(from[static_cast<std::size_t>(peer)].at(turn) == static_cast<int>(rank));
      }
      CHECK(sent_to.size() == n);
    }
  }
}
