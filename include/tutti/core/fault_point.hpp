// SPDX-License-Identifier: BSL-1.0
#pragma once

// Places where a test lets something go wrong: TUTTI_FAULT_POINT("segment.attach"). They are there only in a program
// that defines TUTTI_FAULT_POINTS before it includes anything of the library, in every one of its sources; in all
// others they are nothing, as is TUTTI_FAULT_RANK(rank), which says what rank this process is.

#if !defined(TUTTI_FAULT_POINTS)

#define TUTTI_FAULT_POINT(name) static_cast<void>(0)
#define TUTTI_FAULT_RANK(rank) static_cast<void>(0)

#else

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>

#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

// The name must be a literal: what is kept is where it lies.
#define TUTTI_FAULT_POINT(name) ::tutti::fault::reach("" name "")
#define TUTTI_FAULT_RANK(rank) ::tutti::fault::set_rank(rank)

/// Fault points, for tests: what is armed happens once, at the n-th hit since then.
namespace tutti::fault {

/// What happens at a fault point.
enum class action : int {
  none,
  kill,   ///< SIGKILL to this process
  stop,   ///< SIGSTOP to this process; it goes on when continued
  raise,  ///< throws tutti::error of kind `resource`, naming the point and the hit; in texts "throw"
  sleep   ///< this thread sleeps
};

/// What is to happen, and when.
struct plan {
  std::string_view name = "*";  ///< of the point; "*": all count
  std::uint64_t nth = 1;        ///< the hit, counted from 1 since it was armed
  action what = action::kill;
  int rank = -1;                  ///< only this rank's hits count; -1: those of all, also before it has a rank
  std::int64_t milliseconds = 0;  ///< how long it sleeps
};

inline constexpr std::size_t most_names = 512;
inline constexpr std::size_t longest_name = 63;

/// Everything there is to know: of this process, or shared with its children.
struct state {
  struct seen {
    std::atomic<const char*> name;  // a literal, which children by fork() have at the same place
    std::atomic<std::uint64_t> hits;
  };

  std::atomic<action> armed{action::none};  // stored last: what follows does not change while it is armed
  char name[longest_name + 1] = {};
  std::uint64_t nth = 0;
  int rank = -1;
  std::int64_t milliseconds = 0;
  std::atomic<std::uint64_t> matched{0};
  std::atomic<bool> fired{false};
  std::atomic<std::int64_t> fired_at{0};
  std::atomic<std::uint64_t> hits{0};
  seen points[most_names] = {};
};

inline constinit state own_state;
inline std::atomic<state*> current_state{&own_state};
inline std::atomic<int> current_rank{-1};

inline state& here() noexcept { return *current_state.load(std::memory_order_acquire); }

/// This process is this rank from now on; what it forks is too, until it says otherwise.
inline void set_rank(int rank) noexcept { current_rank.store(rank, std::memory_order_relaxed); }

/// As `arm`, whatever the environment says.
inline void arm_regardless(const plan& p) {
  if (p.name.empty() || p.name.size() > longest_name)
    throw usage_error(message() << "fault point: \"" << p.name << "\" must have 1 to " << longest_name
                                << " characters");
  if (p.nth == 0) throw usage_error("fault point: hit is 0, must be at least 1");
  state& s = here();
  s.armed.store(action::none, std::memory_order_relaxed);
  std::memcpy(s.name, p.name.data(), p.name.size());
  s.name[p.name.size()] = '\0';
  s.nth = p.nth;
  s.rank = p.rank;
  s.milliseconds = p.milliseconds;
  s.matched.store(0, std::memory_order_relaxed);
  s.fired.store(false, std::memory_order_relaxed);
  s.armed.store(p.what, std::memory_order_release);
}

/// Whether what was armed last has happened, or is about to.
inline bool fired() noexcept { return here().fired.load(std::memory_order_acquire); }

/// The clock of `fired_at`, the same for all processes.
inline std::int64_t nanoseconds_now() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

/// When that was, in nanoseconds of `nanoseconds_now()`.
inline std::int64_t fired_at() noexcept { return here().fired_at.load(std::memory_order_acquire); }

/// How often any point was hit, armed or not.
inline std::uint64_t hits() noexcept { return here().hits.load(std::memory_order_relaxed); }

/// Calls `f(name, hits)` for each name that was hit.
template <class F>
void for_each_name(F&& f) {
  for (state::seen& point : here().points) {
    const char* const name = point.name.load(std::memory_order_acquire);
    if (name == nullptr) return;
    f(std::string_view(name), point.hits.load(std::memory_order_relaxed));
  }
}

/// How often the points of that name were hit.
inline std::uint64_t hits(std::string_view name) noexcept {
  std::uint64_t result = 0;
  for_each_name([&](std::string_view n, std::uint64_t h) { result = n == name ? h : result; });
  return result;
}

/// Takes the next part of `text` up to `end`, and `end` too.
inline std::string_view take_part(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view part = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view{} : text.substr(at + 1);
  return part;
}

/// The number that the text is; false if it is none.
inline bool read_number(std::string_view text, std::uint64_t& number) {
  if (text.empty() || text.size() > 18) return false;
  number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    number = number * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return true;
}

/// The plan that a text NAME:HIT:ACTION[:MILLISECONDS][@RANK] stands for, such as "segment.attach:3:kill@2". Throws
/// usage_error naming what it must be. The name lies in the text.
inline plan parse(std::string_view text) {
  plan result;
  std::string_view rest = text;
  std::string_view rank;
  std::uint64_t number = 0;
  const std::size_t at = rest.rfind('@');
  if (at != std::string_view::npos) {
    rank = rest.substr(at + 1);
    rest = rest.substr(0, at);
  }
  result.name = take_part(rest, ':');
  bool good = !result.name.empty() && read_number(take_part(rest, ':'), result.nth) && result.nth != 0;
  const std::string_view what = take_part(rest, ':');
  if (what == "kill") {
    result.what = action::kill;
  } else if (what == "stop") {
    result.what = action::stop;
  } else if (what == "throw") {
    result.what = action::raise;
  } else if (what == "sleep") {
    result.what = action::sleep;
  } else {
    good = false;
  }
  if (result.what == action::sleep) {
    good = good && read_number(rest, number) && number <= 1'000'000'000;
    result.milliseconds = static_cast<std::int64_t>(number);
  } else {
    good = good && rest.empty();
  }
  if (at != std::string_view::npos) {
    good = good && read_number(rank, number) && number <= 1'000'000'000;
    result.rank = static_cast<int>(number);
  }
  if (!good)
    throw usage_error(message() << "fault point: \"" << text
                                << "\" must be NAME:HIT:ACTION[@RANK], the action kill, stop, throw or "
                                   "sleep:MILLISECONDS, the hit at least 1, as in segment.attach:3:kill@2");
  return result;
}

/// Arms what TUTTI_FAULT says, if it is set, once: for a process that is started, not forked. The first fault point
/// that a process reaches does it too.
inline void arm_from_environment() {
  static const bool read = [] {
    if (const char* const text = std::getenv("TUTTI_FAULT")) arm_regardless(parse(text));
    return true;
  }();
  static_cast<void>(read);
}

/// Arms this and nothing else. Not while another thread or process may be at a fault point. Throws usage_error if the
/// name is too long or the hit is 0.
inline void arm(const plan& p) {
  arm_from_environment();  // rather than later, in place of this
  arm_regardless(p);
}

/// Nothing is armed any more. What was seen stays.
inline void disarm() {
  arm_from_environment();
  here().armed.store(action::none, std::memory_order_release);
}

/// From now on the children that this process forks count together with it and with each other, and what is armed
/// happens to one of them. Begins anew: nothing is seen yet; what is armed stays so, counted from now. The memory is
/// given back by `share_no_more`, or by the end of the last of them. Throws resource_error.
inline void share_with_children() {
  arm_from_environment();  // rather than each of the children
  void* const memory = mmap(nullptr, sizeof(state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw resource_error(message() << "fault point: the system refused " << sizeof(state)
                                   << " bytes: " << std::generic_category().message(errno));
  state& now = here();
  state& shared = *new (memory) state;
  std::memcpy(shared.name, now.name, sizeof now.name);
  shared.nth = now.nth;
  shared.rank = now.rank;
  shared.milliseconds = now.milliseconds;
  shared.armed.store(now.armed.load(std::memory_order_acquire), std::memory_order_release);
  current_state.store(&shared, std::memory_order_release);
  if (&now != &own_state) munmap(&now, sizeof(state));
}

/// This process counts for itself again. Not while another thread may be at a fault point.
inline void share_no_more() noexcept {
  state* const before = current_state.exchange(&own_state, std::memory_order_acq_rel);
  if (before != &own_state) munmap(before, sizeof(state));
}

/// Does what was armed.
[[gnu::cold]] inline void strike(state& s, action what, const char* name, std::uint64_t hit) {
  switch (what) {
    case action::none:
      return;
    case action::kill:
      ::kill(getpid(), SIGKILL);
      return;
    case action::stop:
      ::kill(getpid(), SIGSTOP);
      return;
    case action::raise:
      throw error(errc::resource, message() << "fault point " << name << ", hit " << hit);
    case action::sleep:
      timespec left{};
      left.tv_sec = static_cast<decltype(left.tv_sec)>(s.milliseconds / 1000);
      left.tv_nsec = static_cast<decltype(left.tv_nsec)>(s.milliseconds % 1000 * 1'000'000);
      while (nanosleep(&left, &left) != 0 && errno == EINTR) {
      }
      return;
  }
}

/// Counts a hit by name. Never waits for another, who may have been killed in here.
inline void count(state& s, const char* name) {
  s.hits.fetch_add(1, std::memory_order_relaxed);
  for (state::seen& point : s.points) {
    const char* known = point.name.load(std::memory_order_acquire);
    if (known == nullptr && point.name.compare_exchange_strong(known, name, std::memory_order_acq_rel)) known = name;
    if (known != name && std::strcmp(known, name) != 0) continue;
    point.hits.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::fprintf(stderr, "fault point: more than %zu names, one of them is %s\n", most_names, name);
  std::abort();
}

/// What TUTTI_FAULT_POINT(name) does.
inline void reach(const char* name) {
  arm_from_environment();
  state& s = here();
  count(s, name);
  const action what = s.armed.load(std::memory_order_acquire);
  if (what == action::none) [[likely]]
    return;
  if (s.rank >= 0 && s.rank != current_rank.load(std::memory_order_relaxed)) return;
  if (std::strcmp(s.name, "*") != 0 && std::strcmp(s.name, name) != 0) return;
  const std::uint64_t hit = s.matched.fetch_add(1, std::memory_order_relaxed) + 1;
  if (hit != s.nth) return;
  s.fired_at.store(nanoseconds_now(), std::memory_order_release);
  s.fired.store(true, std::memory_order_release);
  strike(s, what, name, hit);
}

}  // namespace tutti::fault

#endif
