// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

namespace tutti {

class owned_memory;

/// What pieces of memory are taken from and given back to. It is counted, and lives as long as its maker keeps it or
/// anything taken from it is out: pieces may be given back after the communicator, the group and the transport are
/// gone, in any order, by any thread.
class memory_owner {
 public:
  memory_owner(const memory_owner&) = delete;
  memory_owner& operator=(const memory_owner&) = delete;

  /// `bytes` bytes aligned to `alignment`, a power of two at most 64. Throws `resource_error`, which says for what
  /// `purpose`.
  owned_memory take(std::size_t bytes, std::size_t alignment, const char* purpose);

  void keep() noexcept { users_.fetch_add(1, std::memory_order_relaxed); }
  void leave() noexcept {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) end_(*this);
  }

 protected:
  using take_function = std::byte* (*)(memory_owner&, std::size_t bytes, std::size_t alignment, const char* purpose);
  using give_back_function = void (*)(memory_owner&, std::byte*) noexcept;
  using end_function = void (*)(memory_owner&) noexcept;
  /// Kept once, by its maker. `end` destroys it.
  memory_owner(take_function take_piece, give_back_function give_back, end_function end)
      : take_(take_piece), give_back_(give_back), end_(end) {}
  ~memory_owner() = default;

 private:
  friend class owned_memory;
  take_function take_;
  give_back_function give_back_;
  end_function end_;
  std::atomic<std::size_t> users_{1};
};

/// Keeps a memory owner that was made by `new`, for its maker.
template <class Owner>
class kept {
 public:
  kept() = default;
  explicit kept(Owner* made) noexcept : owner_(made) {}
  kept(kept&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
  kept& operator=(kept&& other) noexcept {
    std::swap(owner_, other.owner_);
    return *this;
  }
  ~kept() {
    if (owner_ != nullptr) owner_->leave();
  }
  Owner& operator*() const { return *owner_; }
  Owner* operator->() const { return owner_; }

 private:
  Owner* owner_ = nullptr;
};

/// A piece of memory that is given back when this ends: to an owner, or to the heap of the program.
class owned_memory {
 public:
  owned_memory() = default;
  /// A piece that was taken from `owner`, which is kept for it.
  owned_memory(memory_owner& owner, std::byte* data) noexcept : owner_(&owner), data_(data) { owner.keep(); }
  owned_memory(owned_memory&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        alignment_(other.alignment_) {}
  owned_memory& operator=(owned_memory&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(data_, other.data_);
    std::swap(alignment_, other.alignment_);
    return *this;
  }
  ~owned_memory() {
    if (owner_ != nullptr) {
      owner_->give_back_(*owner_, data_);
      owner_->leave();
    } else if (data_ != nullptr) {
      ::operator delete (data_, std::align_val_t{alignment_});
    }
  }

  /// Ordinary memory of this process, aligned to a cache line, and where it is large to a huge page. Throws
  /// `std::bad_alloc`.
  static owned_memory ordinary(std::size_t bytes) {
    constexpr std::size_t huge_page = std::size_t{1} << 21;
    owned_memory made;
    made.alignment_ = bytes >= huge_page ? huge_page : 64;
    made.data_ = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{made.alignment_}));
    return made;
  }

  std::byte* data() const { return data_; }

 private:
  memory_owner* owner_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t alignment_ = 64;
};

inline owned_memory memory_owner::take(std::size_t bytes, std::size_t alignment, const char* purpose) {
  return {*this, take_(*this, bytes, alignment, purpose)};
}

}  // namespace tutti
