// SPDX-License-Identifier: BSL-1.0

// Collectives of few bytes that are one exchange, among two ranks or all, do not go through the executor.

#include <tutti/collective/explain.hpp>
#include <tutti/run_processes.hpp>
#include <tutti/tutti.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "communicator/outcome.hpp"
#include "deadline.hpp"
#include "on_processors.hpp"

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
using tutti::detail::exchanges_of_all;
static_assert(exchanges_of_all<collective::allreduce, allreduce_by<tutti::naive>>() == 1);
static_assert(exchanges_of_all<collective::allreduce, allreduce_by<tutti::flat>>() == 2);
static_assert(exchanges_of_all<collective::allreduce, allreduce_by<tutti::recursive_doubling>>() == 0);
static_assert(exchanges_of_all<collective::allreduce, allreduce_by<tutti::circulant>>() == 0);
template <collective C, class A>
constexpr bool is_of_all = exchanges_of_all<C, tutti::schedule_for<C, A>>() == 1;
static_assert(is_of_all<collective::allgather, tutti::flat> && is_of_all<collective::reduce_scatter, tutti::flat>);
static_assert(is_of_all<collective::alltoall, tutti::flat> && is_of_all<collective::barrier, tutti::flat>);
static_assert(!is_of_all<collective::allgather, tutti::ring> && !is_of_all<collective::barrier, tutti::dissemination>);
static_assert(exchanges_of_all<collective::reduce_scatter, tutti::schedule_for<collective::allgather, tutti::flat>>() ==
              0);

// Two ranks send each other messages in the round of naive, and show each other what they have in those of flat.
using tutti::detail::fewest_exchanging;
static_assert(fewest_exchanging<collective::allreduce, tutti::naive>() == 3);
static_assert(fewest_exchanging<collective::allreduce, tutti::flat>() == 2);
static_assert(fewest_exchanging<collective::gather, tutti::flat>() == 2);
struct not_of_two {
  struct reduce : tutti::schedule_for<collective::reduce, tutti::flat> {
    constexpr bool shared(tutti::place at, int) const { return at.size > 2; }
  };
  struct broadcast : tutti::schedule_for<collective::broadcast, tutti::flat> {
    constexpr bool shared(tutti::place at, int) const { return at.size > 2 || said_at_run_time(); }
    static bool said_at_run_time() { return true; }
  };
};
static_assert(fewest_exchanging<collective::reduce, not_of_two>() == 3);
static_assert(fewest_exchanging<collective::broadcast, not_of_two>() == 3);

using tutti::detail::is_star_by;
static_assert(is_star_by<collective::gather, tutti::flat> && is_star_by<collective::reduce, tutti::flat>);
static_assert(!is_star_by<collective::gather, tutti::binomial> && !is_star_by<collective::reduce, tutti::binomial>);
static_assert(is_star_by<collective::broadcast, tutti::flat> && is_star_by<collective::scatter, tutti::flat>);
static_assert(!is_star_by<collective::broadcast, tutti::binomial> && !is_star_by<collective::scatter, tutti::binomial>);
static_assert(!tutti::detail::is_star<collective::reduce, tutti::schedule_for<collective::gather, tutti::flat>>());
static_assert(!tutti::detail::is_star<collective::gather, tutti::schedule_for<collective::scatter, tutti::flat>>());
static_assert(!tutti::detail::is_star<collective::broadcast, tutti::schedule_for<collective::reduce, tutti::flat>>());

static_assert(is_exchange_of_two<collective::allreduce, nearly<flaw::none>>());
static_assert(!is_exchange_of_two<collective::allreduce, nearly<flaw::sides>>());
static_assert(!is_exchange_of_two<collective::allreduce, nearly<flaw::overwrites>>());
static_assert(!is_exchange_of_two<collective::allreduce, nearly<flaw::twice>>());
static_assert(!is_exchange_of_two<collective::allreduce, nearly<flaw::silent>>());

struct by_threes {
  static constexpr std::string_view name = "by_threes";
  static constexpr bool supports(int size) { return size % 3 == 0; }
  using allreduce = allreduce_by<tutti::naive>;
};
struct at_run_time {
  static constexpr std::string_view name = "at_run_time";
  struct allreduce : allreduce_by<tutti::naive> {
    int blocks(int size) const { return allreduce_by<tutti::naive>::blocks(size); }
  };
};

using of_threads = tutti::communicator<tutti::threads>;
using of_processes = tutti::communicator<tutti::processes>;
static_assert(may_exchange<collective::allreduce, tutti::automatic, int, of_threads>());
static_assert(may_exchange<collective::allreduce, tutti::ordered, int, of_processes>());
static_assert(may_exchange<collective::allgather, tutti::automatic, int, of_processes>());
static_assert(!may_exchange<collective::allreduce, tutti::flat, int, of_threads>());
// Threads write where others show. Of processes only the one that shows knows whether others can, and if it fails
// nobody would wait for them.
static_assert(tutti::opening_lane<of_threads::lane_type> && !tutti::opening_lane<of_processes::lane_type>);
// What is summed in wider accumulators travels as such.
static_assert(tutti::detail::folds_what_is_shown<collective::reduce_scatter, float, std::plus<>>);
static_assert(!tutti::detail::folds_what_is_shown<collective::allreduce, tutti::float16, std::plus<>>);
static_assert(!tutti::detail::folds_what_is_shown<collective::reduce, float, std::plus<>>);

/// Associative, and it does not commute: x -> a x + b after another such, in the halves of a word.
struct affine {
  std::uint64_t operator()(std::uint64_t f, std::uint64_t g) const {
    const std::uint64_t a = (f >> 32) * (g >> 32);
    const std::uint64_t b = (g >> 32) * (f & 0xffffffff) + (g & 0xffffffff);
    return a << 32 | (b & 0xffffffff);
  }
};
std::uint64_t contribution(std::size_t rank, std::size_t i, std::size_t turn) {
  return (3 + 2 * rank + i % 5) << 32 | (1 + (rank * 7 + i * 3 + turn) % 900);
}
std::uint64_t folded(std::size_t ranks, std::size_t i, std::size_t turn) {
  std::uint64_t all = contribution(0, i, turn);
  for (std::size_t rank = 1; rank < ranks; ++rank) all = affine{}(all, contribution(rank, i, turn));
  return all;
}
constexpr std::size_t size_of_each = sizeof(std::uint64_t);
constexpr std::size_t held = tutti::detail::message_slot::inline_bytes / size_of_each;

void require(bool is_right, const char* what, std::size_t n) {
  if (!is_right) throw std::logic_error(what + std::string(" of ") + std::to_string(n));
}
/// Where the ranks' vectors are: in memory of their own, or where every rank can read them.
enum class memory { own, shown };
template <memory Where, class Comm>
auto vector_of(Comm& comm, std::size_t n) {
  if constexpr (Where == memory::own) {
    return std::vector<std::uint64_t>(n);
  } else {
    return comm.template allocate<std::uint64_t>(n);
  }
}
/// Each rank works in place or not for itself. What it gave is its own again afterwards: it is overwritten at once.
template <class Algorithm, memory Where, class Comm>
void exchange_vectors(Comm& comm, std::size_t n, std::size_t turn) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const bool in_place = (turn >> comm.rank() % 4 & 1) != 0;
  auto in = vector_of<Where>(comm, n);
  auto out = vector_of<Where>(comm, n);
  for (std::size_t i = 0; i < n; ++i) in[i] = contribution(static_cast<std::size_t>(comm.rank()), i, turn);
  if (in_place) {
    std::copy(in.begin(), in.end(), out.begin());
    tutti::allreduce<Algorithm>(comm, out, affine{});
  } else {
    tutti::allreduce<Algorithm>(comm, in, out, affine{});
    for (std::uint64_t& each : in) each = 999'999;
  }
  for (std::size_t i = 0; i < n; ++i) require(out[i] == folded(ranks, i, turn), "allreduce", n);
}
/// Of n elements a rank, or of so many as the ranks have together.
template <memory Where, class Comm>
void exchange_blocks(Comm& comm, std::size_t n, std::size_t turn) {
  const bool in_place = (turn >> comm.rank() % 4 & 1) != 0;
  const auto rank = static_cast<std::size_t>(comm.rank());
  const auto ranks = static_cast<std::size_t>(comm.size());
  const auto value = [&](std::size_t of, std::size_t to, std::size_t i) {
    return contribution(of, i + 400 * to, turn);
  };
  auto in = vector_of<Where>(comm, n);
  auto whole = vector_of<Where>(comm, ranks * n);
  for (std::size_t i = 0; i < n; ++i) in[i] = value(rank, 0, i);
  if (in_place) {
    std::copy(in.begin(), in.end(), whole.data() + rank * n);
    tutti::allgather(comm, whole);
  } else {
    tutti::allgather(comm, in, whole);
    for (std::uint64_t& each : in) each = 999'999;
  }
  for (std::size_t i = 0; i < whole.size(); ++i) require(whole[i] == value(i / n, 0, i % n), "allgather", n);

  auto slots = vector_of<Where>(comm, ranks * n);
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = value(rank, i / n, i % n);
  if (in_place) {
    std::copy(slots.begin(), slots.end(), whole.begin());
    tutti::alltoall(comm, whole);
  } else {
    tutti::alltoall(comm, slots, whole);
    for (std::uint64_t& each : slots) each = 999'999;
  }
  for (std::size_t i = 0; i < whole.size(); ++i) require(whole[i] == value(i / n, rank, i % n), "alltoall", n);

  const std::size_t all = ranks * n + turn % 2;  // in blocks that are not all of one size
  auto vector = vector_of<Where>(comm, all);
  for (std::size_t i = 0; i < all; ++i) vector[i] = contribution(rank, i, turn);
  const tutti::layout blocks(all, comm.size());
  auto block = vector_of<Where>(comm, blocks.size(comm.rank()));
  if (in_place) {
    const auto mine = tutti::reduce_scatter(comm, vector, affine{});
    std::copy(mine.begin(), mine.end(), block.begin());
  } else {
    tutti::reduce_scatter(comm, vector, block, affine{});
    for (std::uint64_t& each : vector) each = 999'999;
  }
  for (std::size_t i = 0; i < block.size(); ++i)
    require(block[i] == folded(ranks, blocks.offset(comm.rank()) + i, turn), "reduce_scatter", all);
  tutti::barrier(comm);

  const std::size_t root = turn / 3 % ranks;
  const int to = static_cast<int>(root);
  for (std::size_t i = 0; i < n; ++i) in[i] = value(rank, 0, i);
  std::fill(whole.begin(), whole.end(), 0);
  if (in_place) {
    std::copy(in.begin(), in.end(), whole.data() + rank * n);
    tutti::gather(comm, whole, to);
  } else {
    tutti::gather(comm, in, whole, to);
    for (std::uint64_t& each : in) each = 999'999;
  }
  for (std::size_t i = 0; rank == root && i < whole.size(); ++i)
    require(whole[i] == value(i / n, 0, i % n), "gather", n);
  for (std::size_t i = 0; i < all; ++i) vector[i] = contribution(rank, i, turn);
  auto result = vector_of<Where>(comm, all);
  if (in_place) {
    tutti::reduce<tutti::flat>(comm, vector, affine{}, to);
    std::copy(vector.begin(), vector.end(), result.begin());
  } else {
    tutti::reduce<tutti::flat>(comm, vector, result, affine{}, to);
    for (std::uint64_t& each : vector) each = 999'999;
  }
  for (std::size_t i = 0; rank == root && i < all; ++i) require(result[i] == folded(ranks, i, turn), "reduce", all);

  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = rank == root ? value(root, i / n, i % n) : 0;
  if (in_place) {
    const auto mine = tutti::scatter(comm, whole, to);
    std::copy(mine.begin(), mine.end(), in.begin());
  } else {
    tutti::scatter(comm, whole, in, to);
  }
  for (std::uint64_t& each : whole) each = 999'999;
  for (std::size_t i = 0; i < n; ++i) require(in[i] == value(root, rank, i), "scatter", n);
  for (std::size_t i = 0; i < all; ++i) vector[i] = rank == root ? contribution(root, i, turn) : 0;
  tutti::broadcast(comm, vector, to);
  for (std::size_t i = 0; i < all; ++i) require(vector[i] == contribution(root, i, turn), "broadcast", all);
  for (std::uint64_t& each : vector) each = 999'999;
}

/// Throws where an element is wrong. Several times, since what is shown is shown in the same places again.
template <class Algorithm, memory Where = memory::own, class Comm>
void exchange_all_vectors(Comm& comm) {
  constexpr std::size_t two = most_exchanged_bytes / size_of_each;
  constexpr std::size_t copied = Comm::transport_type::copy_bytes / size_of_each;
  constexpr std::size_t all = tutti::detail::most_shown_bytes / size_of_each;
  const auto ranks = static_cast<std::size_t>(comm.size());
  using transport = typename Comm::transport_type;
  using tutti::detail::most_copied, tutti::detail::which_round;
  constexpr std::size_t alone = most_copied<transport>(which_round::only, false) / size_of_each;
  const std::size_t blocks = ranks * (most_copied<transport>(which_round::last, false) / size_of_each);
  const std::size_t of_crowded = ranks * (most_copied<transport>(which_round::last, true) / size_of_each);
  std::size_t turn = 0;
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{1}, std::size_t{5}, held, held + 1, two, two + 1, copied, copied + 1, all, all + 1,
        ranks - 1, alone, alone + 1, blocks - 1, blocks, blocks + 1, of_crowded, of_crowded + 1})
    for (int i = 0; i < 40; ++i) exchange_vectors<Algorithm, Where>(comm, n, turn++);
}
template <memory Where = memory::own, class Comm>
void exchange_all_blocks(Comm& comm) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::size_t two = most_exchanged_bytes / size_of_each / ranks;
  const std::size_t copied = Comm::transport_type::copy_bytes / size_of_each / ranks;
  const std::size_t all = tutti::detail::most_shown_bytes / size_of_each / ranks;
  constexpr std::size_t unwritten = Comm::transport_type::copy_bytes / size_of_each;  // of a gather
  std::size_t turn = 0;
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{5}, held, held + 1, two, two + 1, copied,
                              copied + 1, all, all + 1, unwritten, unwritten + 1})
    for (int i = 0; i < 20; ++i) exchange_blocks<Where>(comm, n, turn++);
}

}  // namespace

TEST_CASE("an exchange brings every block to its place, at every size up to where it ends") {
  const test::deadline limit(std::chrono::seconds(200));
  for (const int ranks : {2, 3, 4, 7, 16}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(tutti::run(ranks, [](auto& comm) { exchange_all_blocks(comm); }));
    if (ranks < 7) CHECK_NOTHROW(tutti::run_processes(ranks, [](auto& comm) { exchange_all_blocks(comm); }));
  }
}

TEST_CASE("an exchange folds in rank order, in place and out of it, at every size up to where it ends") {
  const test::deadline limit(std::chrono::seconds(200));
  for (const int ranks : {2, 3, 4, 7, 16}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(tutti::run(ranks, [](auto& comm) {
      exchange_all_vectors<tutti::automatic>(comm);
      exchange_all_vectors<tutti::ordered>(comm);
      exchange_all_vectors<tutti::naive>(comm);
      exchange_all_vectors<tutti::flat>(comm);
      if (comm.size() == 2) exchange_all_vectors<tutti::recursive_doubling>(comm);
    }));
    if (ranks < 7)
      CHECK_NOTHROW(tutti::run_processes(ranks, [](auto& comm) {
        exchange_all_vectors<tutti::automatic>(comm);
        exchange_all_vectors<tutti::flat>(comm);
      }));
  }
}

TEST_CASE("an exchange of what every rank can read brings all to its place too") {
  const test::deadline limit(std::chrono::seconds(200));
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(tutti::run_processes(ranks, [](auto& comm) {
      exchange_all_blocks<memory::shown>(comm);
      exchange_all_vectors<tutti::naive, memory::shown>(comm);
      exchange_all_vectors<tutti::flat, memory::shown>(comm);
    }));
  }
}

TEST_CASE("an exchange of ranks that share a processor brings all to its place too") {
  const test::deadline limit(std::chrono::seconds(200));
  const test::on_processors one(1);
  for (const int ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(tutti::run(ranks, [](auto& comm) {
      exchange_all_blocks(comm);
      exchange_all_vectors<tutti::naive>(comm);
      exchange_all_vectors<tutti::flat>(comm);
    }));
  }
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

TEST_CASE("an exchange in place sends what it was given, also where the lane has no room for it at first") {
  const test::deadline limit(std::chrono::seconds(100));
  // So many calls ahead, of which each is one message, a rank finds the ring full, and what is copied with it.
  const auto run_ahead = [](auto& comm) {
    for (const std::size_t n :
         {held + 2, most_exchanged_bytes / size_of_each / 2, most_exchanged_bytes / size_of_each}) {
      for (int ahead = 7; ahead <= 9; ++ahead) {
        std::vector<std::uint64_t> one(1);
        std::vector<std::uint64_t> data(n);
        std::vector<std::uint64_t> slots(n);
        for (std::size_t i = 0; i < n; ++i) {
          data[i] = contribution(static_cast<std::size_t>(comm.rank()), i, 0);
          slots[i] = static_cast<std::size_t>(comm.rank()) * 1000 + i;
        }
        for (const bool folds : {true, false}) {
          tutti::barrier(comm);
          // Rank 0 sleeps in its last call when this one comes: it finds room and the answer at once.
          if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
          for (int i = 0; i < ahead; ++i) tutti::scan(comm, one, std::plus{});
          if (folds) {
            tutti::allreduce(comm, data, affine{});
            for (std::size_t i = 0; i < n; ++i) require(data[i] == folded(2, i, 0), "allreduce", n);
          } else {
            tutti::alltoall(comm, slots);
            const std::size_t each = n / 2;
            for (std::size_t i = 0; i < 2 * each; ++i)
              require(slots[i] == i / each * 1000 + static_cast<std::size_t>(comm.rank()) * each + i % each, "alltoall",
                      n);
          }
        }
      }
    }
  };
  CHECK_NOTHROW(tutti::run(2, run_ahead));
  CHECK_NOTHROW(tutti::run_processes(2, run_ahead));
}

TEST_CASE("an algorithm of a user's need not support two ranks, or be known before the program runs") {
  const test::deadline limit(std::chrono::seconds(100));
  const test::outcome refused = test::outcome_of([] {
    tutti::run(2, [](auto& comm) {
      std::vector<int> data(3, 1);
      tutti::allreduce<by_threes>(comm, data, std::plus{});
    });
  });
  CHECK(refused.kind == "usage_error");
  CHECK(test::contains(refused.text, "does not support this number of ranks"));
  CHECK_NOTHROW(tutti::run(3, [](auto& comm) {
    std::vector<int> data(3, 1);
    tutti::allreduce<by_threes>(comm, data, std::plus{});
    require(data[2] == 3, "by_threes", 3);
  }));
  for (const int ranks : {2, 3})
    CHECK_NOTHROW(tutti::run(ranks, [ranks](auto& comm) {
      std::vector<int> data(3, 1);
      tutti::allreduce<at_run_time>(comm, data, std::plus{});
      require(data[2] == ranks, "at_run_time", 3);
    }));
}

TEST_CASE("a gather finds what does not fit, whether blocks are written where the root shows or sent to it") {
  const test::deadline limit(std::chrono::seconds(100));
  constexpr std::size_t sent = tutti::threads::copy_bytes / sizeof(int);
  for (const int ranks : {2, 4}) {
    for (const int root : {0, 1}) {
      for (const auto& [mine, others] : {std::pair{sent + 1, sent + 2}, {sent, sent + 1}, {sent + 1, sent}}) {
        const std::size_t of_one = mine;
        const std::size_t of_others = others;
        CAPTURE(ranks);
        CAPTURE(root);
        CAPTURE(of_one);
        CAPTURE(of_others);
        const test::outcomes ended = test::outcomes_of_run(ranks, [&](auto& comm) {
          const std::size_t each = comm.rank() == 1 ? of_one : of_others;
          const std::vector<int> in(each);
          std::vector<int> out(each * static_cast<std::size_t>(ranks));
          tutti::gather(comm, in, out, root);
          tutti::barrier(comm);
        });
        for (const test::outcome& own : ended.of) {
          CHECK(own.kind == "mismatch");
          CHECK(test::contains(own.text, "rank 1 called gather of " +
                                             std::to_string(of_one * static_cast<std::size_t>(ranks)) + " x int"));
        }
      }
    }
  }
}

TEST_CASE("a gather whose root or whose block does not come names who is late") {
  const test::deadline limit(std::chrono::seconds(100));
  constexpr std::size_t written = tutti::threads::copy_bytes / sizeof(int) + 1;
  for (const int absent : {0, 2}) {
    CAPTURE(absent);
    const test::outcome late = test::outcome_of([&] {
      tutti::run(3, [&](auto& comm) {
        tutti::barrier(comm);
        if (comm.rank() == absent) tutti::recv(comm, 1, std::vector<int>(1));  // for ever
        comm.timeout(std::chrono::milliseconds(test::sanitized ? 500 : 100));
        const std::vector<int> in(written);
        std::vector<int> out(3 * written);
        tutti::gather(comm, in, out, 0);
        tutti::barrier(comm);
      });
    });
    CHECK(late.kind == "timed_out");
    CHECK(late.peer == absent);
    CHECK(test::contains(late.text, "rank " + std::to_string(absent) + " was late"));
  }
}

namespace {
template <std::size_t Alignment>
struct alignas(Alignment) aligned_element {
  int value;
};
template <class T>
void gather_large(int ranks) {
  CAPTURE(ranks);
  CAPTURE(alignof(T));
  const std::size_t each = tutti::threads::copy_bytes / sizeof(T) + 3;
  CHECK_NOTHROW(tutti::run(ranks, [&](auto& comm) {
    for (const int root : {0, ranks - 1}) {
      std::vector<T> in(each);
      std::vector<T> out(comm.rank() == root ? each * static_cast<std::size_t>(ranks) : 0);
      for (std::size_t i = 0; i < each; ++i) in[i].value = comm.rank() * 10'000 + static_cast<int>(i);
      tutti::gather(comm, in, out, root);
      for (T& element : in) element.value = -1;
      for (std::size_t i = 0; i < out.size(); ++i)
        require(out[i].value == static_cast<int>(i / each * 10'000 + i % each), "gather", each);
    }
  }));
}
}  // namespace

TEST_CASE("large blocks are gathered among more ranks than exchange, and however elements are aligned") {
  const test::deadline limit(std::chrono::seconds(100));
  gather_large<aligned_element<4>>(tutti::detail::most_exchanging);
  gather_large<aligned_element<4>>(tutti::detail::most_exchanging + 1);
  gather_large<aligned_element<32>>(3);
  gather_large<aligned_element<64>>(3);
}

TEST_CASE("an allreduce that ranks fold where all show finds what does not fit, and hears of a rank that fails in it") {
  const test::deadline limit(std::chrono::seconds(100));
  constexpr std::size_t large = tutti::detail::most_shown_bytes / sizeof(int) + 100;
  constexpr std::size_t small = 10;
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    for (const auto& [mine, others] : {std::pair{large, large + 1}, {large, small}, {small, large}}) {
      const std::size_t of_one = mine;
      const std::size_t of_others = others;
      CAPTURE(of_one);
      CAPTURE(of_others);
      const test::outcomes ended = test::outcomes_of_run(ranks, [&](auto& comm) {
        std::vector<int> data(comm.rank() == 1 ? of_one : of_others);
        tutti::allreduce<tutti::flat>(comm, data, std::plus{});
        tutti::barrier(comm);
      });
      for (const test::outcome& own : ended.of) {
        CHECK(own.kind == "mismatch");
        CHECK(test::contains(own.text, "rank 1 called allreduce of " + std::to_string(of_one) + " x int"));
      }
    }
    // Some have been folded by then; the vectors are gone as soon as the call has thrown.
    const test::outcomes thrown = test::outcomes_of_run(ranks, [&](auto& comm) {
      const auto data = std::make_unique<std::vector<int>>(large, 1);
      int sums = 0;
      tutti::allreduce<tutti::flat>(comm, *data, tutti::commutative([&](int a, int b) {
                                      if (comm.rank() == 1 && ++sums == 1000) throw std::runtime_error("no sum");
                                      return a + b;
                                    }));
      tutti::barrier(comm);
    });
    CHECK(test::contains(thrown.run.text, "no sum"));
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == 1) continue;
      CHECK(thrown.of[static_cast<std::size_t>(rank)].kind == "peer_failed");
      CHECK(thrown.of[static_cast<std::size_t>(rank)].peer == 1);
    }
  }
}

TEST_CASE("an exchange finds what does not fit, and hears of a rank that fails in it") {
  const test::deadline limit(std::chrono::seconds(100));
  for (const auto& [members, elements] : {std::pair{2, std::size_t{2}}, {2, 100}, {4, 2}, {4, 50}, {4, 1200}}) {
    const int ranks = members;
    const std::size_t n = elements;
    CAPTURE(ranks);
    CAPTURE(n);
    const test::outcome mismatch = test::outcome_of([&] {
      tutti::run(ranks, [&](auto& comm) {
        std::vector<int> data(n + (comm.rank() == 1 ? 1 : 0));
        std::vector<int> out(data.size());
        tutti::allreduce(comm, data, out, std::plus{});
      });
    });
    CHECK(mismatch.kind == "mismatch");
    // Whoever of the others finds it out names itself and rank 1.
    CHECK(test::contains(mismatch.text, " called allreduce of " + std::to_string(n) + " x int"));
    CHECK(test::contains(mismatch.text, "rank 1 called allreduce of " + std::to_string(n + 1) + " x int"));
    CHECK(test::contains(mismatch.text, "by naive"));
    const test::outcome thrown = test::outcome_of([&] {
      tutti::run(ranks, [&](auto& comm) {
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
      tutti::run(ranks, [&](auto& comm) {
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
