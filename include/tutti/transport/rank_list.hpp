// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/message.hpp>

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

}  // namespace tutti::detail
