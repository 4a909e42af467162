// SPDX-License-Identifier: BSL-1.0

// Among two ranks collectives of few bytes are one exchange that does not go through the executor.

#include <tutti/collective/explain.hpp>
#include <tutti/run_processes.hpp>
#include <tutti/tutti.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "communicator/outcome.hpp"
#include "deadline.hpp"

namespace {

using tutti::collective;
using tutti::detail::is_exchange_of_two;
using tutti::detail::may_exchange;
using tutti::detail::most_exchanged_bytes;

template <class A>
using allreduce_by = tutti::schedule_for<collective::allreduce, A>;

static_assert(is_exchange_of_two<collective::allreduce, allreduce_by<tutti::naive>>());
static_assert(is_exchange_of_two<collective::allreduce, allreduce_by<tutti::recursive_doubling>>());
static_assert(!is_exchange_of_two<collective::allreduce, allreduce_by<tutti::flat>>());
static_assert(!is_exchange_of_two<collective::allreduce, allreduce_by<tutti::ring>>());
static_assert(!is_exchange_of_two<collective::allreduce, allreduce_by<tutti::halving_doubling>>());
static_assert(!is_exchange_of_two<collective::allreduce, allreduce_by<tutti::single_master>>());

template <collective C, class A>
constexpr bool is_by = is_exchange_of_two<C, tutti::schedule_for<C, A>>();
static_assert(is_by<collective::allgather, tutti::flat> && is_by<collective::reduce_scatter, tutti::flat>);
static_assert(is_by<collective::alltoall, tutti::flat> && is_by<collective::barrier, tutti::flat>);
static_assert(is_by<collective::barrier, tutti::dissemination>);
static_assert(
    !is_exchange_of_two<collective::reduce_scatter, tutti::schedule_for<collective::allgather, tutti::flat>>());
static_assert(
    !is_exchange_of_two<collective::allgather, tutti::schedule_for<collective::reduce_scatter, tutti::flat>>());
static_assert(!is_exchange_of_two<collective::allreduce, tutti::schedule_for<collective::allgather, tutti::flat>>());

/// Nearly one: `Wrong` says in what it is none.
enum class flaw { none, sides, overwrites, twice, silent };
template <flaw Wrong>
struct nearly {
  static constexpr bool rank_ordered = true;
  static constexpr bool overlapping = true;
  static constexpr bool whole_vector = true;

  constexpr int rounds(tutti::place at) const { return at.size > 1 ? (Wrong == flaw::twice ? 2 : 1) : 0; }
  constexpr int blocks(int) const { return 1; }
  template <class Emit>
  constexpr void round(tutti::place at, int, Emit&& emit) const {
    const int peer = 1 - at.rank;
    if (Wrong != flaw::silent || at.rank == 0) emit(tutti::send_to{peer, tutti::one_block(0)});
    if constexpr (Wrong == flaw::overwrites) {
      emit(tutti::recv_from{peer, tutti::one_block(0)});
    } else if (Wrong != flaw::silent || at.rank == 1) {
      const bool below = (peer < at.rank) != (Wrong == flaw::sides);
      emit(tutti::combine{peer, tutti::one_block(0), below ? tutti::side::left : tutti::side::right});
    }
  }
};
static_assert(is_exchange_of_two<collective::allreduce, nearly<flaw::none>>());
static_assert(!is_exchange_of_two<collective::allreduce, nearly<flaw::sides>>());
static_assert(!is_exchange_of_two<collective::allreduce, nearly<flaw::overwrites>>());
static_assert(!is_exchange_of_two<collective::allreduce, nearly<flaw::twice>>());
static_assert(!is_exchange_of_two<collective::allreduce, nearly<flaw::silent>>());

using of_threads = tutti::communicator<tutti::threads>;
using of_processes = tutti::communicator<tutti::processes>;
static_assert(may_exchange<collective::allreduce, tutti::automatic, int, of_threads>());
static_assert(may_exchange<collective::allreduce, tutti::ordered, int, of_processes>());
static_assert(may_exchange<collective::allgather, tutti::automatic, int, of_processes>());
static_assert(!may_exchange<collective::allreduce, tutti::flat, int, of_threads>());
static_assert(tutti::detail::may_exchange_reduction<collective::reduce_scatter, tutti::automatic, float, std::plus<>,
                                                    of_threads>());
// They are summed in wider accumulators.
static_assert(!tutti::detail::may_exchange_reduction<collective::allreduce, tutti::automatic, tutti::float16,
                                                     std::plus<>, of_threads>());

/// Associative, and it does not commute: a number's digits follow the other's.
struct digits {
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a * 1000 + b; }
};
std::uint64_t contribution(int rank, std::size_t i, std::size_t turn) {
  return 1 + (static_cast<std::uint64_t>(rank) * 7 + i * 3 + turn) % 900;
}

/// Throws where an element is wrong.
template <class Algorithm, class Comm>
void exchange_all_sizes(Comm& comm) {
  constexpr std::size_t size = sizeof(std::uint64_t);
  constexpr std::size_t most = most_exchanged_bytes / size;
  constexpr std::size_t held = tutti::detail::message_slot::inline_bytes / size;
  std::size_t turn = 0;
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{5}, held, held + 1, most, most + 1}) {
    // Each rank for itself in place or not, several times, since slots are used again.
    for (int how = 0; how < 40; ++how, ++turn) {
      std::vector<std::uint64_t> in(n);
      std::vector<std::uint64_t> out(n, 0);
      for (std::size_t i = 0; i < n; ++i) in[i] = contribution(comm.rank(), i, turn);
      const bool in_place = (how >> comm.rank() & 1) != 0;
      if (in_place) {
        out = in;
        tutti::allreduce<Algorithm>(comm, out, digits{});
      } else {
        tutti::allreduce<Algorithm>(comm, in, out, digits{});
        for (std::uint64_t& each : in) each = 999'999;  // it is this rank's again
      }
      for (std::size_t i = 0; i < n; ++i)
        if (out[i] != digits{}(contribution(0, i, turn), contribution(1, i, turn)))
          throw std::logic_error("element " + std::to_string(i) + " of " + std::to_string(n) + " is " +
                                 std::to_string(out[i]));
    }
  }
}

void require(bool is_right, const char* what, std::size_t n) {
  if (!is_right) throw std::logic_error(what + std::string(" of ") + std::to_string(n));
}
/// Of n elements, or of n a rank.
template <class Comm>
void exchange_blocks(Comm& comm, std::size_t n, std::size_t turn) {
  const bool in_place = (turn >> comm.rank() & 1) != 0;
  const auto rank = static_cast<std::size_t>(comm.rank());
  const auto value = [&](std::size_t of, std::size_t to, std::size_t i) {
    return contribution(static_cast<int>(of), i + 400 * to, turn);
  };
  std::vector<std::uint64_t> in(n);
  std::vector<std::uint64_t> whole(2 * n, 0);
  for (std::size_t i = 0; i < n; ++i) in[i] = value(rank, 0, i);
  if (in_place) {
    std::copy(in.begin(), in.end(), whole.begin() + static_cast<std::ptrdiff_t>(rank * n));
    tutti::allgather(comm, whole);
  } else {
    tutti::allgather(comm, in, whole);
    for (std::uint64_t& each : in) each = 999'999;
  }
  for (std::size_t i = 0; i < 2 * n; ++i) require(whole[i] == value(i / n, 0, i % n), "allgather", n);

  std::vector<std::uint64_t> slots(2 * n);
  for (std::size_t i = 0; i < 2 * n; ++i) slots[i] = value(rank, i / n, i % n);
  if (in_place) {
    whole = slots;
    tutti::alltoall(comm, whole);
  } else {
    tutti::alltoall(comm, slots, whole);
    for (std::uint64_t& each : slots) each = 999'999;
  }
  for (std::size_t i = 0; i < 2 * n; ++i) require(whole[i] == value(i / n, rank, i % n), "alltoall", n);

  std::vector<std::uint64_t> vector(n);
  for (std::size_t i = 0; i < n; ++i) vector[i] = value(rank, 0, i);
  const tutti::layout blocks(n, 2);
  std::vector<std::uint64_t> block(blocks.size(comm.rank()));
  if (in_place) {
    const auto mine = tutti::reduce_scatter(comm, vector, digits{});
    block.assign(mine.begin(), mine.end());
  } else {
    tutti::reduce_scatter(comm, vector, block, digits{});
    for (std::uint64_t& each : vector) each = 999'999;
  }
  for (std::size_t i = 0; i < block.size(); ++i) {
    const std::size_t at = blocks.offset(comm.rank()) + i;
    require(block[i] == digits{}(value(0, 0, at), value(1, 0, at)), "reduce_scatter", n);
  }
  tutti::barrier(comm);
}
template <class Comm>
void exchange_all_blocks(Comm& comm) {
  constexpr std::size_t size = sizeof(std::uint64_t);
  constexpr std::size_t most = most_exchanged_bytes / size;
  constexpr std::size_t held = tutti::detail::message_slot::inline_bytes / size;
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{1}, std::size_t{5}, held, held + 1, most, most + 1, 2 * most, 2 * most + 1})
    for (std::size_t turn = 0; turn < 20; ++turn) exchange_blocks(comm, n, turn);
}

}  // namespace

TEST_CASE("an exchange of two brings every block to its place, at every size up to where it ends") {
  const test::deadline limit(std::chrono::seconds(100));
  CHECK_NOTHROW(tutti::run(2, [](auto& comm) { exchange_all_blocks(comm); }));
  CHECK_NOTHROW(tutti::run_processes(2, [](auto& comm) { exchange_all_blocks(comm); }));
}

TEST_CASE("an exchange of two folds in rank order, in place and out of it, at every size up to where it ends") {
  const test::deadline limit(std::chrono::seconds(100));
  CHECK_NOTHROW(tutti::run(2, [](auto& comm) {
    exchange_all_sizes<tutti::automatic>(comm);
    exchange_all_sizes<tutti::ordered>(comm);
    exchange_all_sizes<tutti::naive>(comm);
    exchange_all_sizes<tutti::recursive_doubling>(comm);
  }));
  CHECK_NOTHROW(tutti::run_processes(2, [](auto& comm) {
    exchange_all_sizes<tutti::automatic>(comm);
    exchange_all_sizes<tutti::recursive_doubling>(comm);
  }));
}

TEST_CASE("where two ranks exchange, the choice would have taken the same algorithm") {
  const test::deadline limit(std::chrono::seconds(100));
  const auto ask = [](auto& comm) {
    const auto must = [&]<collective C>(std::string_view taken, std::size_t bytes) {
      const std::string chosen(tutti::explain<C>(comm, bytes).chosen);
      if (chosen != taken)
        throw std::logic_error(std::string(tutti::name_of(C)) + " by " + chosen + " at " + std::to_string(bytes));
    };
    for (std::size_t bytes = 0; bytes <= 2 * most_exchanged_bytes; ++bytes) {
      if (bytes <= most_exchanged_bytes) must.template operator()<collective::allreduce>("naive", bytes);
      must.template operator()<collective::allgather>("flat", bytes);
      must.template operator()<collective::reduce_scatter>("flat", bytes);
      must.template operator()<collective::alltoall>("flat", bytes);
    }
    must.template operator()<collective::barrier>("flat", 0);
  };
  CHECK_NOTHROW(tutti::run(2, ask));
  CHECK_NOTHROW(tutti::run_processes(2, ask));
}

TEST_CASE("an exchange of two finds what does not fit, and hears of a rank that fails in it") {
  const test::deadline limit(std::chrono::seconds(100));
  for (const std::size_t n : {std::size_t{2}, std::size_t{100}}) {
    CAPTURE(n);
    const test::outcome mismatch = test::outcome_of([&] {
      tutti::run(2, [&](auto& comm) {
        std::vector<int> data(n + static_cast<std::size_t>(comm.rank()));
        std::vector<int> out(data.size());
        tutti::allreduce(comm, data, out, std::plus{});
      });
    });
    CHECK(mismatch.kind == "mismatch");
    CHECK(test::contains(mismatch.text, "rank 0 called allreduce of " + std::to_string(n) + " x int"));
    CHECK(test::contains(mismatch.text, "by naive"));
    const test::outcome thrown = test::outcome_of([&] {
      tutti::run(2, [&](auto& comm) {
        std::vector<int> data(n);
        std::vector<int> out(n);
        tutti::allreduce(comm, data, out, [&](int a, int b) {
          if (comm.rank() == 1) throw std::runtime_error("no sum");
          return a + b;
        });
        for (;;) tutti::barrier(comm);
      });
    });
    CHECK(test::contains(thrown.text, "no sum"));
    const test::outcome late = test::outcome_of([&] {
      tutti::run(2, [&](auto& comm) {
        if (comm.rank() == 1) tutti::recv(comm, 0, std::vector<int>(1));  // for ever
        comm.timeout(std::chrono::milliseconds(50));
        std::vector<int> data(n);
        std::vector<int> out(n);
        tutti::allreduce(comm, data, out, std::plus{});
      });
    });
    CHECK(late.kind == "timed_out");
  }
}
