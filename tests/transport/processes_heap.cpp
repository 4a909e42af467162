// SPDX-License-Identifier: BSL-1.0
#include <tutti/transport/processes/heap.hpp>

#include <doctest/doctest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "deadline.hpp"

namespace {

using tutti::detail::heap;
using tutti::detail::segment;
using namespace std::chrono_literals;

static_assert(!std::movable<heap>);

constexpr std::size_t mebi = std::size_t{1} << 20;

bool aligned(const std::byte* data, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

std::string refusal(heap& from, std::size_t bytes) {
  try {
    from.take(bytes, 64, "a buffer of rank 3");
  } catch (const tutti::resource_error& e) {
    return e.what();
  }
  return {};
}

/// Blocks of a heap, each filled with a number of its own as far as is looked at: both ends, and a word a page.
class blocks {
 public:
  explicit blocks(heap& from) : heap_(from) {}
  ~blocks() {
    while (!taken_.empty()) give_back(taken_.size() - 1);
  }
  blocks(const blocks&) = delete;
  blocks& operator=(const blocks&) = delete;

  std::size_t count() const { return taken_.size(); }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t peak() const { return peak_; }
  bool intact() const { return intact_; }
  void take(std::size_t bytes) {
    block b{heap_.take(bytes), bytes, ++number_};
    intact_ = intact_ && aligned(b.data, bytes >= 2 * mebi ? 2 * mebi : 64);
    b.each_place([&](std::byte* at, std::size_t n) { std::memcpy(at, &b.number, n); });
    taken_.push_back(b);
    bytes_ += bytes;
    peak_ = std::max(peak_, bytes_);
  }
  void give_back(std::size_t i) {
    std::swap(taken_[i], taken_.back());
    const block b = taken_.back();
    taken_.pop_back();
    b.each_place([&](std::byte* at, std::size_t n) { intact_ = intact_ && std::memcmp(at, &b.number, n) == 0; });
    heap_.give_back(b.data);
    bytes_ -= b.bytes;
  }

 private:
  struct block {
    std::byte* data;
    std::size_t bytes;
    std::uint64_t number;
    template <class F>
    void each_place(F f) const {
      for (std::size_t i = 0; i < bytes; i += 4096) f(data + i, std::min<std::size_t>(8, bytes - i));
      if ((bytes - 1) % 4096 >= 8) f(data + bytes - 1, std::size_t{1});
    }
  };
  heap& heap_;
  std::vector<block> taken_;
  std::uint64_t bytes_ = 0;
  std::uint64_t peak_ = 0;
  std::uint64_t number_ = 0;
  bool intact_ = true;
};

}  // namespace

TEST_CASE("blocks are aligned, apart, and of a heap that is as small as it can be") {
  const test::deadline limit(20s);
  segment memory = segment::create(segment::least_range);
  heap h(memory);
  CHECK(h.committed() == 0);
  std::byte* const first = h.take(1);
  CHECK(aligned(first, 64));
  CHECK(memory.holds(first, 1));
  CHECK(h.take(0) != first);
  CHECK(h.live() == 128);
  CHECK(h.committed() == heap::growth);
  CHECK(aligned(h.take(100, 4096), 4096));
  CHECK(aligned(h.take(100, 8), 64));
  std::byte* const large = h.take(3 * mebi);
  CHECK(aligned(large, 2 * mebi));
  large[3 * mebi - 1] = std::byte{1};
  CHECK(aligned(h.take(2 * mebi), 2 * mebi));
  CHECK(aligned(h.take(64, 2 * mebi), 2 * mebi));
  h.give_back(nullptr);
}

TEST_CASE("a heap that has got all back gives it as one block again, whatever the order") {
  const test::deadline limit(20s);
  segment memory = segment::create(segment::least_range);
  heap h(memory);
  std::mt19937 random(1);
  std::uint64_t committed = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::byte*> taken;
    taken.reserve(1000);
    for (int i = 0; i < 1000; ++i) taken.push_back(h.take(1 + random() % 3000));
    CHECK(std::set<std::byte*>(taken.begin(), taken.end()).size() == taken.size());
    std::shuffle(taken.begin(), taken.end(), random);
    for (std::byte* const data : taken) h.give_back(data);
    CHECK(h.live() == 0);
    if (round == 0) committed = h.committed();
    CHECK(h.committed() <= committed + mebi);
    std::byte* const all = h.take(h.committed() / heap::unit * heap::unit, 64);
    CHECK(h.live() == h.committed());
    h.give_back(all);
  }
}

TEST_CASE("what is taken and given back for a long time, in all sizes, does not make the heap grow") {
  const test::deadline limit(60s);
  segment memory = segment::create(8 * segment::least_range);
  heap h(memory);
  blocks all(h);
  std::mt19937_64 random(7);
  constexpr int steps = 100'000;
  for (int i = 0; i < steps; ++i) {
    // Sizes of all orders, now small ones for the most part and now large ones.
    const std::size_t order = i / 1000 % 2 == 0 ? random() % 14 : random() % 23;
    if (all.count() < 20 || (all.count() < 400 && all.bytes() < 40 * mebi && random() % 2 == 0)) {
      all.take((std::size_t{1} << order) + random() % (std::size_t{1} << order));
    } else {
      all.give_back(random() % all.count());
    }
  }
  CHECK(all.intact());
  CHECK(h.live() >= all.bytes());
  CHECK(all.peak() > 30 * mebi);
  CAPTURE(all.peak());
  CAPTURE(h.committed());
  CHECK(h.committed() < 2 * all.peak() + 4 * mebi);
}

TEST_CASE("a buffer that grows again and again is found room where its predecessors were") {
  const test::deadline limit(20s);
  segment memory = segment::create(4 * segment::least_range);
  heap mine(memory, 4 * mebi);
  heap other(memory, 4 * mebi);
  std::size_t largest = 0;
  std::size_t sum = 0;
  for (std::size_t bytes = mebi; bytes < 40 * mebi; bytes += bytes / 10) {
    mine.give_back(mine.take(bytes));
    other.give_back(other.take(bytes));
    largest = bytes;
    sum += bytes;
  }
  CHECK(mine.committed() < 4 * largest);
  CHECK(other.committed() < 4 * largest);
  CHECK(memory.taken() < 8 * largest);
  CHECK(8 * largest < sum);
}

TEST_CASE("what the system refuses takes nothing, and the heap goes on") {
  const test::deadline limit(20s);
  segment memory = segment::create(64 * mebi);
  heap h(memory);
  blocks all(h);
  all.take(10 * mebi);
  const std::uint64_t live = h.live();
  const std::uint64_t committed = h.committed();
  const std::uint64_t taken = memory.taken();
  CHECK(refusal(h, 100 * mebi).find("a buffer of rank 3: 104857600 bytes needed") != std::string::npos);
  CHECK(refusal(h, ~std::size_t{0}).find(": 18446744073709551615 bytes needed") != std::string::npos);
  CHECK(refusal(h, 60 * mebi).find(": 62914560 bytes needed") != std::string::npos);
  CHECK(h.live() == live);
  CHECK(h.committed() == committed);
  CHECK(memory.taken() == taken);
  all.take(20 * mebi);
  CHECK(all.intact());
}

TEST_CASE("memory that is not there is an error, and neither addresses nor memory are lost by it") {
  const test::deadline limit(20s);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);
    const rlimit files{100 * mebi, 100 * mebi};
    if (setrlimit(RLIMIT_FSIZE, &files) != 0) _exit(1);
    int result = 0;
    {
      segment memory = segment::create(segment::least_range);
      heap h(memory);
      h.take(mebi);
      const std::uint64_t taken = memory.taken();
      for (int i = 0; i < 100; ++i) {
        if (refusal(h, 200 * mebi + static_cast<std::size_t>(i) * mebi).find("RLIMIT_FSIZE") == std::string::npos)
          result = 2;
      }
      if (memory.taken() != taken) result = 3;
      if (h.live() != mebi || h.committed() != mebi) result = 4;
      h.take(50 * mebi)[50 * mebi - 1] = std::byte{1};
    }
    _exit(result);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("heaps of several processes in one segment do not meet, and a copy by fork spoils nothing") {
  const test::deadline limit(30s);
  segment memory = segment::create(4 * segment::least_range);
  heap h(memory);
  blocks all(h);
  for (std::size_t i = 0; i < 50; ++i) all.take(1 + 1000 * i);
  std::vector<pid_t> children;
  for (unsigned child = 0; child < 3; ++child) {
    children.push_back(fork());
    REQUIRE(children.back() >= 0);
    if (children.back() != 0) continue;
    alarm(60);
    bool intact = false;
    {
      heap mine(memory);
      blocks some(mine);
      std::mt19937 random(child);
      for (int i = 0; i < 3000; ++i) {
        if (some.count() < 50 || random() % 2 == 0) {
          some.take(1 + random() % 10'000);
        } else {
          some.give_back(random() % some.count());
        }
      }
      while (some.count() > 0) some.give_back(0);
      intact = some.intact();
    }
    memory = segment();
    _exit(intact ? 0 : 1);
  }
  for (std::size_t i = 0; i < 1000; ++i) {
    all.take(1 + 10 * i);
    all.give_back(i % all.count());
  }
  for (const pid_t child : children) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  while (all.count() > 0) all.give_back(0);
  CHECK(all.intact());
  CHECK(h.live() == 0);
}
