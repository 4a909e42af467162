// SPDX-License-Identifier: BSL-1.0

// Lanes between threads, below collectives: order, back-pressure, copies, publication of memory, and leaving.

#include <tutti/transport/threads.hpp>

#include "deadline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace test;
using namespace std::chrono_literals;

namespace {

using lane = tutti::threads::lane_type;
using bytes = std::vector<std::byte>;

constexpr tutti::call_signature signature{"test", "hand", "std::byte", "", 1};
tutti::call call_number(std::uint64_t number) {
  tutti::call c;
  c.signature = &signature;
  c.sequence = number;
  return c;
}

/// The ranks of a group, and one lane of each, with a call opened.
struct ends {
  explicit ends(int ranks, int lane_index = 0) : group(std::make_shared<tutti::threads::group_type>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      transports.emplace_back(*group, rank);
      lanes.push_back(transports.back().make_lane(lane_index));
      lanes.back().open(call_number(1));
      lanes.back().begin_round();
    }
  }
  lane& operator[](int rank) { return lanes[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<tutti::threads::group_type> group;
  std::deque<tutti::threads> transports;
  std::deque<lane> lanes;
};

/// A message that tells its number in every byte.
bytes message(std::size_t number, std::size_t size) { return bytes(size, static_cast<std::byte>(number * 7 + 1)); }

bool receive_if_there(lane& to, int from, const bytes& expected) {
  bytes got(expected.size(), std::byte{0xA5});
  if (!to.try_recv(from, got.data(), got.size())) return false;
  if (got != expected) throw std::logic_error("another message");
  return true;
}
void receive(lane& to, int from, const bytes& expected) {
  while (!receive_if_there(to, from, expected)) to.idle();
  to.awake();
}
void settle(lane& l) {
  while (!l.settled()) l.idle();
  l.awake();
}

template <class F>
void in_threads(int ranks, F&& work) {
  std::vector<std::thread> threads;
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        work(rank);
      } catch (const std::exception& e) {
        errors[static_cast<std::size_t>(rank)] = e.what();
      }
    });
  for (auto& t : threads) t.join();
  for (const std::string& error : errors) CHECK(error == "");
}

constexpr std::size_t sizes[] = {0, 1, 8, 31, 32, 33, 95, 96, 97, 500, 4095, 4096, 4097, 20000};

}  // namespace

TEST_CASE("messages of all sizes arrive whole and in order, whether copied or read where they lie") {
  const deadline limit(60s);
  ends ranks(2);
  const std::size_t batches = sanitized ? 30 : 100;
  in_threads(2, [&](int rank) {
    std::mt19937 random(1);  // the same on both
    for (std::size_t batch = 0; batch < batches; ++batch) {
      std::vector<bytes> messages;
      ranks[rank].begin_round();
      for (std::size_t i = 0; i < 20; ++i) {
        messages.push_back(message(batch * 20 + i, sizes[random() % std::size(sizes)]));
        const bool copy = messages.back().size() <= 4096 && random() % 2 == 0;
        if (rank == 0) {
          const bool copied = ranks[0].send(1, messages.back().data(), messages.back().size(), copy);
          if (copied && !copy) throw std::logic_error("a copy that nobody asked for");
          if (copied) std::fill(messages.back().begin(), messages.back().end(), std::byte{0xEE});
        } else if (i % 2 == 0) {
          receive(ranks[1], 0, messages.back());
        } else {
          const std::byte* there = nullptr;
          while ((there = ranks[1].view(0, messages.back().size())) == nullptr) ranks[1].idle();
          ranks[1].awake();
          ranks[1].claim(0);
          if (!std::equal(messages.back().begin(), messages.back().end(), there)) throw std::logic_error("wrong view");
          ranks[1].release(0);
        }
      }
      if (rank == 0) settle(ranks[0]);
    }
  });
}

TEST_CASE("a sender that is far ahead keeps its messages until there is room, and their order") {
  for (const std::size_t size : {0U, 8U, 96U, 500U, 4096U, 20000U}) {
    CAPTURE(size);
    ends ranks(2);
    const bool copy = size <= 4096;
    constexpr std::size_t count = 100;
    std::vector<bytes> messages;
    std::vector<bytes> sent;
    for (std::size_t i = 0; i < count; ++i) {
      ranks[0].begin_round();
      messages.push_back(message(i, size));
      sent.push_back(messages.back());
      const bool copied = ranks[0].send(1, sent.back().data(), size, copy);
      // The first are copied if asked; later ones lie where they are, for want of room, unless small.
      if (i < 8) CHECK(copied == copy);
      if (i + 1 == count) CHECK(copied == (size <= tutti::threads::exchange_copy_bytes));
      if (copied) std::fill(sent.back().begin(), sent.back().end(), std::byte{0xEE});
    }
    CHECK_FALSE(ranks[0].settled());
    for (std::size_t i = 0; i < count; ++i) {
      ranks[0].settled();  // moves on what fits
      REQUIRE(receive_if_there(ranks[1], 0, messages[i]));
    }
    CHECK(ranks[0].settled());
    CHECK_FALSE(receive_if_there(ranks[1], 0, messages[0]));
  }
}

TEST_CASE("a peer that does not receive holds back nobody else's messages") {
  ends ranks(3);
  const bytes one = message(1, 500);
  const bytes other = message(2, 600);
  for (int i = 0; i < 50; ++i) ranks[0].send(1, one.data(), one.size(), true);
  for (int i = 0; i < 5; ++i) ranks[0].send(2, other.data(), other.size(), true);
  for (int i = 0; i < 5; ++i) REQUIRE(receive_if_there(ranks[2], 0, other));
  CHECK_FALSE(ranks[0].settled());
  for (int i = 0; i < 50; ++i) {
    ranks[0].settled();
    REQUIRE(receive_if_there(ranks[1], 0, one));
  }
  CHECK(ranks[0].settled());
}

TEST_CASE("the same bytes to several peers are one copy of one round, and new bytes another") {
  ends ranks(4);
  std::vector<bytes> rounds;
  std::vector<bytes> sent;
  for (std::size_t round = 0; round < 40; ++round) {
    ranks[0].begin_round();
    rounds.push_back(message(round, 700));
    sent.push_back(rounds.back());
    bytes& data = sent.back();
    bool copied = true;
    for (int peer = 1; peer < 4; ++peer) copied &= ranks[0].send(peer, data.data(), data.size(), true);
    if (round < 8) CHECK(copied);
    if (copied) std::fill(data.begin(), data.end(), std::byte{0xEE});
    // One peer keeps up, one lags, one does not come at all.
    ranks[0].settled();  // moves on what fits
    REQUIRE(receive_if_there(ranks[1], 0, rounds[round]));
    if (round % 2 == 1) REQUIRE(receive_if_there(ranks[2], 0, rounds[round / 2]));
  }
  for (std::size_t round = 20; round < 40; ++round) {
    ranks[0].settled();
    REQUIRE(receive_if_there(ranks[2], 0, rounds[round]));
  }
  for (std::size_t round = 0; round < 40; ++round) {
    ranks[0].settled();
    REQUIRE(receive_if_there(ranks[3], 0, rounds[round]));
  }
  CHECK(ranks[0].settled());
}

TEST_CASE("memory that is sent without a copy is the sender's again only when it has been read") {
  ends ranks(2);
  const bytes data = message(3, 10000);
  ranks[0].send(1, data.data(), data.size(), false);
  CHECK_FALSE(ranks[0].settled());
  const std::byte* const there = ranks[1].view(0, data.size());
  CHECK(there == data.data());  // not even copied
  ranks[1].claim(0);
  CHECK_FALSE(ranks[0].settled());
  ranks[1].release(0);
  CHECK(ranks[0].settled());
}

TEST_CASE(
    "what is shown without a copy is so too, whatever else was looked at, and once all have shown a later round") {
  const deadline limit(60s);
  const bytes data = message(3, 10000);
  const bytes small = message(4, 8);
  for (const bool all : {false, true}) {
    CAPTURE(all);
    ends ranks(3);
    CHECK(ranks[0].publish(2, data.data(), data.size(), 0, false));
    ranks[0].publish_to(2, false);
    for (int rank = 0; rank < 3; ++rank)
      if (rank != 2) ranks[rank].end_shared(true);
    CHECK(ranks[2].look(0, 0) == data.data());
    ranks[2].claim_shared();
    CHECK_FALSE(ranks[0].settled());
    // The others show something in the next round: one of them twice looked at, or either.
    CHECK(ranks[1].publish(0, small.data(), small.size(), 0, true));
    ranks[1].publish_to(0, true);
    CHECK(ranks[0].look(1, 0) != nullptr);
    if (all) {
      ranks[2].release_shared();
      ranks[2].end_shared(false);
      CHECK_FALSE(ranks[0].settled());
      CHECK(ranks[2].publish(0, small.data(), small.size(), 0, true));
      ranks[2].publish_to(0, true);
      CHECK(ranks[0].look(2, 0) != nullptr);
    } else {
      CHECK(ranks[0].look(1, 4) != nullptr);
    }
    ranks[0].claim_shared();
    ranks[0].release_shared();
    ranks[0].end_shared(true);
    CHECK(ranks[0].settled() == all);
    if (all) continue;
    ranks[2].release_shared();
    ranks[2].end_shared(true);
    CHECK(ranks[0].settled());
  }
}

TEST_CASE("a message of another size is a schedule that does not fit together") {
  ends ranks(2);
  const bytes data = message(3, 8);
  ranks[0].send(1, data.data(), data.size(), true);
  bytes in(16);
  try {
    ranks[1].try_recv(0, in.data(), in.size());
    FAIL("it was accepted");
  } catch (const tutti::mismatch& e) {
    const std::string text = e.what();
    CAPTURE(text);
    CHECK(text.find("rank 0 sent 8 bytes where rank 1 expects 16 in round 0 of test") != std::string::npos);
  }
  CHECK_THROWS_AS(ranks[0].open(call_number(2)), tutti::mismatch);
}

TEST_CASE("lanes are independent of each other") {
  const deadline limit(60s);
  constexpr int count = 65;
  tutti::threads::group_type group(2);
  // They outlive the threads, like communicators: what one has sent the other may read after it has left.
  std::deque<tutti::threads> transports;
  std::array<std::deque<lane>, 2> lanes_of;
  for (int rank = 0; rank < 2; ++rank) {
    transports.emplace_back(group, rank);
    for (int i = 0; i < count; ++i) {
      lane& l = lanes_of[static_cast<std::size_t>(rank)].emplace_back(transports.back().make_lane(i));
      l.open(call_number(1));
      l.begin_round();
    }
  }
  in_threads(2, [&](int rank) {
    auto& lanes = lanes_of[static_cast<std::size_t>(rank)];
    for (std::size_t repetition = 0; repetition < 50; ++repetition) {
      std::vector<bytes> kept;
      for (std::size_t i = 0; i < count; ++i) {
        // Rank 1 looks at the lanes in the opposite order.
        const std::size_t at = rank == 0 ? i : count - 1 - i;
        kept.push_back(message(at + repetition, sizes[at % std::size(sizes)]));
        lanes[at].begin_round();
        lanes[at].send(1 - rank, kept.back().data(), kept.back().size(), kept.back().size() <= 4096);
      }
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = rank == 0 ? i : count - 1 - i;
        receive(lanes[at], 1 - rank, message(at + repetition, sizes[at % std::size(sizes)]));
      }
      for (auto& l : lanes) settle(l);
    }
  });
}

TEST_CASE("litmus: who sees a message sees all of it, and who is told that it was read may write") {
  const deadline limit(60s);
  constexpr auto the_end = ~std::uint64_t{0};
  for (const std::size_t words : {std::size_t{1}, std::size_t{12}, std::size_t{40}, std::size_t{600}}) {
    CAPTURE(words);
    ends ranks(2);
    std::uint64_t rounds = 0;
    in_threads(2, [&](int rank) {
      std::vector<std::uint64_t> data(words);
      const std::size_t size = words * sizeof(std::uint64_t);
      const auto until = std::chrono::steady_clock::now() + 1s;
      bool over = false;
      for (std::uint64_t round = 1; !over; ++round) {
        if (rank == 0) {
          over = round % 100 == 0 && std::chrono::steady_clock::now() > until;
          // The same memory each time: written as soon as the lane gives it back.
          std::fill(data.begin(), data.end(), over ? the_end : round);
          ranks[0].begin_round();
          ranks[0].send(1, reinterpret_cast<const std::byte*>(data.data()), size, size <= 4096);
          settle(ranks[0]);
        } else {
          const std::byte* there = nullptr;
          while ((there = ranks[1].view(0, size)) == nullptr) ranks[1].idle();
          ranks[1].awake();
          ranks[1].claim(0);
          std::uint64_t first = 0;
          std::memcpy(&first, there, sizeof first);
          over = first == the_end;
          for (std::size_t i = 0; i < words; ++i) {
            std::uint64_t word = 0;
            std::memcpy(&word, there + i * sizeof word, sizeof word);
            if (word != (over ? the_end : round)) throw std::logic_error("a message was not whole");
          }
          ranks[1].release(0);
          rounds = round;
        }
      }
    });
    MESSAGE(words << " words: " << rounds << " messages");
  }
}

TEST_CASE("who abandons its call waits for those who read its memory, and for nobody else") {
  const deadline limit(30s);
  for (int repetition = 0; repetition < 20; ++repetition) {
    ends ranks(3);
    auto data = std::make_unique<bytes>(message(5, 100000));
    for (const int peer : {1, 2}) ranks[0].send(peer, data->data(), data->size(), false);
    std::atomic<bool> reading = false;
    std::atomic<bool> read = false;
    std::thread reader([&] {
      const std::byte* const there = ranks[1].view(0, 100000);
      ranks[1].claim(0);
      reading = true;
      std::this_thread::sleep_for(5ms);
      bool whole = true;
      for (std::size_t i = 0; i < 100000; ++i) whole &= there[i] == message(5, 1)[0];
      CHECK(whole);
      read = true;
      ranks[1].release(0);
    });
    while (!reading) std::this_thread::yield();
    ranks[0].abandon("enough");
    CHECK(read);
    data.reset();
    reader.join();
    // The other reader is told before it can read.
    REQUIRE(ranks[2].view(0, 100000) != nullptr);
    CHECK_THROWS_AS(ranks[2].claim(0), tutti::peer_failed);
    CHECK_THROWS_AS(ranks[1].open(call_number(2)), tutti::peer_failed);
  }
}

TEST_CASE("who withdraws waits for those who read its memory, and the others neither read it nor hear anything") {
  const deadline limit(30s);
  for (int repetition = 0; repetition < 20; ++repetition) {
    ends ranks(4);
    auto data = std::make_unique<bytes>(message(5, 100000));
    const bytes copied = message(6, 300);
    ranks[0].send(3, copied.data(), copied.size(), true);
    for (const int peer : {1, 2, 3}) ranks[0].send(peer, data->data(), data->size(), false);
    std::atomic<bool> reading = false;
    std::atomic<bool> read = false;
    std::thread reader([&] {
      const std::byte* const there = ranks[1].view(0, 100000);
      ranks[1].claim(0);
      reading = true;
      std::this_thread::sleep_for(5ms);
      bool whole = true;
      for (std::size_t i = 0; i < 100000; ++i) whole &= there[i] == message(5, 1)[0];
      CHECK(whole);
      read = true;
      ranks[1].release(0);
    });
    REQUIRE(ranks[2].view(0, 100000) != nullptr);
    while (!reading) std::this_thread::yield();
    ranks[0].withdraw();
    CHECK(read);
    data.reset();
    reader.join();
    receive(ranks[3], 0, copied);
    CHECK(ranks[3].view(0, 100000) == nullptr);
    CHECK_NOTHROW(ranks[3].glance());
    CHECK_NOTHROW(ranks[1].open(call_number(2)));
    // Who has looked already waits until the rank says why.
    std::string why;
    std::thread looked([&] {
      try {
        ranks[2].claim(0);
      } catch (const tutti::peer_failed& e) {
        why = e.what();
      }
    });
    if (repetition % 2 == 0) std::this_thread::sleep_for(1ms);
    ranks.group->end_rank(0, " failed: no shoes");
    looked.join();
    CHECK(why == "rank 0 failed: no shoes: peer failed");
    CHECK_THROWS_AS(ranks[3].glance(), tutti::peer_failed);
  }
}
