// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/memory.hpp>
#include <tutti/core/owned_memory.hpp>

#include <cstddef>
#include <new>
#include <utility>

namespace tutti {

/// Scratch memory that grows and is kept: taking from it allocates only until it has once been large enough, and never
/// moves what was taken before. Everything taken is given back together by `reset`. Where the system refuses memory
/// `resource_error` is thrown, and what was taken before stays.
class arena {
 public:
  arena() = default;
  /// Takes from that owner, which outlives the arena; if there is none, from the heap of the program.
  explicit arena(memory_owner* source) : source_(source) {}
  arena(arena&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)),
        last_(std::exchange(other.last_, nullptr)),
        current_(std::exchange(other.current_, nullptr)),
        next_(std::exchange(other.next_, nullptr)),
        left_(std::exchange(other.left_, 0)),
        least_(other.least_),
        source_(other.source_) {}
  ~arena() { release(); }

  /// `bytes` bytes aligned to 64, valid until `reset`.
  std::byte* take(std::size_t bytes) {
    const std::size_t need = (bytes + 63) / 64 * 64;
    if (need > left_ || next_ == nullptr) [[unlikely]]
      find(need);
    std::byte* const result = next_;
    next_ += need;
    left_ -= need;
    return result;
  }

  /// The same for objects of type T, which the caller writes before it reads.
  template <class T>
  T* take_for(std::size_t count) {
    return reinterpret_cast<T*>(take(count * sizeof(T)));
  }

  /// Gives back everything taken. Several chunks are melted into one, so that the next round of the same needs one.
  void reset() noexcept {
    if (first_ != last_) [[unlikely]]
      melt();
    if (first_ != nullptr) use(first_);
  }

 private:
  /// What stands before each piece of memory; the pieces are a list.
  struct alignas(64) chunk {
    chunk* next;
    std::size_t size;
    owned_memory memory;  // in which it stands itself
  };

  static constexpr const char* purpose = "scratch";

  void use(chunk* c) {
    current_ = c;
    next_ = reinterpret_cast<std::byte*>(c + 1);
    left_ = c->size;
  }
  [[gnu::noinline, gnu::cold]] void find(std::size_t need) {
    while (current_ != last_) {
      use(current_->next);
      if (left_ >= need) return;
    }
    const std::size_t size = need < least_ ? least_ : need;
    if (sizeof(chunk) + size < size) detail::refuse_memory(size, purpose);
    const std::size_t bytes = sizeof(chunk) + size;
    owned_memory memory = source_ != nullptr
                              ? source_->take(bytes, alignof(chunk), purpose)
                              : detail::allocating(bytes, purpose, [&] { return owned_memory::ordinary(bytes); });
    std::byte* const data = memory.data();
    auto* const made = new (data) chunk{nullptr, size, std::move(memory)};
    (last_ == nullptr ? first_ : last_->next) = made;
    last_ = made;
    use(made);
  }
  /// The one chunk is allocated when it is needed: giving back cannot fail.
  [[gnu::noinline, gnu::cold]] void melt() noexcept {
    least_ = 0;
    for (const chunk* c = first_; c != nullptr; c = c->next) least_ += c->size;
    release();
    first_ = last_ = current_ = nullptr;
    next_ = nullptr;
    left_ = 0;
  }
  [[gnu::noinline, gnu::cold]] void release() noexcept {
    while (first_ != nullptr) {
      const owned_memory memory = std::move(first_->memory);
      first_ = first_->next;
    }
  }

  chunk* first_ = nullptr;
  chunk* last_ = nullptr;
  chunk* current_ = nullptr;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
  std::size_t least_ = 4096;  // of a new chunk
  memory_owner* source_ = nullptr;
};

}  // namespace tutti
