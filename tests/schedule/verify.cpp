// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/algorithms.hpp>
#include <tutti/schedule/proof.hpp>

#include <doctest/doctest.h>

using enum tutti::collective;
using tutti::all_blocks;
using tutti::block_set;
using tutti::combine;
using tutti::fault;
using tutti::one_block;
using tutti::place;
using tutti::recv_from;
using tutti::send_to;
using tutti::side;

namespace {

/// One round, written by the function that the test passes; a whole vector of `Blocks` blocks.
template <auto Round, int Blocks = 1, bool Ordered = false, bool Overlapping = false, int Rounds = 1>
struct scripted {
  static constexpr bool rank_ordered = Ordered;
  static constexpr bool overlapping = Overlapping;
  constexpr int rounds(place) const { return Rounds; }
  constexpr int blocks(int) const { return Blocks; }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    Round(at, k, emit);
  }
};

template <tutti::collective C, class S>
constexpr fault fault_of(int size, int root = 0) {
  return tutti::correct<C, S>(size, root).what;
}

constexpr auto nothing = [](place, int, auto&) {};
constexpr auto exchange = [](place at, int, auto& emit) {
  emit(send_to{1 - at.rank, one_block(0)});
  emit(combine{1 - at.rank, one_block(0), at.rank == 1 ? side::left : side::right});
};

}  // namespace

TEST_CASE("a right schedule has no fault") {
  static_assert(fault_of<allreduce, scripted<exchange, 1, true, true>>(2) == fault::none);
  CHECK(fault_of<allreduce, scripted<nothing>>(1) == fault::none);
}

TEST_CASE("wrong_blocks: owners need a block each") {
  CHECK(fault_of<reduce_scatter, scripted<nothing, 3>>(2) == fault::wrong_blocks);
  CHECK(fault_of<allgather, scripted<nothing, 1>>(2) == fault::wrong_blocks);
  CHECK(fault_of<allreduce, scripted<nothing, 0>>(1) == fault::wrong_blocks);
}

TEST_CASE("bad_peer: a rank does not talk to itself or to nobody") {
  constexpr auto to_itself = [](place at, int, auto& emit) { emit(send_to{at.rank, one_block(0)}); };
  constexpr auto outside = [](place at, int, auto& emit) { emit(send_to{at.size, one_block(0)}); };
  constexpr auto negative = [](place, int, auto& emit) { emit(recv_from{-1, one_block(0)}); };
  CHECK(fault_of<allreduce, scripted<to_itself>>(2) == fault::bad_peer);
  CHECK(fault_of<allreduce, scripted<outside>>(2) == fault::bad_peer);
  CHECK(fault_of<allreduce, scripted<negative>>(2) == fault::bad_peer);
}

TEST_CASE("bad_set: sets are neither empty nor name a block twice") {
  constexpr auto empty = [](place at, int, auto& emit) { emit(send_to{1 - at.rank, {0, 1, 0}}); };
  constexpr auto twice = [](place at, int, auto& emit) { emit(send_to{1 - at.rank, {0, 2, 2}}); };
  constexpr auto many = [](place at, int, auto& emit) { emit(send_to{1 - at.rank, {0, 1, 3}}); };
  CHECK(fault_of<allreduce, scripted<empty, 2>>(2) == fault::bad_set);
  CHECK(fault_of<allreduce, scripted<twice, 2>>(2) == fault::bad_set);
  CHECK(fault_of<allreduce, scripted<many, 2>>(2) == fault::bad_set);
}

TEST_CASE("conflicting_writes: one round writes a block once, or folds equal sets into it") {
  constexpr auto stores_twice = [](place at, int, auto& emit) {
    if (at.rank != 0) return emit(send_to{0, one_block(0)});
    emit(recv_from{1, one_block(0)});
    emit(recv_from{2, one_block(0)});
  };
  constexpr auto unequal = [](place at, int, auto& emit) {
    if (at.rank == 1) emit(send_to{0, all_blocks(2)});
    if (at.rank == 2) emit(send_to{0, one_block(0)});
    if (at.rank != 0) return;
    emit(combine{1, all_blocks(2), side::right});
    emit(combine{2, one_block(0), side::right});
  };
  CHECK(fault_of<reduce, scripted<stores_twice>>(3) == fault::conflicting_writes);
  CHECK(fault_of<reduce, scripted<unequal, 2>>(3) == fault::conflicting_writes);
}

TEST_CASE("undeclared_overlap: a round that writes what it sends says so") {
  CHECK(fault_of<allreduce, scripted<exchange, 1, true, false>>(2) == fault::undeclared_overlap);
}

TEST_CASE("absent_value: nobody sends or folds into what has not arrived") {
  constexpr auto sends_early = [](place at, int, auto& emit) {
    if (at.rank == 1) emit(send_to{0, one_block(0)});
    if (at.rank == 0) emit(recv_from{1, one_block(0)});
  };
  constexpr auto folds_early = [](place at, int, auto& emit) {
    if (at.rank == 0) emit(send_to{1, one_block(0)});
    if (at.rank == 1) emit(combine{0, one_block(0), side::right});
  };
  CHECK(fault_of<broadcast, scripted<sends_early>>(2) == fault::absent_value);
  CHECK(fault_of<broadcast, scripted<folds_early>>(2) == fault::absent_value);
}

TEST_CASE("counted_twice: the full exchange over cyclic distances counts twice unless p is a power of two") {
  constexpr auto full_exchange = [](place at, int k, auto& emit) {
    emit(send_to{(at.rank + (1 << k)) % at.size, one_block(0)});
    emit(combine{(at.rank + at.size - (1 << k)) % at.size, one_block(0), side::left});
  };
  CHECK(fault_of<allreduce, scripted<full_exchange, 1, false, true, 2>>(3) == fault::counted_twice);
  CHECK(fault_of<allreduce, scripted<full_exchange, 1, false, true, 3>>(6) == fault::counted_twice);
  // A power of two counts once, but every rank begins its fold with another operand.
  CHECK(fault_of<allreduce, scripted<full_exchange, 1, false, true, 2>>(4) == fault::ranks_differ);
}

TEST_CASE("unequal_sets: both ends of a message name the same blocks") {
  constexpr auto differ = [](place at, int, auto& emit) {
    if (at.rank == 1) emit(send_to{0, one_block(1)});
    if (at.rank == 0) emit(combine{1, one_block(0), side::right});
  };
  constexpr auto longer = [](place at, int, auto& emit) {
    if (at.rank == 1) emit(send_to{0, all_blocks(2)});
    if (at.rank == 0) emit(combine{1, one_block(0), side::right});
  };
  constexpr auto same_blocks = [](place at, int, auto& emit) {
    if (at.rank == 1) emit(send_to{0, {0, 1, 2}});
    if (at.rank == 0) emit(combine{1, {2, -1, 2}, side::right});  // 2 is 0 modulo 2: the same blocks, written otherwise
  };
  CHECK(fault_of<reduce, scripted<differ, 2>>(2) == fault::unequal_sets);
  CHECK(fault_of<reduce, scripted<longer, 2>>(2) == fault::unequal_sets);
  CHECK(fault_of<reduce, scripted<same_blocks, 2>>(2) == fault::none);
}

TEST_CASE("unmatched: messages are both sent and received") {
  constexpr auto only_sent = [](place at, int, auto& emit) {
    if (at.rank == 1) emit(send_to{0, one_block(0)});
  };
  constexpr auto only_received = [](place at, int, auto& emit) {
    if (at.rank == 0) emit(combine{1, one_block(0), side::right});
  };
  CHECK(fault_of<reduce, scripted<only_sent>>(2) == fault::unmatched);
  CHECK(fault_of<reduce, scripted<only_received>>(2) == fault::unmatched);
}

TEST_CASE("deadlock: ranks that wait for each other in a circle, a round apart") {
  constexpr auto receive_first = [](place at, int k, auto& emit) {
    if (k == 0) emit(recv_from{(at.rank + 1) % at.size, one_block(0)});
    if (k == 1) emit(send_to{(at.rank + at.size - 1) % at.size, one_block(0)});
  };
  constexpr auto send_first = [](place at, int k, auto& emit) {
    if (k == 0) emit(send_to{(at.rank + 1) % at.size, one_block(0)});
    if (k == 1) emit(recv_from{(at.rank + at.size - 1) % at.size, one_block(0)});
  };
  CHECK(fault_of<reduce, scripted<receive_first, 1, false, false, 2>>(3) == fault::deadlock);
  CHECK(fault_of<reduce, scripted<send_first, 1, false, false, 2>>(3) == fault::deadlock);  // sends wait for receives
}

TEST_CASE("wrong_result: something is missing, or in another's place") {
  constexpr auto overwrites = [](place at, int, auto& emit) {
    if (at.rank == 1) emit(send_to{0, one_block(0)});
    if (at.rank == 0) emit(recv_from{1, one_block(0)});
  };
  CHECK(fault_of<reduce, scripted<nothing>>(2) == fault::wrong_result);
  CHECK(fault_of<reduce, scripted<overwrites>>(2) == fault::wrong_result);
  CHECK(fault_of<allgather, scripted<nothing, 2>>(2) == fault::wrong_result);
  CHECK(fault_of<barrier, scripted<nothing>>(2) == fault::wrong_result);
  CHECK(fault_of<scatter, scripted<nothing, 2>>(2, 1) == fault::wrong_result);
}

TEST_CASE("out_of_order: a claim of rank order is checked") {
  constexpr auto wrong_side = [](place at, int, auto& emit) {
    if (at.rank == 1) emit(send_to{0, one_block(0)});
    if (at.rank == 0) emit(combine{1, one_block(0), side::left});
  };
  CHECK(fault_of<reduce, scripted<wrong_side, 1, true>>(2) == fault::out_of_order);
  CHECK(fault_of<reduce, scripted<wrong_side, 1, false>>(2) == fault::none);
}

TEST_CASE("ranks_differ: in an allreduce all ranks compute the same expression") {
  constexpr auto own_first = [](place at, int, auto& emit) {
    emit(send_to{1 - at.rank, one_block(0)});
    emit(combine{1 - at.rank, one_block(0), side::right});
  };
  CHECK(fault_of<allreduce, scripted<own_first, 1, false, true>>(2) == fault::ranks_differ);
}

namespace {

/// All-to-all of two ranks, with whatever slots and moves the test wants.
template <auto Destination, auto Source, auto Round>
struct slots : scripted<Round, 2, true, true> {
  constexpr int destination(place at, int slot) const { return Destination(at, slot); }
  constexpr int source(place at, int slot) const { return Source(at, slot); }
};

}  // namespace

TEST_CASE("wrong_slots: destinations and sources are bijections, and blocks at home stay") {
  constexpr auto right = [](place at, int slot) { return (at.rank + slot) % 2; };
  constexpr auto same = [](place, int) { return 0; };
  constexpr auto by_rank = [](place, int slot) { return slot; };
  constexpr auto swap_slot_1 = [](place at, int, auto& emit) {
    emit(send_to{1 - at.rank, one_block(1)});
    emit(recv_from{1 - at.rank, one_block(1)});
  };
  constexpr auto swap_all = [](place at, int, auto& emit) {
    emit(send_to{1 - at.rank, all_blocks(2)});
    emit(recv_from{1 - at.rank, all_blocks(2)});
  };
  CHECK(fault_of<alltoall, slots<right, right, swap_slot_1>>(2) == fault::none);
  CHECK(fault_of<alltoall, slots<same, right, swap_slot_1>>(2) == fault::wrong_slots);
  CHECK(fault_of<alltoall, slots<right, same, swap_slot_1>>(2) == fault::wrong_slots);
  CHECK(fault_of<alltoall, slots<right, by_rank, swap_slot_1>>(2) == fault::wrong_slots);
  CHECK(fault_of<alltoall, slots<right, right, swap_all>>(2) == fault::wrong_slots);
  CHECK(fault_of<alltoall, slots<right, right, nothing>>(2) == fault::wrong_result);
}

namespace {

struct halving_in_order : tutti::hypercube_halving {
  static constexpr bool rank_ordered = true;
};
struct ring_in_order : tutti::ring {
  static constexpr bool rank_ordered = true;
};

}  // namespace

TEST_CASE("distance-halving and the ring do not keep rank order: the claim is refused") {
  CHECK(fault_of<reduce_scatter, tutti::reduce_scatter_of<halving_in_order>>(4) == fault::out_of_order);
  CHECK(fault_of<reduce_scatter, tutti::reduce_scatter_of<ring_in_order>>(3) == fault::out_of_order);
}

TEST_CASE("more than 64 ranks") {
  CHECK(fault_of<allreduce, tutti::allreduce_of<tutti::circulant>>(130) == fault::none);
  CHECK(fault_of<allreduce, tutti::schedule_for<allreduce, tutti::recursive_doubling>>(200) == fault::none);
  CHECK(fault_of<barrier, tutti::schedule_for<barrier, tutti::dissemination>>(129) == fault::none);
}
