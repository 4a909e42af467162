// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/inline.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/owned_memory.hpp>
#include <tutti/transport/mpi/api.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace tutti::detail {

/// What comes before a small message, and all that there is of a token.
struct mpi_header {
  std::uint64_t fingerprint;
  std::uint64_t bytes;
};

/// Room for one small message, and the request that moves it. The message begins with its header, and what follows is
/// aligned to a cache line.
struct alignas(64) mpi_letter {
  static constexpr std::size_t most_bytes = std::size_t{16} << 10;  // behind the header

  mpi_letter* next = nullptr;
  MPI_Request request = MPI_REQUEST_NULL;
  alignas(16) std::byte unused[64 - 16 - sizeof(mpi_header)];
  mpi_header header;
  std::byte payload[most_bytes];

  /// All of it, as it travels.
  std::byte* data() { return reinterpret_cast<std::byte*>(&header); }
};
static_assert(sizeof(mpi_letter) == 64 + mpi_letter::most_bytes, "the header stands immediately before the payload");

/// All letters of a rank. They are written, sent, and used again when they have arrived; once there are as many as are
/// on their way at a time nothing is allocated. A letter belongs to the rank, not to a lane or a group: one that is
/// still on its way may be left behind by either.
class mpi_mail {
 public:
  mpi_mail() = default;
  mpi_mail(const mpi_mail&) = delete;
  mpi_mail& operator=(const mpi_mail&) = delete;
  /// Nothing is on its way any more, or MPI is gone.
  ~mpi_mail() {
    release(unused_);
    release(first_);
  }

  TUTTI_ALWAYS_INLINE mpi_letter& take() {
    if (unused_ == nullptr) [[unlikely]]
      find();
    mpi_letter& letter = *unused_;
    unused_ = letter.next;
    return letter;
  }
  TUTTI_ALWAYS_INLINE void give_back(mpi_letter& letter) noexcept {
    letter.next = unused_;
    unused_ = &letter;
  }
  /// The letter's request goes on without its owner.
  TUTTI_ALWAYS_INLINE void leave(mpi_letter& letter) {
    int arrived = 0;
    check_mpi(MPI_Test(&letter.request, &arrived, MPI_STATUS_IGNORE), "MPI_Test");
    if (arrived != 0) [[likely]]
      return give_back(letter);
    letter.next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = &letter;
    last_ = &letter;
  }
  /// The letter is to be received, and no longer wanted.
  void cancel(mpi_letter& letter) {
    check_mpi(MPI_Cancel(&letter.request), "MPI_Cancel");
    leave(letter);
  }
  /// Looks after those on their way; whether there are any.
  bool under_way() {
    int arrived = 1;
    while (first_ != nullptr && arrived != 0) {
      check_mpi(MPI_Test(&first_->request, &arrived, MPI_STATUS_IGNORE), "MPI_Test");
      if (arrived != 0) give_back(pop());
    }
    return first_ != nullptr;
  }

 private:
  mpi_letter& pop() noexcept {
    mpi_letter& letter = *first_;
    first_ = letter.next;
    if (first_ == nullptr) last_ = nullptr;
    return letter;
  }
  [[gnu::noinline]] void find() {
    constexpr int looks = 16;
    for (int i = 0; i < looks && first_ != nullptr; ++i) {
      leave(pop());
      if (unused_ != nullptr) return;
    }
    mpi_letter* const made = allocating(sizeof(mpi_letter), "a message on its way", [] { return new mpi_letter; });
    give_back(*made);
  }
  static void release(mpi_letter*& list) noexcept {
    while (list != nullptr) delete std::exchange(list, list->next);
  }

  mpi_letter* unused_ = nullptr;
  mpi_letter* first_ = nullptr;  // on its way
  mpi_letter* last_ = nullptr;
};

}  // namespace tutti::detail
