// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/owned_array.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tutti::detail {

/// The numbers of the communicators that a rank has beside the whole group, which is 0. Used by the thread of the rank.
class tcp_group_numbers {
 public:
  enum class standing : unsigned char {
    there,   ///< the rank is in it
    gone,    ///< it is not, and will never be again
    to_come  ///< it may be one day
  };

  /// The smallest number above those of all that the rank was ever in.
  std::uint32_t next() const { return next_; }
  standing of(std::uint32_t number) const {
    if (number >= next_) return standing::to_come;
    return std::binary_search(there_.begin(), there_.end(), number) ? standing::there : standing::gone;
  }
  /// One that is to come is there. Throws `resource_error` where there is no memory.
  void add(std::uint32_t number) {
    there_.push_back(number);  // the greatest so far
    next_ = number + 1;
  }
  /// One that is to come is gone.
  void skip(std::uint32_t number) noexcept { next_ = std::max(next_, number + 1); }
  /// One that is there is gone.
  void remove(std::uint32_t number) noexcept { there_.erase(std::lower_bound(there_.begin(), there_.end(), number)); }

 private:
  array_list<std::uint32_t> there_;  // ascending
  std::uint32_t next_ = 1;
};

}  // namespace tutti::detail
