// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <unistd.h>
#include <utility>

namespace tutti::detail {

/// Owns a file descriptor: closes it in the end. Moved, not copied.
class descriptor_owner {
 public:
  descriptor_owner() = default;
  explicit descriptor_owner(int descriptor) noexcept : descriptor_(descriptor) {}
  descriptor_owner(descriptor_owner&& other) noexcept : descriptor_(other.release()) {}
  descriptor_owner& operator=(descriptor_owner&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~descriptor_owner() { reset(); }

  /// The descriptor; negative if there is none.
  int get() const noexcept { return descriptor_; }
  explicit operator bool() const noexcept { return descriptor_ >= 0; }
  /// Gives the descriptor away without closing it.
  int release() noexcept { return std::exchange(descriptor_, -1); }
  /// Closes what is owned and owns that one instead.
  void reset(int descriptor = -1) noexcept {
    if (descriptor_ >= 0) close(descriptor_);  // not again on EINTR: Linux has closed it all the same
    descriptor_ = descriptor;
  }

 private:
  int descriptor_ = -1;
};

}  // namespace tutti::detail
