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
/// A reason may be shown for now: then its writer may show another in its place, on a second note of its own, until it
/// is settled.
class failure_record {
 public:
  /// Longer texts are cut.
  static constexpr std::size_t most_text = 4000;

  struct note {
    errc kind;
    std::int32_t peer;
    std::uint32_t length;
    char text[most_text];
  };

  bool there() const noexcept { return shown_.load(std::memory_order_relaxed) != 0; }
  /// The same, and what is shown can be read.
  bool readable() const noexcept { return shown_.load(std::memory_order_acquire) != 0; }

  /// Writes one of two notes, of which only this writer (a rank, or -1) knows, and shows it, unless another is shown by
  /// then; whether it is this one.
  bool show(note* mine, int writer, const failure& what, bool for_now = false) noexcept {
    std::uint32_t before = shown_.load(std::memory_order_acquire);
    const bool second = before == (mark(writer) | unsettled) && !for_now;
    if (before != 0 && !second) return false;
    write(mine[second ? 1 : 0], what);
    const std::uint32_t now = mark(writer) | (for_now ? unsettled : 0U) | (second ? on_second_note : 0U);
    const bool shown = shown_.compare_exchange_strong(before, now, std::memory_order_acq_rel);
    TUTTI_FAULT_POINT("failure.shown");
    return shown;
  }
  /// What is shown may still be replaced.
  bool is_unsettled() const noexcept { return (shown_.load(std::memory_order_acquire) & unsettled) != 0; }
  /// It stays.
  void settle() noexcept { shown_.fetch_and(~unsettled, std::memory_order_acq_rel); }

  /// Whose note is shown, once it is readable.
  int writer() const noexcept { return writer_of(shown_.load(std::memory_order_acquire)); }
  /// What it says, of the two notes of each writer.
  template <class NotesOf>
  failure read(NotesOf&& notes_of) const {
    const std::uint32_t shown = shown_.load(std::memory_order_acquire);
    const note& n = notes_of(writer_of(shown))[(shown & on_second_note) != 0 ? 1 : 0];
    return {n.kind, n.peer, std::string(n.text, n.length)};
  }

 private:
  static constexpr std::uint32_t unsettled = 0x8000'0000U;
  static constexpr std::uint32_t on_second_note = 0x4000'0000U;

  // The parent of the ranks is -1.
  static constexpr std::uint32_t mark(int writer) { return static_cast<std::uint32_t>(writer + 2); }
  static constexpr int writer_of(std::uint32_t shown) {
    return static_cast<int>(shown & ~(unsettled | on_second_note)) - 2;
  }
  static void write(note& mine, const failure& what) noexcept {
    mine.kind = what.kind;
    mine.peer = what.peer;
    mine.length = static_cast<std::uint32_t>(what.text.size() < most_text ? what.text.size() : most_text);
    TUTTI_FAULT_POINT("failure.writing");
    std::memcpy(mine.text, what.text.data(), mine.length);
    TUTTI_FAULT_POINT("failure.written");
  }

  std::atomic<std::uint32_t> shown_{0};
};

}  // namespace tutti::detail
