// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tutti::detail {

/// "rank 3" or "ranks 1, 4-6": those below `size` for which `listed(rank)`; appended to the text.
template <class Listed>
void list_ranks(message& text, int size, Listed&& listed) {
  int count = 0;
  for (int rank = 0; rank < size; ++rank) count += listed(rank) ? 1 : 0;
  text << (count == 1 ? "rank" : "ranks");
  const char* before = " ";
  for (int rank = 0; rank < size; ++rank) {
    if (!listed(rank)) continue;
    int last = rank;
    while (last + 1 < size && listed(last + 1)) ++last;
    text << before << rank;
    if (last > rank) text << (last == rank + 1 ? ", " : "-") << last;
    before = ", ";
    rank = last;
  }
}

/// A number that is the same for the same ranks in the same order (up to 64-bit hash collisions).
inline std::uint64_t hash_of_ranks(std::span<const int> ranks) noexcept {
  std::uint64_t h = ranks.size();
  for (const int rank : ranks) {
    h = (h ^ static_cast<std::uint32_t>(rank)) * 0xD6E8FEB86659FD93ULL;
    h ^= h >> 32;
  }
  return h;
}

/// What is added to a text in which ranks are those of a subgroup: " (ranks of a communicator of ranks 5, 1-3)".
/// `members` are ranks of the whole, in the order of the subgroup.
[[gnu::noinline, gnu::cold]] inline std::string of_members(std::span<const int> members) {
  message text;
  text << (members.size() == 1 ? " (the rank of a communicator of rank" : " (ranks of a communicator of ranks");
  const char* before = " ";
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < members.size() && members[last + 1] == members[last] + 1) ++last;
    text << before << members[i];
    if (last > i) text << (last == i + 1 ? ", " : "-") << members[last];
    before = ", ";
    i = last;
  }
  return text << ")";
}

/// What the whole has failed of, as a subgroup of these ranks of it tells: the rank to blame is one of the subgroup, -1
/// if it is none of them. The text names ranks of the whole, and says so: "rank 3 failed: no paper (rank 0 of a
/// communicator of ranks 3, 1)".
[[gnu::noinline, gnu::cold]] inline failure told_to_members(const failure& f, std::span<const int> members) noexcept {
  failure here{f.kind, -1, {}};
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i] == f.peer) here.peer = static_cast<int>(i);
  try {
    const std::string list = of_members(members);
    const std::string_view of = std::string_view(list).substr(list.find(" of "));
    message text;
    text << f.text;
    if (f.kind == errc::mismatch) {
      text << " (ranks of the whole, not" << of;  // it names two
    } else if (here.peer >= 0) {
      text << " (rank " << here.peer << of;
    } else if (f.peer >= 0) {
      text << " (no rank" << of;
    }
    here.text = text;
  } catch (...) {  // no memory: it must do without a text
  }
  return here;
}

}  // namespace tutti::detail
