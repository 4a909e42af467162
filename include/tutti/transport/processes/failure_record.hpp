// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace tutti::detail {

/// Why a group of processes failed, in memory that they share. Each of them has a note of its own to write on; the one
/// that is shown first is the reason, and stays as it is. So nobody waits for a writer, who may have died writing.
class failure_record {
 public:
  /// Longer texts are cut.
  static constexpr std::size_t most_text = 4000;

  struct note {
    errc kind;
    std::int32_t peer;
    std::uint32_t length;
    bool ends_writer;
    char text[most_text];
  };

  bool there() const noexcept { return shown_.load(std::memory_order_relaxed) != 0; }
  /// The same, and what is shown can be read.
  bool readable() const noexcept { return shown_.load(std::memory_order_acquire) != 0; }

  /// Writes a note, of which only this writer (a rank, or -1) knows, and shows it, unless another is shown by then;
  /// whether it is this one. `ends_writer`: it is how the writer came to its end.
  bool show(note& mine, int writer, const failure& what, bool ends_writer) noexcept {
    std::uint32_t none = shown_.load(std::memory_order_acquire);
    if (none != 0) return false;
    mine.kind = what.kind;
    mine.peer = what.peer;
    mine.ends_writer = ends_writer;
    mine.length = static_cast<std::uint32_t>(what.text.size() < most_text ? what.text.size() : most_text);
    TUTTI_FAULT_POINT("failure.writing");
    std::memcpy(mine.text, what.text.data(), mine.length);
    TUTTI_FAULT_POINT("failure.written");
    const bool first = shown_.compare_exchange_strong(none, mark(writer), std::memory_order_acq_rel);
    TUTTI_FAULT_POINT("failure.shown");
    return first;
  }

  /// Whose note is shown, once it is readable.
  int writer() const noexcept { return static_cast<int>(shown_.load(std::memory_order_acquire)) - 2; }
  /// What that note says.
  static failure read(const note& shown) { return {shown.kind, shown.peer, std::string(shown.text, shown.length)}; }

 private:
  // The parent of the ranks is -1.
  static constexpr std::uint32_t mark(int writer) { return static_cast<std::uint32_t>(writer + 2); }

  std::atomic<std::uint32_t> shown_{0};
};

}  // namespace tutti::detail
