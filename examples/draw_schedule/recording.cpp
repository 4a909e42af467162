// SPDX-License-Identifier: BSL-1.0
#include "recording.hpp"

namespace drawing {

namespace {

/// The end of the longest arithmetic progression that begins at `begin`.
std::size_t progression_end(const std::vector<int>& blocks, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < blocks.size() &&
         (end == begin + 1 || blocks[end] - blocks[end - 1] == blocks[begin + 1] - blocks[begin])) {
    ++end;
  }
  // Two that are no neighbours are no progression.
  return end == begin + 2 && blocks[begin + 1] != blocks[begin] + 1 ? begin + 1 : end;
}

}  // namespace

std::string names_of(std::vector<int> blocks, int of) {
  if (static_cast<int>(blocks.size()) == of) return "all";
  bool run = blocks.size() > 2;
  for (std::size_t i = 1; i < blocks.size(); ++i) run &= blocks[i] == (blocks[i - 1] + 1) % of;
  if (run) return std::to_string(blocks.front()) + '-' + std::to_string(blocks.back());
  std::sort(blocks.begin(), blocks.end());
  std::string text;
  for (std::size_t i = 0; i < blocks.size();) {
    const std::size_t end = progression_end(blocks, i);
    const int first = blocks[i];
    const int last = blocks[end - 1];
    const int step = end - i > 1 ? blocks[i + 1] - first : 1;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (end - i > 1 && step == 1) {
      text += (end - i == 2 ? ',' : '-') + std::to_string(last);
    } else if (end - i > 1) {
      text += ',' + std::to_string(first + step) + (end - i > 3 ? ".." : ",") + std::to_string(last);
    }
    i = end;
  }
  return text;
}

}  // namespace drawing
