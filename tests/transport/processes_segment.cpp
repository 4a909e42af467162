// SPDX-License-Identifier: BSL-1.0
#include <tutti/transport/processes/segment.hpp>

#include <doctest/doctest.h>

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "deadline.hpp"

namespace {

using tutti::detail::available_memory;
using tutti::detail::memory_left;
using tutti::detail::segment;
using tutti::detail::segment_source;
using namespace std::chrono_literals;

static_assert(std::movable<segment> && !std::copyable<segment>);
static_assert(std::is_nothrow_move_constructible_v<segment> && std::is_nothrow_move_assignable_v<segment>);
static_assert(std::is_nothrow_destructible_v<segment>);

constexpr std::size_t mebi = std::size_t{1} << 20;
constexpr std::size_t gibi = std::size_t{1} << 30;

/// What `f` returns in a process of its own; 256 and the signal where one ends it.
template <class F>
int in_child(F f) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);
    try {
      _exit(f());
    } catch (...) {
      _exit(99);
    }
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

/// The text of the `Error` that `f` throws; empty if it throws none.
template <class Error, class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}
template <class F>
std::string no_resource(F f) {
  return refusal<tutti::resource_error>(f);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool zero(const std::byte* data, std::size_t bytes) {
  return std::all_of(data, data + bytes, [](std::byte b) { return b == std::byte{0}; });
}

std::size_t entries(const char* folder) {
  std::size_t count = 0;
  DIR* const open = opendir(folder);
  if (open == nullptr) return 0;
  while (readdir(open) != nullptr) ++count;
  closedir(open);
  return count;
}

constexpr segment_source sources[] = {segment_source::any, segment_source::memfd, segment_source::unnamed,
                                      segment_source::named};

/// Puts a new /dev/shm of that size there for this process alone; whether that is allowed.
bool small_shared_memory(const char* options) {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  if (mount("none", "/", "none", MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  return mount("tmpfs", "/dev/shm", "tmpfs", 0, options) == 0;
}

}  // namespace

TEST_CASE("what is taken is zero, aligned, apart from all else and never at the beginning") {
  const test::deadline limit(20s);
  for (const segment_source source : sources) {
    segment s = segment::create(segment::least_range, source);
    CHECK(s.range() == segment::least_range);
    CHECK(reinterpret_cast<std::uintptr_t>(s.base()) % segment::huge_page == 0);
    std::uint64_t end = 1;
    for (const std::size_t alignment : {1u, 2u, 64u, 4096u, 8u, 1u << 21, 64u}) {
      for (const std::size_t bytes : {1u, 63u, 64u, 4097u, 100000u}) {
        const std::uint64_t at = s.take(bytes, alignment, "a test");
        CHECK(at >= end);
        CHECK(at % alignment == 0);
        CHECK(reinterpret_cast<std::uintptr_t>(s.at(at)) % alignment == 0);
        CHECK(zero(s.at(at), bytes));
        std::fill_n(s.at(at), bytes, std::byte{0xff});
        end = at + bytes;
      }
    }
    CHECK(s.taken() == end);
    CHECK(s.take(0, 1, "nothing") == end);
    CHECK(s.taken() == end + 1);
  }
}

TEST_CASE("a place is an offset, and what lies in the segment only in part does not") {
  const test::deadline limit(20s);
  segment s = segment::create(segment::least_range);
  const std::uint64_t offset = s.take(sizeof(std::uint64_t), alignof(std::uint64_t), "a number");
  *s.object<std::uint64_t>(offset) = 42;
  CHECK(s.offset_of(s.at(offset)) == offset);
  CHECK(s.holds(s.at(offset), 8));
  CHECK(s.holds(s.base(), s.range()));
  CHECK_FALSE(s.holds(s.base(), s.range() + 1));
  CHECK_FALSE(s.holds(s.base() - 1, 2));
  CHECK(s.holds(s.base() + s.range() - 1, 1));
  CHECK_FALSE(s.holds(s.base() + s.range() - 1, 2));
  CHECK_FALSE(s.holds(s.base() + s.range(), 1));
  CHECK_FALSE(s.holds(s.base() + 64, ~std::size_t{0}));
  const std::byte mine{};
  CHECK_FALSE(s.holds(&mine, 1));
  CHECK_FALSE(s.holds(nullptr, 1));
  CHECK_FALSE(segment().holds(&mine, 1));
  CHECK_FALSE(segment().holds(nullptr, 0));
}

TEST_CASE("who attaches sees the same bytes, at another address") {
  const test::deadline limit(20s);
  for (const segment_source source : sources) {
    segment s = segment::create(segment::least_range, source);
    segment other = segment::attach(dup(s.descriptor()));
    CHECK(other.range() == s.range());
    REQUIRE(other.base() != s.base());
    const std::uint64_t first = s.take(100, 64, "a test");
    const std::uint64_t second = other.take(5 * mebi, segment::huge_page, "a test");
    CHECK(second >= first + 100);
    s.at(second)[5 * mebi - 1] = std::byte{7};
    CHECK(other.at(second)[5 * mebi - 1] == std::byte{7});
    *other.object<int>(first) = 9;
    CHECK(*s.object<int>(first) == 9);
  }
}

TEST_CASE("a segment that is moved keeps its place, and gives back what it had") {
  const test::deadline limit(20s);
  const std::size_t before = entries("/proc/self/fd");
  {
    segment s = segment::create(segment::least_range);
    const std::byte* const base = s.base();
    segment moved = std::move(s);
    CHECK(moved.base() == base);
    segment replaced = segment::create(segment::least_range);
    CHECK(entries("/proc/self/fd") == before + 2);
    replaced = std::move(moved);
    CHECK(replaced.base() == base);
    CHECK(entries("/proc/self/fd") == before + 1);
    auto& same = replaced;
    replaced = std::move(same);
    CHECK(replaced.take(1, 1, "a test") > 0);
  }
  CHECK(entries("/proc/self/fd") == before);
}

TEST_CASE("nothing is left in /dev/shm, not even while the segment lives, however its processes end") {
  const test::deadline limit(20s);
  for (const segment_source source : sources) {
    // In a /dev/shm of its own, so that only what this test does is seen.
    const int result = in_child([&] {
      if (!small_shared_memory("size=8m")) return 77;
      int made[2];
      if (pipe(made) != 0) return 1;
      const pid_t child = fork();
      if (child == 0) {
        alarm(60);
        segment s = segment::create(segment::least_range, source);
        s.take(4096, 64, "a test");
        if (write(made[1], "x", 1) == 1) pause();
        _exit(1);
      }
      close(made[1]);
      char ready = 0;
      if (read(made[0], &ready, 1) != 1) return 2;
      if (entries("/dev/shm") != 2) return 3;  // the folder itself and the one around it
      kill(child, SIGKILL);
      int status = 0;
      if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) return 4;
      return entries("/dev/shm") == 2 ? 0 : 5;
    });
    if (result == 77) {
      MESSAGE("this process may not mount a /dev/shm of its own");
      return;
    }
    CHECK(result == 0);
  }
}

TEST_CASE("processes and threads take at the same time, and nobody gets what another has") {
  const test::deadline limit(30s);
  constexpr std::size_t takers = 4;
  constexpr std::size_t takes = 500;
  struct part {
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  segment s = segment::create(segment::least_range);
  const std::uint64_t table = s.take(2 * takers * takes * sizeof(part), 64, "the table");
  const auto take_all = [&](segment& from, std::size_t taker) {
    for (std::size_t i = 0; i < takes; ++i) {
      const std::size_t bytes = 1 + (i * 7919 + taker * 104729) % 3000;
      const std::uint64_t at = from.take(bytes, i % 3 == 0 ? 1 : 64, "a test");
      if (!zero(from.at(at), bytes)) return 1;
      std::fill_n(from.at(at), bytes, static_cast<std::byte>(taker + 1));
      from.object<part>(table)[taker * takes + i] = {at, bytes};
    }
    return 0;
  };
  std::vector<pid_t> children;
  for (std::size_t taker = 0; taker < takers; ++taker) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      alarm(60);
      if (taker % 2 == 0) s = segment::attach(dup(s.descriptor()));
      const int result = take_all(s, taker);
      s = segment();  // valgrind looks for leaks in all that is mapped, which here is mostly no memory
      _exit(result);
    }
    children.push_back(child);
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::size_t taker = takers; taker < 2 * takers; ++taker)
    threads.emplace_back([&, taker] { wrong += take_all(s, taker); });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  for (const pid_t child : children) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  std::vector<part> parts(s.object<part>(table), s.object<part>(table) + 2 * takers * takes);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::byte expected = static_cast<std::byte>(i / takes + 1);
    const std::byte* const data = s.at(parts[i].offset);
    CHECK(std::all_of(data, data + parts[i].bytes, [=](std::byte b) { return b == expected; }));
  }
  std::sort(parts.begin(), parts.end(), [](const part& a, const part& b) { return a.offset < b.offset; });
  for (std::size_t i = 1; i < parts.size(); ++i) CHECK(parts[i - 1].offset + parts[i - 1].bytes <= parts[i].offset);
}

TEST_CASE("of the addresses that threads take at the same time none is lost or given twice") {
  const test::deadline limit(30s);
  constexpr std::uint64_t takers = 4;
  constexpr std::uint64_t takes = 100'000;
  segment s = segment::create(segment::least_range);
  const std::uint64_t before = s.take(64, 64, "a test") + 64;
  std::vector<std::thread> threads;
  std::atomic<bool> begin{false};
  for (std::uint64_t taker = 0; taker < takers; ++taker) {
    threads.emplace_back([&] {
      while (!begin) std::this_thread::yield();
      for (std::uint64_t i = 0; i < takes; ++i) s.reserve(64, 64, "a test");
    });
  }
  begin = true;
  for (std::thread& t : threads) t.join();
  CHECK(s.taken() == before + 64 * takers * takes);
}

TEST_CASE("more than the range is an error that names needed and available, and takes nothing") {
  const test::deadline limit(20s);
  segment s = segment::create(segment::huge_page);
  CHECK(s.range() == segment::huge_page);
  const std::uint64_t before = s.taken();
  const std::string text = no_resource([&] { s.take(3 * mebi, 64, "the mailboxes of 3 ranks"); });
  CHECK(has(text, "the mailboxes of 3 ranks: 3145728 bytes needed"));
  CHECK(has(text, std::to_string(segment::huge_page - before) + " bytes available in this segment"));
  CHECK(has(no_resource([&] { s.take(~std::size_t{0} - 100, 64, "x"); }), "bytes needed"));
  CHECK(has(no_resource([&] { s.take(1, segment::huge_page, "x"); }), ": 1 bytes needed, 0 bytes available"));
  CHECK(s.taken() == before);
  CHECK(s.take(segment::huge_page - before, 1, "all of the rest") == before);
  CHECK(has(no_resource([&] { s.take(1, 1, "x"); }), ": 1 bytes needed, 0 bytes available"));
}

TEST_CASE("more than the machine has is an error before any of it is used") {
  const test::deadline limit(20s);
  const memory_left left = available_memory();
  REQUIRE(left.bytes < std::uint64_t{1} << 45);
  const std::size_t needed = left.bytes + 4 * gibi;
  segment s = segment::create(2 * needed);
  if (s.range() < needed + mebi) {
    MESSAGE("there are not enough addresses here for a segment larger than the memory");
    return;
  }
  const std::uint64_t before = s.taken();
  const std::string text = no_resource([&] { s.take(needed, 64, "a test"); });
  CHECK(has(text, "a test: " + std::to_string(needed) + " bytes needed"));
  CHECK(has(text, std::string("bytes available ") + left.where));
  CHECK(s.taken() == before);
  CHECK(s.take(mebi, 64, "a test") > 0);
}

TEST_CASE("a small /dev/shm is an error and not a signal") {
  const test::deadline limit(60s);
  for (const segment_source source : {segment_source::unnamed, segment_source::named}) {
    const int result = in_child([&] {
      if (!small_shared_memory("size=8m")) return 77;
      segment s = segment::create(segment::default_range, source);
      const std::uint64_t before = s.taken();
      // Larger than is looked for before, and small enough to be found out by the system.
      const std::string large = no_resource([&] { s.take(9 * mebi, 64, "a large buffer"); });
      if (!has(large, "a large buffer: 9437184 bytes needed, 83") || !has(large, "(/dev/shm)")) return 1;
      if (s.taken() != before) return 2;
      std::vector<std::uint64_t> taken;
      const std::string small = no_resource([&] {
        for (;;) taken.push_back(s.take(mebi / 2, 64, "a small buffer"));
      });
      if (!has(small, "a small buffer: 524288 bytes needed") || !has(small, "No space left on device")) return 3;
      if (taken.size() < 14 || taken.size() > 16) return 4;
      for (const std::uint64_t at : taken) std::fill_n(s.at(at), mebi / 2, std::byte{1});
      // What could not be had did not cost anything.
      const std::uint64_t last = s.take(4096, 64, "the rest");
      std::fill_n(s.at(last), 4096, std::byte{1});
      s.discard(taken.back(), mebi / 2);
      s.commit(taken.back(), mebi / 2, "again");
      return zero(s.at(taken.back()), mebi / 2) ? 0 : 5;
    });
    if (result == 77) {
      MESSAGE("this process may not mount a small /dev/shm of its own");
      return;
    }
    CHECK(result == 0);
  }
}

TEST_CASE("a /dev/shm without any room is an error when a segment is made") {
  const test::deadline limit(20s);
  const int result = in_child([] {
    if (!small_shared_memory("size=4k")) return 77;
    const int file = open("/dev/shm/full", O_CREAT | O_RDWR, 0600);
    if (file < 0 || fallocate(file, 0, 0, 4096) != 0) return 1;
    const std::string text = no_resource([] { segment::create(segment::least_range, segment_source::named); });
    return has(text, "the head of a segment: 4096 bytes needed, 0 bytes available") ? 0 : 2;
  });
  if (result == 77) return;
  CHECK(result == 0);
}

TEST_CASE("where /dev/shm is missing and memfd is not wanted, the error says so") {
  const test::deadline limit(20s);
  const int result = in_child([] {
    if (!small_shared_memory("size=4k") || mount("none", "/dev/shm", "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) != 0)
      return 77;
    const std::string text = no_resource([] { segment::create(segment::least_range, segment_source::named); });
    if (!has(text, "neither by memfd_create nor in /dev/shm: Read-only file system")) return 1;
    return segment::create(segment::least_range).take(mebi, 64, "memfd needs no file system") > 0 ? 0 : 2;
  });
  if (result == 77) return;
  CHECK(result == 0);
}

TEST_CASE("B3 a name that a killed process has left is taken away by the next start, and no other is") {
  const test::deadline limit(20s);
  const int result = in_child([] {
    if (!small_shared_memory("size=8m")) return 77;
    const auto made = [](const std::string& name) {
      const int file = open(("/dev/shm" + name).c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
      if (file >= 0) close(file);
      return file >= 0;
    };
    const auto there = [](const std::string& name) { return access(("/dev/shm" + name).c_str(), F_OK) == 0; };
    // A process that dies between the two calls.
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) return 1;
    const pid_t killed = fork();
    if (killed == 0) {
      const tutti::detail::named_segment name;
      if (!made(name.text())) _exit(1);
      _exit(write(pipe_ends[1], name.text(), std::strlen(name.text())) > 0 ? 0 : 1);
    }
    int status = 1;
    if (waitpid(killed, &status, 0) != killed || status != 0) return 2;
    char left[96] = {};
    if (read(pipe_ends[0], left, sizeof left - 1) <= 0 || !there(left)) return 3;
    const tutti::detail::named_segment mine;
    if (!made(mine.text()) || !made("/tutti-data") || !made("/tutti-1-1-0123") || !made("/other")) return 4;
    segment::create(segment::least_range, segment_source::named);
    if (there(left)) return 5;
    return there(mine.text()) && there("/tutti-data") && there("/tutti-1-1-0123") && there("/other") ? 0 : 6;
  });
  if (result == 77) {
    MESSAGE("this process may not mount a /dev/shm of its own");
    return;
  }
  CHECK(result == 0);
}

TEST_CASE("a limit on the size of files is an error and not a signal") {
  const test::deadline limit(20s);
  for (const segment_source source : sources) {
    const int result = in_child([&] {
      const rlimit files{2 * mebi, 2 * mebi};
      if (setrlimit(RLIMIT_FSIZE, &files) != 0) return 1;
      segment s = segment::create(segment::least_range, source);
      const std::string text = no_resource([&] { s.take(3 * mebi, 64, "a test"); });
      if (!has(text, "3145728 bytes needed, 2093056 bytes available in one file (RLIMIT_FSIZE)")) return 2;
      return s.take(mebi, 64, "a test") > 0 ? 0 : 3;
    });
    CHECK(result == 0);
  }
}

TEST_CASE("a process that is interrupted again and again gets its memory nevertheless") {
  const test::deadline limit(60s);
  for (const segment_source source : {segment_source::memfd, segment_source::unnamed}) {
    const int result = in_child([&] {
      segment s = segment::create(segment::least_range, source);
      struct sigaction nothing {};
      nothing.sa_handler = [](int) {};
      const itimerval often{{0, 300}, {0, 300}};
      if (sigaction(SIGALRM, &nothing, nullptr) != 0 || setitimer(ITIMER_REAL, &often, nullptr) != 0) return 1;
      // Large parts are touched, small ones are not.
      for (const std::size_t bytes : {50 * mebi, 2 * mebi - 4096}) {
        for (std::size_t taken = 0; taken < 50 * mebi; taken += bytes) {
          const std::uint64_t at = s.take(bytes, 4096, "a test");
          for (std::size_t i = 0; i < bytes; i += 4096) s.at(at)[i] = std::byte{1};
        }
      }
      return 0;
    });
    CHECK(result == 0);
  }
}

TEST_CASE("where there are few addresses the segment is smaller, and where there are hardly any it is an error") {
  const test::deadline limit(20s);
  if (test::sanitized) return;  // a sanitizer needs most addresses itself
  const int result = in_child([] {
    const rlimit some{10 * gibi, 10 * gibi};
    if (setrlimit(RLIMIT_AS, &some) != 0) return 1;
    {
      segment s = segment::create();
      if (s.range() != 8 * gibi) return 2;
      // Another process may have fewer addresses than the one that created the segment.
      const int handed = dup(s.descriptor());
      const rlimit few{9 * gibi, 10 * gibi};
      if (setrlimit(RLIMIT_AS, &few) != 0) return 3;
      const std::string text = no_resource([&] { segment::attach(handed); });
      if (!has(text, "8589934592 bytes of addresses") || !has(text, "9663676416 in all (RLIMIT_AS)")) return 4;
      if (fcntl(handed, F_GETFD) != -1) return 5;
    }
    const rlimit hardly{gibi, gibi};
    if (setrlimit(RLIMIT_AS, &hardly) != 0) return 6;
    return has(no_resource([] { segment::create(); }), "1073741824 bytes of addresses") ? 0 : 7;
  });
  CHECK(result == 0);
}

TEST_CASE("what is no segment is refused, and its descriptor closed") {
  const test::deadline limit(20s);
  const auto attached = [](int descriptor) {
    return refusal<tutti::usage_error>([=] { segment::attach(descriptor); });
  };
  CHECK(has(attached(-1), "descriptor -1: Bad file descriptor"));
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  CHECK(has(attached(nothing), "is not a segment of shared memory"));
  CHECK(fcntl(nothing, F_GETFD) == -1);

  const auto altered = [&](std::size_t at, std::uint32_t value) {
    const segment s = segment::create(segment::least_range);
    REQUIRE(pwrite(s.descriptor(), &value, sizeof value, static_cast<off_t>(at)) == sizeof value);
    return attached(dup(s.descriptor()));
  };
  CHECK(has(altered(0, 12345), "is not a segment of shared memory"));
  CHECK(has(altered(8, 77), "made by version 77, and this is version 1"));
  CHECK(has(altered(16, 77), "cannot have 77 bytes"));
  CHECK(has(altered(20, 0x7fffffff), "a segment of shared memory cannot have"));
  CHECK(altered(12, 77).empty());
}

TEST_CASE("nobody can take away memory that others have mapped") {
  const test::deadline limit(20s);
  const segment s = segment::create(segment::least_range, segment_source::memfd);
  CHECK(ftruncate(s.descriptor(), 0) != 0);
  CHECK(fcntl(s.descriptor(), F_GETFD) == FD_CLOEXEC);
}

TEST_CASE("what is left is the least that the machine and the groups around this process say") {
  const test::deadline limit(20s);
  namespace fs = std::filesystem;
  char name[] = "/tmp/tutti-test-XXXXXX";
  REQUIRE(mkdtemp(name) != nullptr);
  const fs::path root = name;
  const auto write = [&](const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  const auto left = [&] { return available_memory(-1, root.c_str()); };
  CHECK(left().bytes == ~std::uint64_t{0});
  write("proc/meminfo", "MemTotal: 900 kB\nMemFree:  100 kB\nMemAvailable:   1000 kB\nSwapFree:   24 kB\n");
  CHECK(left().bytes == 1024 * 1024);
  CHECK(left().where == std::string("on this machine"));

  SUBCASE("the second version of control groups") {
    write("proc/self/cgroup", "0::/outer/inner\n");
    write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
    CHECK(left().bytes == 1024 * 1024);
    write("sys/fs/cgroup/outer/memory.max", "500000\n");
    write("sys/fs/cgroup/outer/memory.current", "300000\n");
    CHECK(left().bytes == 200'000 + 24 * 1024);
    CHECK(left().where == std::string("in this control group"));
    write("sys/fs/cgroup/outer/memory.stat", "anon 7\nfile 9\ninactive_file 40000\nactive_file 2000\n");
    CHECK(left().bytes == 242'000 + 24 * 1024);
    write("sys/fs/cgroup/outer/inner/memory.max", "1000\n");
    write("sys/fs/cgroup/outer/inner/memory.current", "2000\n");
    CHECK(left().bytes == 24 * 1024);
  }
  SUBCASE("the first version of control groups") {
    write("proc/self/cgroup", "5:cpu:/\n4:memory:/job\n0::/\n");
    write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK(left().bytes == 1024 * 1024);
    write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "500000\n");
    write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "450000\n");
    write("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 10000\ntotal_active_file 0\n");
    CHECK(left().bytes == 60'000 + 24 * 1024);
  }
  SUBCASE("the group of a container is the root that it sees") {
    write("proc/self/cgroup", "0::/../somewhere/else\n");
    write("sys/fs/cgroup/memory.max", "4096\n");
    write("sys/fs/cgroup/memory.current", "96\n");
    CHECK(left().bytes == 4000 + 24 * 1024);
  }
  SUBCASE("a path that is too long is not followed") {
    write("proc/self/cgroup", "0::/" + std::string(3000, 'x') + "\n");
    write("sys/fs/cgroup/memory.max", "4096\n");
    CHECK(left().bytes == 4096 + 24 * 1024);
  }
  fs::remove_all(root);
}
