// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace tutti {

/// Scratch memory that grows and is kept: taking from it allocates only until it has once been large enough, and never
/// moves what was taken before. Everything taken is given back together by `reset`.
class arena {
 public:
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
    if (chunks_.size() > 1) [[unlikely]]
      melt();
    if (!chunks_.empty()) use(0);
  }

 private:
  struct release {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };
  struct chunk {
    std::unique_ptr<std::byte, release> memory;
    std::size_t size;
  };

  void use(std::size_t index) {
    current_ = index;
    next_ = chunks_[index].memory.get();
    left_ = chunks_[index].size;
  }
  [[gnu::noinline, gnu::cold]] void find(std::size_t need) {
    while (current_ + 1 < chunks_.size()) {
      use(current_ + 1);
      if (left_ >= need) return;
    }
    const std::size_t size = need < least_ ? least_ : need;
    std::unique_ptr<std::byte, release> memory(static_cast<std::byte*>(::operator new (size, std::align_val_t{64})));
    chunks_.push_back({std::move(memory), size});
    use(chunks_.size() - 1);
  }
  /// The one chunk is allocated when it is needed: giving back cannot fail.
  [[gnu::noinline, gnu::cold]] void melt() noexcept {
    least_ = 0;
    for (const chunk& c : chunks_) least_ += c.size;
    chunks_.clear();
    current_ = 0;
    next_ = nullptr;
    left_ = 0;
  }

  std::vector<chunk> chunks_;
  std::size_t current_ = 0;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
  std::size_t least_ = 4096;  // of a new chunk
};

}  // namespace tutti
