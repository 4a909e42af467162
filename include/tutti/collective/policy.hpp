// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

namespace tutti::detail {

/// Stands for the operation where a collective folds nothing.
struct no_operation {};

/// How a collective treats memory and messages.
struct policy {
  std::size_t pack_bytes;  // messages of several pieces up to this size travel as one
  std::size_t copy_bytes;  // messages up to this size are copied away rather than waited for
  bool pair;               // there are two ranks
  bool streaming;          // the results are written past the caches
};

}  // namespace tutti::detail
