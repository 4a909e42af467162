// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

namespace tutti::detail {

/// Why a group of processes failed, in memory that they share: written once, by the first who knows. A writer that dies
/// while it writes is succeeded by whoever finds it dead.
class failure_record {
 public:
  /// Longer texts are cut.
  static constexpr std::size_t most_text = 4000;

  /// It is written, or being written: from then on what a rank that fails lets others read may change.
  bool there() const noexcept { return state_.load(std::memory_order_relaxed) != 0; }
  /// What it says can be read.
  bool readable() const noexcept { return (state_.load(std::memory_order_acquire) & 3) == written; }

  /// Writes it, unless another has or is about to; whether it was this one. `gone`: a rank that is known to be dead, or
  /// -1.
  bool write(int writer, const failure& what, int gone) noexcept {
    std::uint32_t seen = 0;
    while (!state_.compare_exchange_weak(seen, mark(writer, writing), std::memory_order_acq_rel)) {
      if (seen == 0) continue;
      if (gone < 0 || seen != mark(gone, writing)) return false;
    }
    TUTTI_FAULT_POINT("processes.fail");
    kind_ = what.kind;
    peer_ = what.peer;
    length_ = static_cast<std::uint32_t>(what.text.size() < most_text ? what.text.size() : most_text);
    std::memcpy(text_, what.text.data(), length_);
    state_.store(mark(writer, written), std::memory_order_release);
    return true;
  }

  /// Once it is readable.
  int writer() const noexcept { return static_cast<int>(state_.load(std::memory_order_acquire) >> 2) - 2; }
  failure read() const { return {kind_, peer_, std::string(text_, length_)}; }

 private:
  static constexpr std::uint32_t writing = 1;
  static constexpr std::uint32_t written = 2;
  // The parent of the ranks is -1.
  static constexpr std::uint32_t mark(int writer, std::uint32_t state) {
    return static_cast<std::uint32_t>(writer + 2) << 2 | state;
  }

  std::atomic<std::uint32_t> state_{0};
  errc kind_{};
  std::int32_t peer_ = -1;
  std::uint32_t length_ = 0;
  char text_[most_text] = {};
};

}  // namespace tutti::detail
