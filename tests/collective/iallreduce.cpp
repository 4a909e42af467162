// SPDX-License-Identifier: BSL-1.0
#include <tutti/collective/iallreduce.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"

namespace {

using namespace conformance;
using namespace std::chrono_literals;
constexpr auto verb = tutti::collective::allreduce;

template <class Launcher>
using pending = tutti::pending<typename Launcher::communicator>;
static_assert(!std::is_copy_constructible_v<pending<threads>> && !std::is_copy_assignable_v<pending<threads>>);
static_assert(std::is_nothrow_move_constructible_v<pending<threads>> &&
              std::is_nothrow_move_assignable_v<pending<threads>>);

/// One of several that are pending at once.
template <class Launcher, class T = float>
struct job {
  job(auto& comm, std::size_t number, std::size_t count) : buffer(count), expected(count) {
    std::vector<T> each(static_cast<std::size_t>(comm.size()));
    for (std::size_t i = 0; i < count; ++i) {
      for (int rank = 0; rank < comm.size(); ++rank) each[static_cast<std::size_t>(rank)] = value(number, rank, i);
      buffer.span()[i] = value(number, comm.rank(), i);
      expected[i] = folded<T>(each, std::plus<>{});
    }
  }
  static T value(std::size_t number, int rank, std::size_t i) { return element<T>(rank, i + 100'000 * number); }

  void check(findings& found) const { check_output(found, buffer, std::span<const T>(expected)); }

  guarded<T> buffer;
  std::vector<T> expected;
};

template <class Launcher>
std::vector<job<Launcher>> jobs(auto& comm, std::size_t number) {
  // From one cache line to what is read where it lies.
  const std::size_t lengths[] = {1, 2000, 0, 7, 9000, 300, 20'011};
  std::vector<job<Launcher>> result;
  for (std::size_t i = 0; i < number; ++i) result.emplace_back(comm, i, lengths[i % std::size(lengths)]);
  return result;
}

/// A number of ranks and what each does; every rank must be told by `peer_failed` that rank 1 failed, with these words.
template <class Launcher>
void all_blame_rank_1(const std::string& words, const std::function<void(typename Launcher::communicator&)>& f) {
  on_ranks<Launcher>(3, [&](auto& comm, findings& found) {
    found.about("after the failure of rank 1");
    try {
      f(comm);
      if (comm.rank() != 1) found.wrong("nothing was thrown");
    } catch (const tutti::peer_failed& e) {
      found.check(e.peer() == 1, text("rank ", e.peer(), " is blamed"));
      found.check(std::string(e.what()).find(words) != std::string::npos, e.what());
    }
    try {
      tutti::barrier(comm);
      found.wrong("the communicator is still usable");
    } catch (const tutti::peer_failed& e) {
      found.check(e.peer() == 1, text("afterwards rank ", e.peer(), " is blamed"));
    }
  });
}

template <class A, class T, class Op>
void check(auto& comm, findings& found, const contributions<T, Op>& data, std::size_t n) {
  const Op op = data.operation();
  const std::span<const T> mine = data.of(comm.rank(), n);
  found.about("iallreduce<", tutti::name_of<A>(), "> of ", n, " x ", tutti::type_name<T>(), " with ",
              tutti::type_name<Op>());
  const guarded<T> in(mine);
  guarded<T> out(n, 2);
  guarded<T> inout(mine, 3);
  auto apart = tutti::iallreduce<A>(comm, in.values(), out.span(), op);
  auto in_place = tutti::iallreduce<A>(comm, inout.span(), op);
  apart.wait();
  check_output(found, out, data.fold(n));
  check_input(found, in, mine);
  in_place.wait();
  check_output(found, inout, data.fold(n));
}

template <class Launcher, class Algorithms, class T, class Op>
void check_all(Algorithms chosen, kind<T, Op> what) {
  for (const int ranks : rank_counts) {
    const std::vector<std::size_t> lengths = vector_lengths<T>(ranks);
    const contributions<T, Op> data(ranks, lengths.back(), what.op);
    const auto run = [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        for (const std::size_t n : lengths) check<A>(comm, found, data, n);
      });
    };
    for_each_algorithm_for<verb, T, Op>(chosen, ranks, run);
  }
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("iallreduce by every algorithm", Launcher, every_algorithm) {
  check_all<Launcher>(representative_algorithms{}, kind<float, std::plus<>>{});
  check_all<Launcher>(list<tutti::automatic, tutti::halving_doubling>{}, kind<matrix, std::multiplies<>>{});
  check_all<Launcher>(list<tutti::automatic>{}, kind<int, tutti::average>{});
}
TEST_CASE_TEMPLATE_APPLY(every_algorithm, launchers);

TEST_CASE_TEMPLATE_DEFINE("test alone brings a collective to its end", Launcher, test_loop) {
  for (const int ranks : {1, 2, 5}) {
    on_ranks<Launcher>(ranks, [](auto& comm, findings& found) {
      for (std::size_t number = 0; number < 30; ++number) {
        found.about("number ", number);
        job<Launcher> mine(comm, number, number % 2 == 0 ? 5 : 6000);
        auto handle = tutti::iallreduce<tutti::ring>(comm, mine.buffer.span(), std::plus<>{});
        while (!handle.test()) std::this_thread::yield();
        mine.check(found);
        // It has finished, and goes on having finished.
        found.check(handle.test(), "a finished collective is not finished any more");
        handle.wait();
        mine.check(found);
      }
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(test_loop, launchers);

TEST_CASE_TEMPLATE_DEFINE("test does not wait", Launcher, no_wait) {
  on_ranks<Launcher>(2, [](auto& comm, findings& found) {
    found.about("one rank is late");
    job<Launcher> mine(comm, 0, 1000);
    if (comm.rank() == 0) std::this_thread::sleep_for(50ms);
    auto handle = tutti::iallreduce(comm, mine.buffer.span(), std::plus<>{});
    if (comm.rank() == 1) found.check(!handle.test(), "finished without the other rank");
    handle.wait();
    mine.check(found);
  });
}
TEST_CASE_TEMPLATE_APPLY(no_wait, launchers);

TEST_CASE_TEMPLATE_DEFINE("several are pending at once and every rank ends them in an order of its own", Launcher,
                          orders) {
  for (const int ranks : {2, 3, 5}) {
    on_ranks<Launcher>(ranks, [](auto& comm, findings& found) {
      for (int round = 0; round < 6; ++round) {
        auto mine = jobs<Launcher>(comm, 14);
        std::vector<pending<Launcher>> handles;
        for (auto& j : mine) {
          // Neighbours by different algorithms.
          if (handles.size() % 2 == 0) {
            handles.push_back(tutti::iallreduce<tutti::circulant>(comm, j.buffer.span(), std::plus<>{}));
          } else {
            handles.push_back(tutti::iallreduce(comm, j.buffer.span(), std::plus<>{}));
          }
        }
        for (std::size_t i = 0; i < handles.size(); ++i) {
          // 3, 5, 9, 11 and 13 have no divisor in common with 14.
          constexpr std::size_t strides[] = {1, 13, 3, 11, 5};
          const std::size_t next =
              (static_cast<std::size_t>(round) + (i + 1) * strides[static_cast<std::size_t>(comm.rank())]) %
              handles.size();
          found.about("round ", round, ", number ", next);
          if (i % 3 == 0) {
            while (!handles[next].test()) {
            }
          } else {
            handles[next].wait();
          }
          mine[next].check(found);
        }
      }
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(orders, launchers);

TEST_CASE_TEMPLATE_DEFINE("a hundred are pending, more than there are lanes", Launcher, hundred) {
  static_assert(Launcher::communicator::max_pending < 100);
  for (const int ranks : {1, 2, 4}) {
    on_ranks<Launcher>(ranks, [](auto& comm, findings& found) {
      for (int round = 0; round < 2; ++round) {
        auto mine = jobs<Launcher>(comm, 100);
        std::vector<pending<Launcher>> handles;
        for (auto& j : mine) handles.push_back(tutti::iallreduce(comm, j.buffer.span(), std::plus<>{}));
        for (std::size_t i = handles.size(); i-- > 0;) {
          found.about("round ", round, ", number ", i);
          handles[i].wait();
          mine[i].check(found);
        }
      }
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(hundred, launchers);

TEST_CASE_TEMPLATE_DEFINE("blocking collectives run while others are pending", Launcher, among_blocking) {
  for (const int ranks : {2, 3, 4, 7}) {
    on_ranks<Launcher>(ranks, [](auto& comm, findings& found) {
      auto mine = jobs<Launcher>(comm, 7);
      std::vector<pending<Launcher>> handles;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        handles.push_back(tutti::iallreduce<tutti::ring>(comm, mine[i].buffer.span(), std::plus<>{}));
        found.about("blocking, with ", i + 1, " pending");
        job<Launcher> blocking(comm, 50 + i, 100 + 2000 * i);
        tutti::allreduce(comm, blocking.buffer.span(), std::plus<>{});
        blocking.check(found);
        std::vector<int> told(500 * i, comm.rank());
        tutti::broadcast(comm, told, 1);
        found.check(told == std::vector<int>(500 * i, 1), "a broadcast gave something else");
        tutti::barrier(comm);
      }
      for (std::size_t i = 0; i < mine.size(); ++i) {
        found.about("pending, number ", i);
        handles[i].wait();
        mine[i].check(found);
      }
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(among_blocking, launchers);

TEST_CASE_TEMPLATE_DEFINE("what is pending goes on while its rank waits in another collective", Launcher, goes_on) {
  // A ring takes many rounds, each of which needs every rank. Even ranks end it before they come to the barrier, so odd
  // ranks must serve it from within the barrier.
  for (const int ranks : {2, 3, 4, 8}) {
    on_ranks<Launcher>(ranks, [](auto& comm, findings& found) {
      for (const std::size_t n : {std::size_t{100}, std::size_t{30'000}}) {
        found.about(n, " elements");
        job<Launcher> mine(comm, n, n);
        auto handle = tutti::iallreduce<tutti::ring>(comm, mine.buffer.span(), std::plus<>{});
        if (comm.rank() % 2 == 0) handle.wait();
        tutti::barrier(comm);
        handle.wait();
        mine.check(found);
      }
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(goes_on, launchers);

TEST_CASE_TEMPLATE_DEFINE("a pending collective moves", Launcher, moves) {
  on_ranks<Launcher>(3, [](auto& comm, findings& found) {
    found.about("moved");
    job<Launcher> first(comm, 0, 9000), second(comm, 1, 10), third(comm, 2, 9000);
    auto a = tutti::iallreduce(comm, first.buffer.span(), std::plus<>{});
    auto b = std::move(a);
    found.check(a.test(), "who has been moved from still waits");  // NOLINT(bugprone-use-after-move)
    a.wait();
    a = tutti::iallreduce(comm, second.buffer.span(), std::plus<>{});
    b.wait();
    first.check(found);
    b = std::move(a);
    b.wait();
    second.check(found);
    // Into the arms of a function and back.
    const auto pass = [](pending<Launcher> p) { return p; };
    auto c = pass(tutti::iallreduce(comm, third.buffer.span(), std::plus<>{}));
    c.wait();
    third.check(found);
  });
}
TEST_CASE_TEMPLATE_APPLY(moves, launchers);

TEST_CASE_TEMPLATE_DEFINE("a pending collective that is destroyed before its end fails all", Launcher, destroyed) {
  for (const std::size_t n : {std::size_t{5}, std::size_t{50'000}}) {
    all_blame_rank_1<Launcher>("destroyed", [n](auto& comm) {
      // The others begin later, so it cannot have finished.
      if (comm.rank() != 1) std::this_thread::sleep_for(20ms);
      std::vector<float> data(n, 1.0F);
      auto handle = tutti::iallreduce(comm, data, std::plus<>{});
      if (comm.rank() != 1) handle.wait();
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(destroyed, launchers);

TEST_CASE_TEMPLATE_DEFINE("a pending collective that is overwritten before its end fails all", Launcher, overwritten) {
  all_blame_rank_1<Launcher>("destroyed", [](auto& comm) {
    if (comm.rank() != 1) std::this_thread::sleep_for(20ms);
    std::vector<float> data(100, 1.0F), more(100, 1.0F);
    auto handle = tutti::iallreduce(comm, data, std::plus<>{});
    handle = tutti::iallreduce(comm, more, std::plus<>{});
    handle.wait();
  });
}
TEST_CASE_TEMPLATE_APPLY(overwritten, launchers);

TEST_CASE_TEMPLATE_DEFINE("a pending collective on a rank that leaves by an exception fails all", Launcher, unwound) {
  std::string thrown;
  try {
    Launcher::run(3, [](auto& comm) {
      std::vector<float> data(50'000, 1.0F);
      auto handle = tutti::iallreduce(comm, data, std::plus<>{});
      if (comm.rank() == 1) throw std::logic_error("had enough");
      try {
        handle.wait();
      } catch (const tutti::peer_failed& e) {
        if (e.peer() != 1) throw std::runtime_error(text("rank ", e.peer(), " is blamed"));
      }
    });
  } catch (const std::logic_error& e) {
    thrown = e.what();
  }
  CHECK(thrown == "had enough");
}
TEST_CASE_TEMPLATE_APPLY(unwound, launchers);

TEST_CASE_TEMPLATE_DEFINE("what the operation throws is thrown by wait, or by test", Launcher, operation_throws) {
  struct fussy {
    bool strict;
    float operator()(float a, float b) const { return strict ? throw std::domain_error("no such sum") : a + b; }
  };
  for (const bool waiting : {true, false}) {
    on_ranks<Launcher>(3, [waiting](auto& comm, findings& found) {
      found.about(waiting ? "wait" : "test");
      std::vector<float> data(5000, 1.0F);
      try {
        auto handle = tutti::iallreduce(comm, data, tutti::commutative(fussy{comm.rank() == 1}));
        if (waiting) {
          handle.wait();
        } else {
          while (!handle.test()) {
          }
        }
        found.wrong("nothing was thrown");
      } catch (const std::domain_error& e) {
        found.check(comm.rank() == 1 && std::string(e.what()) == "no such sum", e.what());
      } catch (const tutti::peer_failed& e) {
        found.check(comm.rank() != 1 && e.peer() == 1, e.what());
        found.check(std::string(e.what()).find("no such sum") != std::string::npos, e.what());
      }
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(operation_throws, launchers);

TEST_CASE_TEMPLATE_DEFINE("a refused call begins nothing and the next one works", Launcher, refused) {
  on_ranks<Launcher>(3, [](auto& comm, findings& found) {
    found.about("after a refused call");
    std::vector<float> in(10), out(9);
    try {
      auto handle = tutti::iallreduce(comm, in, out, std::plus<>{});
      found.wrong("sizes that differ were accepted");
      handle.wait();
    } catch (const tutti::usage_error&) {
    }
    job<Launcher> mine(comm, 0, 100);
    tutti::iallreduce(comm, mine.buffer.span(), std::plus<>{}).wait();
    mine.check(found);
  });
}
TEST_CASE_TEMPLATE_APPLY(refused, launchers);
