// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/message.hpp>

#include <cstddef>
#include <span>
#include <string>

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

}  // namespace tutti::detail
