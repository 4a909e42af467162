// SPDX-License-Identifier: BSL-1.0
#pragma once

// What send, recv and sendrecv must do, the same on every transport.

#include <tutti/tutti.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "communicator/outcome.hpp"

namespace test {

/// What three ranks that are processes do, of which rank 1 is killed while rank 0 sends it so many numbers, and rank 2
/// waits for `received` of its.
template <class Comm>
void exchange_with_killed(Comm& comm, std::size_t received, std::size_t sent) {
  std::vector<int> data(received);
  if (comm.rank() == 1) {
    tutti::send(comm, 0, std::array{1});
    std::raise(SIGKILL);
  }
  std::array<int, 1> first{};
  if (comm.rank() == 0) tutti::recv(comm, 1, first);
  if (comm.rank() == 0) return tutti::send(comm, 1, std::vector<int>(sent));
  tutti::recv(comm, 1, data);
}
/// What it comes to on the other two.
template <class Outcomes>
void check_killed(const Outcomes& killed) {
  for (const int rank : {0, 2}) {
    CHECK(killed.on(rank).kind == "peer_failed");
    CHECK(killed.on(rank).peer == 1);
  }
}

/// `outcomes_of(ranks, work)` runs `work(comm)` on so many ranks, and returns what it came to on each.
template <class Comm>
struct message_checks {
  using work = std::function<void(Comm&)>;
  using numbers = std::vector<std::int32_t>;

  std::function<std::vector<outcome>(int ranks, const work&)> outcomes_of;

  static void expect(bool right, const char* what) {
    if (!right) throw std::logic_error(what);
  }
  /// What rank `from` sends as message `number`.
  static numbers letter(int from, int number, std::size_t count) {
    numbers made(count);
    for (std::size_t i = 0; i < count; ++i) made[i] = from * 7919 + number * 104729 + static_cast<std::int32_t>(i);
    return made;
  }
  void check_well(int ranks, const work& f) const {
    for (const outcome& o : outcomes_of(ranks, f)) CHECK_MESSAGE(o.kind == "none", o.text);
  }
  /// The same on every rank; returns the text.
  std::string check_failure(int ranks, const char* kind, int peer, const work& f) const {
    const auto ended = outcomes_of(ranks, f);
    for (const outcome& o : ended) {
      CHECK_MESSAGE(o.kind == kind, o.text);
      CHECK(o.peer == peer);
      CHECK(o.text == ended[0].text);
    }
    return ended[0].text;
  }

  // In a slot's first line and beyond it, in the slot, copied, and in one and several pieces.
  static constexpr std::size_t sizes[] = {0, 1, 8, 9, 24, 25, 1000, 1024, 1025, 16384, 16385, 70000, 262144, 1048576};

  void everything() const {
    ring_shift();
    ping_pong();
    in_order();
    both_directions();
    beside_collectives();
    edges();
    wrong_ranks();
    misfits();
    failures();
    deadlines();
  }

  /// Every rank sends to the next while it receives from the one before.
  void ring_shift() const {
    for (const int ranks : {1, 2, 3, 5}) {
      check_well(ranks, [](Comm& comm) {
        const int p = comm.size();
        const int before = (comm.rank() + p - 1) % p;
        for (const std::size_t count : {0U, 1U, 25U, 1025U, 70000U}) {
          const numbers out = letter(comm.rank(), 1, count);
          numbers in(count, -1);
          tutti::sendrecv(comm, (comm.rank() + 1) % p, out, before, in);
          expect(in == letter(before, 1, count), "shifted by one");
          expect(out == letter(comm.rank(), 1, count), "what was sent stays as it is");
        }
      });
    }
  }

  /// Up to 4 MiB; the buffer that was sent is written at once.
  void ping_pong() const {
    check_well(2, [](Comm& comm) {
      for (const std::size_t count : sizes) {
        numbers data = letter(0, 2, count);
        for (int turn = 0; turn < 2; ++turn) {
          if (comm.rank() == turn) {
            tutti::send(comm, 1 - turn, data);
            std::fill(data.begin(), data.end(), -1);
          } else {
            std::fill(data.begin(), data.end(), -2);
            tutti::recv(comm, turn, data);
            expect(data == letter(0, 2, count), "ping and pong");
          }
        }
      }
      // Elements that are aligned to more than memory usually is.
      struct alignas(64) wide {
        double value;
      };
      std::vector<wide> wides(100, wide{comm.rank() + 0.5});
      if (comm.rank() == 0) {
        tutti::send(comm, 1, wides);
      } else {
        tutti::recv(comm, 0, wides);
      }
      expect(wides[99].value == 0.5, "other elements");
    });
  }

  /// Messages of one rank to another overtake none, whatever their sizes; more than anybody has room for.
  void in_order() const {
    check_well(4, [](Comm& comm) {
      constexpr int messages = 60;
      const auto count = [](int from, int number) {
        return sizes[static_cast<std::size_t>(5 * from + 3 * number) % 10];  // up to 64 KiB
      };
      if (comm.rank() == 0) {
        for (int number = 0; number < messages; ++number) {
          for (int from = 1; from < comm.size(); ++from) {
            numbers data(count(from, number));
            tutti::recv(comm, from, data);
            expect(data == letter(from, number, data.size()), "in order");
          }
        }
      } else {
        for (int number = 0; number < messages; ++number)
          tutti::send(comm, 0, letter(comm.rank(), number, count(comm.rank(), number)));
      }
    });
  }

  /// Other types and counts one way than the other, with every partner at once on its way.
  void both_directions() const {
    check_well(3, [](Comm& comm) {
      for (int number = 0; number < 10; ++number) {
        for (const int distance : {1, 2}) {
          const int to = (comm.rank() + distance) % 3;
          const int from = (comm.rank() + 3 - distance) % 3;
          const auto count = [&](int rank) { return sizes[static_cast<std::size_t>(rank + number) % 12]; };
          if (comm.rank() == 1) {
            // Whoever sends and receives by itself meets whoever does both at once.
            numbers in(count(from));
            tutti::sendrecv(comm, to, std::vector<float>(count(1), 1.5F), from, in);
            expect(in == letter(from, number, in.size()), "numbers");
          } else if (from == 1) {
            std::vector<float> in(count(1));
            tutti::sendrecv(comm, to, letter(comm.rank(), number, count(comm.rank())), from, in);
            expect(in == std::vector<float>(count(1), 1.5F), "other types");
          } else {
            numbers in(count(from));
            tutti::sendrecv(comm, to, letter(comm.rank(), number, count(comm.rank())), from, in);
            expect(in == letter(from, number, in.size()), "other counts");
          }
        }
      }
    });
  }

  void beside_collectives() const {
    check_well(3, [](Comm& comm) {
      const int p = comm.size();
      const int next = (comm.rank() + 1) % p;
      const int before = (comm.rank() + p - 1) % p;
      for (const std::size_t count : {1U, 5000U}) {
        numbers first(count, 1);
        numbers second(count, 2);
        auto one = tutti::iallreduce<tutti::ring>(comm, first, std::plus{});
        numbers in(count);
        tutti::sendrecv(comm, next, letter(comm.rank(), 3, count), before, in);
        expect(in == letter(before, 3, count), "beside what is pending");
        auto two = tutti::iallreduce<tutti::ring>(comm, second, std::plus{});
        numbers third(count, comm.rank());
        tutti::broadcast<tutti::flat>(comm, third, 2);
        expect(third == numbers(count, 2), "a collective between messages");
        // A rank that waits for a message goes on with what is pending, for which the sender waits first.
        if (comm.rank() == 0) {
          one.wait();
          two.wait();
          tutti::send(comm, 1, first);
        } else if (comm.rank() == 1) {
          tutti::recv(comm, 0, in);
          expect(in == numbers(count, 3), "what was pending");
          tutti::send(comm, 2, in);
        } else {
          tutti::recv(comm, 1, in);
        }
        one.wait();
        two.wait();
        expect(first == numbers(count, 3) && second == numbers(count, 6), "pending collectives");
        // A message may wait while collectives pass it.
        if (comm.rank() == 2) tutti::send(comm, 0, std::array{42});
        tutti::barrier<tutti::dissemination>(comm);
        tutti::broadcast<tutti::flat>(comm, in, 1);
        std::array<int, 1> late{};
        if (comm.rank() == 0) {
          tutti::recv(comm, 2, late);
          expect(late[0] == 42, "a message that waited");
        }
      }
    });
  }

  /// A line of ranks, at whose ends there is nobody.
  void edges() const {
    check_well(3, [](Comm& comm) {
      const std::optional<int> next = comm.rank() < 2 ? std::optional(comm.rank() + 1) : std::nullopt;
      const std::optional<int> before = comm.rank() > 0 ? std::optional(comm.rank() - 1) : std::nullopt;
      numbers in(2000, -1);
      tutti::sendrecv(comm, next, letter(comm.rank(), 4, 2000), before, in);
      expect(in == (before ? letter(*before, 4, 2000) : numbers(2000, -1)), "shifted along a line");
      tutti::sendrecv(comm, std::nullopt, in, std::nullopt, in);
    });
  }

  /// One rank sees that it is wrong; nothing has been sent, and all goes on.
  void wrong_ranks() const {
    check_well(2, [](Comm& comm) {
      numbers data(3, comm.rank());
      numbers other(3);
      const auto refused = [&](const std::string& text, const std::function<void()>& f) {
        const outcome o = outcome_of(f);
        if (o.kind != "usage_error" || !contains(o.text, text)) throw std::logic_error(text + ", not " + o.text);
      };
      const std::string at = " on rank " + std::to_string(comm.rank()) + " of 2: ";
      const int self = comm.rank();
      const std::string me = std::to_string(self);
      refused("send" + at + "the destination is rank 2, not in [0, 2)", [&] { tutti::send(comm, 2, data); });
      refused("recv" + at + "the source is rank -1, not in [0, 2)", [&] { tutti::recv(comm, -1, data); });
      refused("send" + at + "the destination is rank " + me + ", which is this rank itself",
              [&] { tutti::send(comm, self, data); });
      refused("recv" + at + "the source is rank " + me + ", which is this", [&] { tutti::recv(comm, self, data); });
      refused("sendrecv" + at + "the destination is rank 7",
              [&] { tutti::sendrecv(comm, 7, data, std::nullopt, other); });
      refused("sendrecv" + at + "the source is rank -2", [&] { tutti::sendrecv(comm, std::nullopt, data, -2, other); });
      refused("sendrecv" + at + "the destination is this rank itself, and the other is not",
              [&] { tutti::sendrecv(comm, self, data, 1 - self, other); });
      refused("sendrecv" + at + "the source is this rank itself, and the other is not",
              [&] { tutti::sendrecv(comm, 1 - self, data, self, other); });
      refused("overlap", [&] { tutti::sendrecv(comm, 1 - self, data, 1 - self, std::span(data).subspan(2)); });
      refused("sends itself 3 elements, receives 4", [&] { tutti::sendrecv(comm, self, data, self, numbers(4)); });
      refused("sends itself int, receives float",
              [&] { tutti::sendrecv(comm, self, data, self, std::vector<float>(3)); });
      tutti::sendrecv(comm, self, data, self, other);
      expect(other == data, "to itself");
      tutti::sendrecv(comm, 1 - self, data, 1 - self, other);
      expect(other == numbers(3, 1 - self), "afterwards");
    });
  }

  /// Count or type differ: every rank throws the same, which names both calls.
  void misfits() const {
    const tutti::call_site there{"there.cpp", 1};
    const tutti::call_site here{"here.cpp", 2};
    for (const std::size_t count : {2U, 1000U, 100000U}) {
      const auto of = [](std::size_t n, const char* type) { return std::to_string(n) + " x " + type; };
      const std::string another_count = check_failure(3, "mismatch", -1, [=](Comm& comm) {
        numbers data(comm.rank() == 1 ? count : 2 * count);
        if (comm.rank() == 0) tutti::send(comm, 2, numbers(3));  // the second message to rank 1, the first to rank 2
        if (comm.rank() == 2) tutti::recv(comm, 0, numbers(3));
        if (comm.rank() == 0) tutti::send(comm, 1, data, there);
        if (comm.rank() == 1) tutti::recv(comm, 0, data, here);
        tutti::recv(comm, comm.rank() == 2 ? 1 : 2, data);
      });
      CHECK(another_count.starts_with("rank 0 called send of " + of(2 * count, "int") +
                                      " (4 bytes each) to rank 1, message 1 at there.cpp:1; rank 1 called recv of " +
                                      of(count, "int") + " (4 bytes each) from rank 0, message 1 at here.cpp:2"));
      const std::string another_type = check_failure(2, "mismatch", -1, [=](Comm& comm) {
        numbers data(count);
        tutti::sendrecv(comm, 1 - comm.rank(), data, 1 - comm.rank(), numbers(count));
        if (comm.rank() == 1) tutti::sendrecv(comm, 0, data, 0, numbers(count), there);
        if (comm.rank() == 0) tutti::recv(comm, 1, std::vector<float>(count), here);
        tutti::barrier<tutti::dissemination>(comm);
      });
      CHECK(
          another_type.starts_with("rank 0 called recv of " + of(count, "float") +
                                   " (4 bytes each) from rank 1, message 2 at here.cpp:2; rank 1 called sendrecv of " +
                                   of(count, "int") + " (4 bytes each) to rank 0, message 2 at there.cpp:1"));
    }
    const std::string forgotten = check_failure(3, "mismatch", -1, [](Comm& comm) {
      if (comm.rank() == 0) {
        tutti::send(comm, 1, std::array{1, 2});
        for (int i = 0; i < 20; ++i) tutti::send(comm, 2, std::array{1});
      } else if (comm.rank() == 2) {
        for (int i = 0; i < 20; ++i) tutti::recv(comm, 0, std::array{0});
        tutti::send(comm, 1, std::array{1});
      } else {
        tutti::recv(comm, 2, std::array{0});
        tutti::recv(comm, 0, std::array{0});
      }
      tutti::barrier<tutti::dissemination>(comm);
    });
    CHECK(
        forgotten.starts_with("rank 0 called a send to rank 1 that does not fit, message 1, too many messages ago to "
                              "say more; rank 1 called recv of 1 x int (4 bytes each) from rank 0, message 1 at "));
  }

  void failures() const {
    for (const std::size_t count : {1U, 100000U}) {
      const auto thrown = outcomes_of(3, [=](Comm& comm) {
        tutti::barrier<tutti::dissemination>(comm);
        numbers data(count);
        if (comm.rank() == 1) throw std::runtime_error("no shoes");
        if (comm.rank() == 0) tutti::recv(comm, 1, data);
        tutti::sendrecv(comm, 1, numbers(count), 0, data);
      });
      for (const int rank : {0, 2}) {
        CHECK(thrown[static_cast<std::size_t>(rank)].kind == "peer_failed");
        CHECK(thrown[static_cast<std::size_t>(rank)].peer == 1);
        CHECK(contains(thrown[static_cast<std::size_t>(rank)].text, "no shoes"));
      }
    }
    const auto left = outcomes_of(2, [](Comm& comm) {
      if (comm.rank() == 1) return tutti::send(comm, 0, std::array{5});
      std::array<int, 1> data{};
      tutti::recv(comm, 1, data);
      expect(data[0] == 5, "what was sent before it left");
      tutti::recv(comm, 1, data);
    });
    CHECK(left[0].kind == "peer_failed");
    CHECK(left[0].peer == 1);
    CHECK(contains(left[0].text,
                   "rank 1 left while rank 0 waited for it in recv of 1 x int (4 bytes each) from rank 1, message 2"));
  }

  /// Who waits for a message while others are in a collective is no mismatch; the deadline names who was waited for.
  void deadlines() const {
    using namespace std::chrono_literals;
    const std::string text = check_failure(3, "timed_out", 2, [](Comm& comm) {
      tutti::barrier<tutti::dissemination>(comm);
      std::array<int, 1> data{};
      if (comm.rank() == 0) comm.timeout(60ms);
      if (comm.rank() == 0) return tutti::recv(comm, 2, data);
      if (comm.rank() == 1) return tutti::broadcast<tutti::flat>(comm, data, 2);
      tutti::recv(comm, 0, data);
    });
    CHECK(contains(text, "rank 2 was late: rank 0 waited "));
    CHECK(contains(text, " ms for rank 2 in recv of 1 x int (4 bytes each) from rank 2, message 1 at "));
    const std::string other = check_failure(2, "timed_out", 1, [](Comm& comm) {
      std::array<int, 1> data{};
      if (comm.rank() == 0) comm.timeout(60ms);
      if (comm.rank() == 0) return tutti::broadcast<tutti::flat>(comm, data, 1);
      tutti::recv(comm, 0, data);
    });
    CHECK(contains(other, "rank 1 was late: rank 0 waited "));
  }
};

}  // namespace test
