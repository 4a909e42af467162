// SPDX-License-Identifier: BSL-1.0
#pragma once

// A rank's function throws while a nonblocking collective is pending: what every transport must make of that. Ranks
// report in memory that all can see, whatever they are.

#include <tutti/tutti.hpp>

#include <doctest/doctest.h>

#include <sys/mman.h>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "communicator/outcome.hpp"
#include "transport/rank_report.hpp"

namespace test {

/// The communicator that the collective is pending on: all ranks, a duplicate of it, or a half of the ranks in reverse.
enum class pending_on : unsigned char { whole, duplicate, half };

/// What happens in one run.
struct unwinding {
  int ranks;
  int bad;            ///< whose function throws
  std::size_t count;  ///< elements
  pending_on on;
  bool shared;       ///< the bad rank's data lie in memory that the transport gave it
  bool late;         ///< another rank does not come to the collective
  int looks;         ///< of the bad one before it throws
  bool flat = true;  ///< by `flat`, else by `ring`

  bool is_late(int rank) const { return late && rank == (bad % 2 == 0 ? bad + 1 : bad - 1); }
  bool in_part(int rank) const { return on != pending_on::half || rank / 2 == bad / 2; }
  /// A rank's number where the collective is pending.
  int number(int rank) const { return on != pending_on::half ? rank : std::min(ranks - 1, rank / 2 * 2 + 1) - rank; }
  friend std::ostream& operator<<(std::ostream& out, const unwinding& u) {
    return out << u.ranks << " ranks, bad " << u.bad << ", " << u.count << " elements, on "
               << (u.on == pending_on::whole       ? "the whole"
                   : u.on == pending_on::duplicate ? "a duplicate"
                                                   : "a half")
               << (u.shared ? ", shared memory" : "") << (u.late ? ", one is late, " : ", ") << u.looks << " looks, by "
               << (u.flat ? "flat" : "ring");
  }
};

/// What a rank's report counts.
enum unwinding_step : int { came_through = 1, wrong_result = 2, touched_memory = 4 };

/// A little time goes by, in which the other ranks go on.
template <class Comm>
void let_others_go_on(Comm& comm) {
  if constexpr (requires { comm.transport().spend(1e-3); }) {
    comm.transport().spend(1e-3);
  } else {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(3);
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
  }
}

/// The data of the rank whose function throws. When the collective is gone it is the rank's own again: it is filled
/// with something else and locked, and a while later must still be as it was left.
template <class Comm>
class lent_memory {
 public:
  lent_memory(Comm& comm, const unwinding& u, rank_report& report) : comm_(&comm), report_(&report), count_(u.count) {
    if (u.shared) {
      shared_.emplace(comm.template allocate<int>(count_));
      data_ = shared_->data();
    } else {
      locked_bytes_ = (count_ * sizeof(int) / page + 1) * page;
      void* const memory = mmap(nullptr, locked_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) std::abort();
      data_ = static_cast<int*>(memory);
    }
  }
  lent_memory(const lent_memory&) = delete;
  lent_memory& operator=(const lent_memory&) = delete;
  ~lent_memory() {
    std::fill_n(data_, count_, something_else);
    if (locked_bytes_ != 0) mprotect(data_, locked_bytes_, PROT_NONE);
    let_others_go_on(*comm_);
    if (locked_bytes_ != 0) mprotect(data_, locked_bytes_, PROT_READ);
    if (std::any_of(data_, data_ + count_, [](int each) { return each != something_else; }))
      report_->steps.fetch_or(touched_memory);
    if (locked_bytes_ != 0) munmap(data_, locked_bytes_);
  }
  std::span<int> values() const { return {data_, count_}; }

 private:
  static constexpr int something_else = -77;
  static constexpr std::size_t page = 4096;

  Comm* comm_;
  rank_report* report_;
  std::size_t count_;
  std::optional<tutti::shared_buffer<int>> shared_;
  std::size_t locked_bytes_ = 0;
  int* data_ = nullptr;
};

template <class Comm>
auto begin_unwinding(Comm& on, std::span<int> data, const unwinding& u) {
  return u.flat ? tutti::iallreduce<tutti::flat>(on, data, std::plus{})
                : tutti::iallreduce<tutti::ring>(on, data, std::plus{});
}

/// What each rank does: it never returns.
template <class Comm>
void throw_past_pending(Comm& comm, rank_report& report, const unwinding& u) {
  const auto pass = [&](Comm& on) {
    tutti::barrier(on);
    if (comm.rank() == u.bad) {
      const lent_memory<Comm> data(comm, u, report);
      std::fill_n(data.values().data(), u.count, 1 + u.bad);
      auto pending = begin_unwinding(on, data.values(), u);
      for (int look = 0; look < u.looks; ++look) pending.test();
      throw std::runtime_error("no shoes");
    }
    if (u.is_late(comm.rank())) {
      for (;;) {
        comm.transport().check();
        let_others_go_on(comm);
      }
    }
    std::vector<int> data(u.count, 1 + comm.rank());
    int sum = 0;
    for (int rank = 0; rank < u.ranks; ++rank)
      if (u.in_part(rank) == u.in_part(comm.rank())) sum += 1 + rank;
    auto pending = begin_unwinding(on, std::span<int>(data), u);
    pending.wait();
    report.steps.fetch_or(came_through);
    if (data != std::vector<int>(u.count, sum)) report.steps.fetch_or(wrong_result);
    for (;;) tutti::barrier(comm);
  };
  if (u.on == pending_on::whole) return pass(comm);
  if (u.on == pending_on::duplicate) {
    auto part = comm.dup();
    return pass(part);
  }
  auto part = comm.split(u.in_part(comm.rank()) ? 1 : 0, -comm.rank());
  pass(part);
}

/// What that rank came to is what it must.
inline void check_unwinding(const unwinding& u, int rank, const outcome& ended, int steps) {
  CAPTURE(rank);
  CAPTURE(ended.text);
  CHECK((steps & touched_memory) == 0);
  CHECK((steps & wrong_result) == 0);
  if (rank == u.bad) {
    CHECK(ended == outcome{"other", "no shoes", -1});
    return;
  }
  CHECK(ended.kind == "peer_failed");
  if (!u.in_part(rank)) {
    // Over TCP the other half fails too, where the bad one has no number.
    CHECK((ended.peer == u.bad || ended.peer == -1));
    CHECK(contains(ended.text, "rank " + std::to_string(u.bad) + " failed: no shoes"));
    return;
  }
  // A late one asks the communicator of all ranks.
  const bool in_whole = (steps & came_through) != 0 || u.is_late(rank);
  CHECK(ended.peer == (in_whole ? u.bad : u.number(u.bad)));
  CHECK(contains(ended.text, " failed: no shoes"));
}

/// A run of each kind. `run(u)`: how its ranks ended; all of them are processes, or threads of this one.
template <class Run>
void for_each_unwinding(Run&& run) {
  for (const int ranks : {2, 4})
    for (const std::size_t count : {std::size_t{3}, std::size_t{3'000}, std::size_t{300'000}})
      for (const pending_on on : {pending_on::whole, pending_on::duplicate, pending_on::half})
        for (const bool flat : {true, false})
          for (const bool late : {true, false}) {
            const int number = static_cast<int>(on) + (late ? 1 : 0) + (flat ? 1 : 0);
            run(unwinding{ranks, number % 2 == 0 ? 0 : ranks - 1, count, on, (number + (flat ? 1 : 0)) % 2 == 0, late,
                          number % 3 * 10, flat});
          }
}

/// How long after the function of the rank had ended the last of the others threw, in half of the runs.
class unwinding_delays {
 public:
  void add(const unwinding& u, const std::vector<std::int64_t>& when) {
    std::int64_t last = 0;
    for (int rank = 0; rank < u.ranks; ++rank) {
      if (!u.is_late(rank))
        last = std::max(last, when[static_cast<std::size_t>(rank)] - when[static_cast<std::size_t>(u.bad)]);
    }
    nanoseconds_.push_back(last);
  }
  double milliseconds() {
    std::sort(nanoseconds_.begin(), nanoseconds_.end());
    return static_cast<double>(nanoseconds_[nanoseconds_.size() / 2]) / 1e6;
  }

 private:
  std::vector<std::int64_t> nanoseconds_;
};

/// The same for all, of a transport whose reports are collected.
template <class Run>
void check_all_unwindings(double limit_ms, Run&& run) {
  unwinding_delays delays;
  for_each_unwinding([&](const unwinding& u) {
    CAPTURE(u);
    const process_outcomes ended = run(u);
    for (int rank = 0; rank < u.ranks; ++rank) check_unwinding(u, rank, ended.on(rank), ended.steps_of(rank));
    delays.add(u, ended.when);
  });
  CHECK(delays.milliseconds() < limit_ms);
}

/// Rank 1 catches what it has thrown past the pending collective, and goes on to a collective of all ranks, or returns.
/// Rank 2 waits for a message instead, so that the collective cannot have finished before. What rank 0's collective and
/// that message come to is thrown.
template <class Comm>
void catch_past_pending(Comm& comm, bool returns) {
  std::vector<int> data(20'000, 1);
  tutti::barrier(comm);
  if (comm.rank() == 2) tutti::recv(comm, 1, data);
  try {
    auto pending = tutti::iallreduce<tutti::ring>(comm, std::span<int>(data), std::plus{});
    if (comm.rank() == 1) throw std::logic_error("that is dealt with");
    pending.wait();
  } catch (const std::logic_error&) {
  }
  if (comm.rank() != 1 || !returns) tutti::barrier(comm);
}
/// The same on a duplicate, which fails alone: throws something else where it does not.
template <class Comm>
void catch_past_pending_on_duplicate(Comm& comm) {
  auto part = comm.dup();
  const outcome ended = outcome_of([&] { catch_past_pending(part, comm.rank() == 1); });
  tutti::barrier(comm);
  if (comm.rank() == 1) return;
  if (ended.kind == "peer_failed" && ended.peer == 1 && contains(ended.text, "destroyed before it had finished"))
    return;
  throw std::logic_error(ended.kind + ": " + ended.text);
}

/// Rank 1 begins a collective of a duplicate, which the others come to later, and catches what it throws past that:
/// past the duplicate too, or that goes after it. Throws something else where the others do not hear that there.
template <class Comm>
void catch_past_communicator(Comm& comm, bool passes_both) {
  std::vector<int> data(20'000, 1);
  std::vector<int> word(1, 1);
  const auto begin = [&](Comm& part) {
    return tutti::iallreduce<tutti::ring>(part, std::span<int>(data), std::plus{});
  };
  const auto throw_past = [&](Comm& part) {
    auto pending = begin(part);
    throw std::logic_error("that is dealt with");
  };
  const outcome ended = outcome_of([&] {
    auto part = comm.dup();
    if (comm.rank() != 1) {
      tutti::recv(comm, 1, word);
      begin(part).wait();
    } else if (passes_both) {
      throw_past(part);
    } else {
      CHECK(outcome_of([&] { throw_past(part); }).kind == "other");
    }
  });
  for (const int other : {0, 2})
    if (comm.rank() == 1) tutti::send(comm, other, word);
  tutti::barrier(comm);
  if (comm.rank() == 1) return;
  if (ended.kind == "peer_failed" && ended.peer == 1 &&
      contains(ended.text, passes_both ? "rank 1 left while rank " : "destroyed before it had finished"))
    return;
  throw std::logic_error(ended.kind + ": " + ended.text);
}

/// What a rank came to by that. Rank 1 may hear of it when its function has returned.
inline void check_caught(int rank, const outcome& ended) {
  CAPTURE(rank);
  CAPTURE(ended.text);
  if (rank == 1 && ended == outcome{}) return;
  CHECK(ended.kind == "peer_failed");
  CHECK(ended.peer == 1);
  CHECK(contains(ended.text, "rank 1 failed in "));
  CHECK(contains(ended.text, "the pending collective was destroyed before it had finished"));
}

/// All of that: `run(ranks, work)`, `work(comm, report)`.
template <class Run>
void check_all_caught(Run&& run) {
  for (const bool returns : {true, false}) {
    CAPTURE(returns);
    const process_outcomes ended = run(3, [returns](auto& comm, rank_report&) { catch_past_pending(comm, returns); });
    for (int rank = 0; rank < 3; ++rank) check_caught(rank, ended.on(rank));
  }
  const process_outcomes alone = run(3, [](auto& comm, rank_report&) { catch_past_pending_on_duplicate(comm); });
  for (int rank = 0; rank < 3; ++rank) CHECK(alone.on(rank) == outcome{});
  for (const bool passes_both : {true, false}) {
    CAPTURE(passes_both);
    const process_outcomes gone =
        run(3, [passes_both](auto& comm, rank_report&) { catch_past_communicator(comm, passes_both); });
    for (int rank = 0; rank < 3; ++rank) CHECK(gone.on(rank) == outcome{});
  }
}

}  // namespace test
