// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/transport/tcp/context_state.hpp>
#include <tutti/transport/tcp/group_numbers.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tutti::detail {

/// The communicators of some of the ranks that this rank is in, or has left lately: others may still ask what it called
/// there.
class tcp_part_list {
  using state = tcp_part_state;

 public:
  // ---- The thread of the rank

  const tcp_group_numbers& numbers() const { return numbers_; }
  /// One more, made of `parent`; its number is at least the next. Throws what that has failed of: others may have been
  /// told that this rank does not come.
  void add(const std::shared_ptr<state>& made, tcp_context_state& parent) {
    const std::lock_guard lock(mutex_);
    if (parent.failed()) parent.why().raise();
    there_.push_back(made);
    try {
      numbers_.add(made->number());
    } catch (...) {
      there_.pop_back();
      throw;
    }
    for (const verdict& v : early_)
      if (v.number == made->number() && v.members == made->hash()) made->fail(v.why);
    std::erase_if(early_, [&](const verdict& v) { return v.number < numbers_.next(); });
  }
  /// One that could not be made.
  void skip(std::uint32_t number) noexcept {
    const std::lock_guard lock(mutex_);
    numbers_.skip(number);
  }
  void remove(state& left, bool by_exception) noexcept {
    std::shared_ptr<state> forgotten;  // freed when others need not wait for that
    const std::lock_guard lock(mutex_);
    left.leave_here(by_exception);
    numbers_.remove(left.number());
    const auto at = place_of(left.number());
    forgotten = std::exchange(gone_[next_gone_++ % gone_.size()], std::move(*at));
    there_.erase(at);
  }

  // ---- Any thread

  /// Null if this rank has not been in it lately: what it called there is not known any more.
  std::shared_ptr<state> find(std::uint32_t number) {
    const std::lock_guard lock(mutex_);
    if (const auto at = place_of(number); at != there_.end() && (*at)->number() == number) return *at;
    for (const auto& each : gone_)
      if (each != nullptr && each->number() == number) return each;
    return nullptr;
  }
  /// Those that this rank is in: the first of them, so many at most.
  std::vector<std::shared_ptr<state>> there(std::size_t most) {
    const std::lock_guard lock(mutex_);
    return {there_.begin(), there_.begin() + static_cast<std::ptrdiff_t>(std::min(most, there_.size()))};
  }
  bool is_to_come(std::uint32_t number) {
    const std::lock_guard lock(mutex_);
    return numbers_.of(number) == tcp_group_numbers::standing::to_come;
  }
  /// The same of one that is made of `parent`, 0 if of the whole group: of what has failed, or is gone, none is made
  /// any more.
  bool is_to_come(std::uint32_t number, std::uint32_t parent) {
    const std::lock_guard lock(mutex_);
    if (numbers_.of(number) != tcp_group_numbers::standing::to_come) return false;
    if (parent == 0 || numbers_.of(parent) == tcp_group_numbers::standing::to_come) return true;
    return numbers_.of(parent) == tcp_group_numbers::standing::there && !(*place_of(parent))->failed();
  }
  /// One has failed, also if this rank is not in it yet. `members`: their hash; this rank may have missed it, and be in
  /// another one of that number.
  void fail(std::uint32_t number, std::uint64_t members, const failure& f) noexcept {
    const std::lock_guard lock(mutex_);
    if (const auto at = place_of(number); at != there_.end() && (*at)->number() == number) {
      if ((*at)->hash() == members) (*at)->fail(f);
    } else if (numbers_.of(number) == tcp_group_numbers::standing::to_come && early_.size() < most_early) {
      try {
        early_.push_back({number, members, f});
      } catch (...) {  // no memory: the rank finds out when it waits there
      }
    }
  }
  void fail_all(const failure& f) noexcept {
    const std::lock_guard lock(mutex_);
    for (const auto& each : there_) each->fail_with_group(f);
  }

 private:
  static constexpr std::size_t most_early = 64;

  struct verdict {
    std::uint32_t number;
    std::uint64_t members;  // their hash
    failure why;
  };

  std::vector<std::shared_ptr<state>>::iterator place_of(std::uint32_t number) {
    return std::lower_bound(there_.begin(), there_.end(), number,
                            [](const auto& each, std::uint32_t wanted) { return each->number() < wanted; });
  }

  std::mutex mutex_;
  tcp_group_numbers numbers_;                  // written under the mutex by the thread of the rank alone
  std::vector<std::shared_ptr<state>> there_;  // ascending
  std::array<std::shared_ptr<state>, 16> gone_;
  std::size_t next_gone_ = 0;
  std::vector<verdict> early_;
};

}  // namespace tutti::detail
