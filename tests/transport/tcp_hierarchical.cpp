// SPDX-License-Identifier: BSL-1.0

// Ranks of which some share a host, in several shapes, on this machine.

#include <doctest/doctest.h>
#include <tutti/schedule/two_level.hpp>
#include <tutti/tutti.hpp>

#include <signal.h>
#include <time.h>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "deadline.hpp"
#include "transport/hierarchical_job.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using comm_type = hierarchical_comm;

// The shapes of the card, smaller where everything is slower, and one whose hosts' ranks are not neighbours.
std::vector<std::vector<int>> shapes() {
  return {{0},
          in_order({3}),
          in_order({1, 3}),
          in_order({2, 2}),
          in_order({1, 1, 6}),
          {0, 1, 0, 1, 1},
          in_order(sanitized ? std::vector<int>{3, 4} : std::vector<int>{7, 8}),
          in_order({8, 1})};
}

std::vector<int> numbers(int rank, std::size_t count) {
  std::vector<int> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = (rank + 3) * static_cast<int>(i % 97) + 7 * rank;
  return made;
}
void keep(std::vector<int>& into, std::span<const int> what) { into.insert(into.end(), what.begin(), what.end()); }

// What all collectives come to on this rank, by one algorithm, with `n` numbers of each rank, or for each. Out-of-place
// where there is such a form.
template <class A, class Comm>
std::vector<int> every_collective(Comm& comm, std::size_t n) {
  const auto p = static_cast<std::size_t>(comm.size());
  const int last = comm.size() - 1;
  std::vector<int> all;
  std::vector<int> mine = numbers(comm.rank(), n), blocks = numbers(comm.rank(), n * p), block(n), vector(n * p);
  std::vector<int> shown = mine;
  tutti::broadcast<A>(comm, shown, last);
  keep(all, shown);
  tutti::scatter<A>(comm, blocks, block, last);
  keep(all, block);
  tutti::gather<A>(comm, mine, vector, last);
  if (comm.rank() == last) keep(all, vector);
  tutti::allgather<A>(comm, mine, vector);
  keep(all, vector);
  tutti::alltoall<A>(comm, blocks, vector);
  keep(all, vector);
  tutti::reduce<A>(comm, mine, shown, std::plus{}, last);
  if (comm.rank() == last) keep(all, shown);
  tutti::reduce_scatter<A>(comm, blocks, block, std::plus{});
  keep(all, block);
  tutti::allreduce<A>(comm, mine, shown, std::plus{});
  keep(all, shown);
  tutti::barrier<tutti::dissemination>(comm);
  return all;
}

// What that should be, among `p` ranks.
std::vector<int> expected_of_every_collective(int rank, int ranks, std::size_t n) {
  const int last = ranks - 1;
  const std::size_t p = static_cast<std::size_t>(ranks);
  const std::size_t mine = static_cast<std::size_t>(rank) * n;
  std::vector<int> all;
  std::vector<int> everything, sum(n, 0), sum_of_blocks(n, 0), exchanged;
  for (int r = 0; r < ranks; ++r) {
    const std::vector<int> theirs = numbers(r, n), blocks = numbers(r, n * p);
    keep(everything, theirs);
    keep(exchanged, std::span(blocks).subspan(mine, n));
    for (std::size_t i = 0; i < n; ++i) {
      sum[i] += theirs[i];
      sum_of_blocks[i] += blocks[mine + i];
    }
  }
  keep(all, numbers(last, n));
  keep(all, std::span(exchanged).last(n));
  if (rank == last) keep(all, everything);
  keep(all, everything);
  keep(all, exchanged);
  if (rank == last) keep(all, sum);
  keep(all, sum_of_blocks);
  keep(all, sum);
  return all;
}

// Sums of floats in rank order, and prefixes.
template <class Comm>
std::vector<float> ordered_sums(Comm& comm) {
  std::vector<float> values(1003);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = 1.0f / static_cast<float>(1 + i + 31 * static_cast<std::size_t>(comm.rank()));
  std::vector<float> prefix = values;
  tutti::scan<tutti::recursive_doubling>(comm, prefix, std::plus{});
  tutti::allreduce<tutti::ordered>(comm, values, std::plus{});
  values.insert(values.end(), prefix.begin(), prefix.end());
  return values;
}

void check_all(const std::vector<outcome>& of, const outcome& expected = {}) {
  for (std::size_t rank = 0; rank < of.size(); ++rank) {
    CAPTURE(rank);
    CHECK(of[rank] == expected);
  }
}
void expect(bool right, const char* what) {
  if (!right) throw std::runtime_error(what);
}

}  // namespace

TEST_CASE("sixteen ranks of a host that are threads of one process find addresses for their segments") {
  std::vector<tutti::detail::segment> of(16);
  for (tutti::detail::segment& s : of) {
    s = tutti::detail::segment::create();
    CHECK(s.range() == tutti::detail::segment::default_range);  // or who joins it would not find as many
  }
}

TEST_CASE("every collective in every shape, and sums in rank order, bit by bit as between threads") {
  const deadline limit(120s);
  for (const std::vector<int>& where : shapes()) {
    CAPTURE(where.size());
    const auto ranks = static_cast<int>(where.size());
    std::vector<std::vector<float>> sums(where.size());
    tutti::run(ranks, [&](auto& comm) { sums[static_cast<std::size_t>(comm.rank())] = ordered_sums(comm); });
    check_all(outcomes_on_hosts(where, [&](comm_type& comm) {
      comm.timeout(60s);
      const auto me = static_cast<std::size_t>(comm.rank());
      const tutti::host_map& hosts = *comm.place().hosts;
      for (int r = 0; r < ranks; ++r)
        expect((hosts.host(r) == hosts.host(comm.rank())) == (where[static_cast<std::size_t>(r)] == where[me]), "map");
      for (const std::size_t n : {std::size_t{5}, std::size_t{1003}}) {
        const std::vector<int> expected = expected_of_every_collective(comm.rank(), ranks, n);
        expect(every_collective<tutti::two_level<>>(comm, n) == expected, "two levels");
        // Everybody talks to everybody.
        std::vector<int> blocks = numbers(comm.rank(), n * static_cast<std::size_t>(ranks)), exchanged(blocks.size());
        tutti::alltoall<tutti::flat>(comm, blocks, exchanged);
        tutti::alltoall<tutti::two_level<>>(comm, blocks);
        expect(exchanged == blocks, "one level");
      }
      expect(ordered_sums(comm) == sums[me], "ordered sums");
    }));
  }
}

TEST_CASE("large messages, buffers that the host shares, and several nonblocking collectives at once") {
  const deadline limit(60s);
  for (const std::vector<int>& where : {in_order({2, 2}), in_order({1, 3})}) {
    check_all(outcomes_on_hosts(where, [&](comm_type& comm) {
      comm.timeout(60s);
      constexpr std::size_t count = 700'000;
      auto shared = comm.allocate<int>(count);
      std::vector<int> own(count);
      for (std::size_t i = 0; i < count; ++i) shared[i] = own[i] = static_cast<int>(i) + comm.rank();
      tutti::allreduce<tutti::circulant>(comm, shared, std::plus{});
      tutti::allreduce<tutti::circulant>(comm, own, std::plus{});
      const int ranks = comm.size();
      for (std::size_t i = 0; i < count; ++i)
        expect(shared[i] == own[i] && own[i] == ranks * static_cast<int>(i) + ranks * (ranks - 1) / 2, "large sum");
      std::vector<std::vector<int>> several(5, std::vector<int>(20'000, comm.rank()));
      auto one = tutti::iallreduce<tutti::circulant>(comm, several[0], std::plus{});
      auto two = tutti::iallreduce<tutti::circulant>(comm, several[1], std::plus{});
      tutti::allreduce<tutti::circulant>(comm, several[2], std::plus{});
      auto three = tutti::iallreduce<tutti::circulant>(comm, several[3], std::plus{});
      while (!three.test()) {
      }
      two.wait();
      one.wait();
      for (const int i : {0, 1, 2, 3})
        for (const int v : several[static_cast<std::size_t>(i)]) expect(v == ranks * (ranks - 1) / 2, "pending sum");
    }));
  }
}

TEST_CASE("communicators of some of the ranks, across hosts and within one, of which one fails alone") {
  const deadline limit(60s);
  const auto sum = [](comm_type& of, int value) {
    std::vector<int> values(3'000, value);
    tutti::allreduce<tutti::circulant>(of, values, std::plus{});
    return values.back();
  };
  for (const std::vector<int>& where : {in_order({2, 2}), std::vector<int>{0, 1, 0, 1, 1}}) {
    check_all(outcomes_on_hosts(where, [&](comm_type& comm) {
      comm.timeout(60s);
      const int me = comm.rank(), ranks = comm.size();
      comm_type odd = comm.split(me % 2, -me);
      int expected = 0;
      for (int r = me % 2; r < ranks; r += 2) expected += r;
      expect(sum(odd, me) == expected, "every other rank");
      expect(odd.rank() == (ranks - 1 - me) / 2, "the order of keys");
      comm_type here = comm.split(where[static_cast<std::size_t>(me)]);
      expect(here.place().hosts->hosts() == 1, "one host");
      expect(sum(here, 1) == here.size(), "the ranks of a host");
      {
        comm_type alone = odd.split(odd.rank());
        expect(sum(alone, me) == me, "a rank alone");
        comm_type again = odd.dup();
        std::vector<int> ones(10, 1);
        auto pending = tutti::iallreduce<tutti::circulant>(comm, ones, std::plus{});
        expect(sum(again, me) == expected, "a duplicate");
        pending.wait();
      }
      for (int i = 0; i < 20; ++i) expect(sum(comm, 1) == ranks && comm.dup().size() == ranks, "many in a row");

      // One whose ranks disagree, and one that somebody leaves.
      for (const bool leaves : {false, true}) {
        std::optional<comm_type> part = comm.split(me < 2 ? std::optional<int>() : std::optional<int>(1));
        expect(part.has_value() == (me >= 2), "not in it");
        if (part) {
          const outcome mine = outcome_of([&] {
            if (part->rank() == 0 && leaves) return part.reset();
            if (part->rank() == 0) tutti::barrier<tutti::dissemination>(*part);
            for (;;) sum(*part, 1);
          });
          if (leaves && me == 2)
            expect(mine == outcome{}, "has left");
          else
            expect(mine.kind == (leaves ? "peer_failed" : "mismatch"), mine.text.c_str());
          if (!leaves) expect(contains(mine.text, "rank 0 called barrier"), mine.text.c_str());
        }
        expect(sum(comm, 1) == ranks, "the whole goes on");
      }
    }));
  }
}

TEST_CASE("ranks that call different things, on one host or on two, all throw the same in the numbers of all ranks") {
  const deadline limit(60s);
  for (const int odd : {0, 1, 3, 4}) {
    CAPTURE(odd);
    // Rank 0 alone, 1 to 4 together.
    const auto of = outcomes_on_hosts({0, 1, 1, 1, 1}, [&](comm_type& comm) {
      std::vector<int> values(10);
      tutti::barrier<tutti::dissemination>(comm);
      if (comm.rank() == odd) {
        tutti::broadcast<tutti::circulant>(comm, values, odd);
        comm.transport().check();
        tutti::barrier<tutti::dissemination>(comm);
      } else {
        tutti::allreduce<tutti::circulant>(comm, values, std::plus{});
        tutti::barrier<tutti::dissemination>(comm);
      }
    });
    CHECK(of[0].kind == "mismatch");
    CAPTURE(of[0].text);
    CHECK(contains(of[0].text, "rank " + std::to_string(odd) + " called broadcast"));
    CHECK(contains(of[0].text, "called allreduce"));
    check_all(of, of[0]);
  }
  const auto in_the_end = outcomes_on_hosts({0, 1, 1}, [](comm_type& comm) {
    std::vector<int> values(10);
    if (comm.rank() == 2) tutti::broadcast<tutti::circulant>(comm, values, 2);
  });
  CHECK(contains(in_the_end[0].text, "rank 0 called nothing that fits; rank 2 called broadcast"));
  check_all(in_the_end, in_the_end[0]);
}

TEST_CASE("a rank that throws, leaves, is late or aborts is named alike by all, on its host and on others") {
  const deadline limit(60s);
  const std::vector<int> where{0, 1, 1, 0};
  const auto add = [](comm_type& comm) {
    std::vector<float> values(10'000, 1.0f);
    tutti::allreduce<tutti::circulant>(comm, values, std::plus{});
  };
  for (const int odd : {0, 2}) {
    CAPTURE(odd);
    const std::string name = "rank " + std::to_string(odd);
    auto of = outcomes_on_hosts(where, [&](comm_type& comm) {
      add(comm);
      if (comm.rank() == odd) throw std::runtime_error("no shoes");
      for (;;) add(comm);
    });
    CHECK(of[static_cast<std::size_t>(odd)] == outcome{"other", "no shoes", -1});
    of.erase(of.begin() + odd);
    check_all(of, {"peer_failed", name + " failed: no shoes: peer failed", odd});

    of = outcomes_on_hosts(where, [&](comm_type& comm) {
      add(comm);
      if (comm.rank() != odd) add(comm);
    });
    CAPTURE(of[0].text);
    CHECK(of[0].kind == "peer_failed");
    CHECK(of[0].peer == odd);
    CHECK(contains(of[0].text, name + " left while"));
    check_all(of, of[0]);

    of = outcomes_on_hosts(where, [&](comm_type& comm) {
      comm.timeout(300ms);
      add(comm);
      if (comm.rank() != odd) add(comm);
      for (;;) {
        comm.transport().check();
        std::this_thread::yield();
      }
    });
    CHECK(of[0].kind == "timed_out");
    CHECK(of[0].peer == odd);
    CHECK(contains(of[0].text, name + " was late"));
    check_all(of, of[0]);

    of = outcomes_on_hosts(where, [&](comm_type& comm) {
      add(comm);
      if (comm.rank() == odd) {
        // Another thread ends what this one waits for.
        std::thread other([&] { comm.abort("enough"); });
        const outcome mine = outcome_of([&] {
          for (;;) add(comm);
        });
        other.join();
        if (mine.kind != "peer_failed") throw std::runtime_error(mine.text);
      }
      for (;;) add(comm);
    });
    check_all(of, {"peer_failed", name + " aborted: enough: peer failed", odd});
  }
}

TEST_CASE("a rank that is killed is named by all others, on its host and on others, and soon") {
  const alarm_limit limit(60);
  for (const int victim : {0, 2, 4}) {
    CAPTURE(victim);
    std::int64_t killed = 0;
    const auto ended = outcomes_of_hosts_processes(
        {0, 1, 1, 0, 2},
        [&](comm_type& comm, rank_report& mine) {
          std::vector<float> values(5'000, 1.0f);
          for (;;) {
            tutti::allreduce<tutti::circulant>(comm, values, std::plus{});
            mine.steps.fetch_add(1);
            if (comm.rank() == victim && mine.steps.load() == 20) raise(SIGKILL);
          }
        },
        [&](const std::vector<pid_t>& pids) {
          await_zombie(pids[static_cast<std::size_t>(victim)]);
          killed = monotonic_now();
        });
    for (int rank = 0; rank < 5; ++rank) {
      CAPTURE(rank);
      if (rank == victim) {
        CHECK(ended.on(rank).kind == "died");
        continue;
      }
      CHECK(ended.on(rank) == outcome{"peer_failed",
                                      "rank " + std::to_string(victim) + " has ended without a word: peer failed",
                                      victim});
      CHECK(ended.when[static_cast<std::size_t>(rank)] - killed < 2'000'000'000);  // far less than a heartbeat
    }
  }
}

TEST_CASE("a rank that dies before the ranks of its host have met is named by all others, long before their limit") {
  const alarm_limit limit(60);
  constexpr int victim = 2;
  const shared_with_children<rank_report> reports(4);
  std::vector<std::unique_ptr<child_process>> processes;
  {
    tutti::detail::tcp_loopback all(4);
    const auto options = options_on_hosts(all, {0, 0, 0, 1}, 10s);
    const tutti::detail::descriptor_owner listener(options[0].listener);
    for (int rank = 0; rank < 4; ++rank)
      processes.push_back(std::make_unique<child_process>([&, rank] {
        const tutti::tcp_options& mine = options[static_cast<std::size_t>(rank)];
        if (rank == victim) {
          const tutti::tcp::group_type met(mine);
          raise(SIGKILL);
        }
        reports[rank].write(
            outcome_of_hierarchical(mine, [](comm_type& comm) { tutti::barrier<tutti::dissemination>(comm); }));
        return 0;
      }));
  }
  for (auto& each : processes) each->end();
  for (const int rank : {0, 1, 3}) {
    CAPTURE(rank);
    CHECK(reports[rank].read() == outcome{"peer_failed", "rank 2 has ended without a word: peer failed", victim});
  }
}

TEST_CASE("who waits uses little processor time, whichever side it waits for") {
  const alarm_limit limit(60);
  // Rank 0 keeps one of its host and one of another waiting.
  const shared_with_children<double> share(4);
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const auto ended = outcomes_of_hosts_processes(
      {0, 0, 1, 1},
      [&](comm_type& comm, rank_report&) {
        tutti::barrier<tutti::dissemination>(comm);
        const double before = used();
        const std::int64_t begin = monotonic_now();
        std::vector<int> values(10);
        if (comm.rank() == 0)
          while (monotonic_now() - begin < 600'000'000) std::this_thread::sleep_for(10ms);
        tutti::broadcast<tutti::flat>(comm, values, 0);
        share[comm.rank()] = (used() - before) / (1e-9 * static_cast<double>(monotonic_now() - begin));
        tutti::barrier<tutti::dissemination>(comm);
      },
      [](const std::vector<pid_t>&) {});
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    CHECK(ended.on(rank) == outcome{});
    MESSAGE("rank " << rank << ": " << 100 * share[rank] << " % of a processor");
    CHECK(share[rank] < (sanitized ? 0.5 : 0.15));
  }
}

TEST_CASE("one host alone opens no data connection, and a rank alone no socket at all") {
  const deadline limit(30s);
  const auto sockets = [] {
    int count = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      count += std::filesystem::read_symlink(each.path(), gone).string().starts_with("socket:") ? 1 : 0;
    }
    return count;
  };
  const auto before = sockets();
  check_all(outcomes_on_hosts({0}, [&](comm_type& comm) {
    tutti::barrier<tutti::dissemination>(comm);
    expect(sockets() == before, "a socket");
  }));
  std::atomic<int> most{0};
  std::atomic<int> unequal{0};
  check_all(outcomes_on_hosts({0, 0, 0}, [&](comm_type& comm) {
    tutti::barrier<tutti::dissemination>(comm);
    const int first = sockets();
    std::vector<int> values(1000);
    for (int i = 0; i < 10; ++i) tutti::allreduce<tutti::circulant>(comm, values, std::plus{});
    if (sockets() != first) unequal.fetch_add(1);
    most.store(first);
    tutti::barrier<tutti::dissemination>(comm);
  }));
  CHECK(unequal.load() == 0);
  // Two control connections, both of whose ends are here, and three listeners.
  CHECK(most.load() <= before + 4 + 3);
}
