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
    while (current_ < chunks_.size() && chunks_[current_].size - used_ < need) {
      ++current_;
      used_ = 0;
    }
    if (current_ == chunks_.size()) add(need);
    std::byte* const result = chunks_[current_].memory.get() + used_;
    used_ += need;
    return result;
  }

  /// The same for objects of type T, which the caller writes before it reads.
  template <class T>
  T* take_for(std::size_t count) {
    return reinterpret_cast<T*>(take(count * sizeof(T)));
  }

  /// Gives back everything taken. Several chunks are melted into one, so that the next round of the same needs one.
  void reset() {
    if (chunks_.size() > 1) {
      std::size_t total = 0;
      for (const chunk& c : chunks_) total += c.size;
      chunks_.clear();
      add(total);
    }
    current_ = 0;
    used_ = 0;
  }

 private:
  struct release {
    void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{64}); }
  };
  struct chunk {
    std::unique_ptr<std::byte, release> memory;
    std::size_t size;
  };

  void add(std::size_t need) {
    const std::size_t size = need < 4096 ? 4096 : need;
    std::unique_ptr<std::byte, release> memory(static_cast<std::byte*>(::operator new(size, std::align_val_t{64})));
    chunks_.push_back({std::move(memory), size});
    current_ = chunks_.size() - 1;
    used_ = 0;
  }

  std::vector<chunk> chunks_;
  std::size_t current_ = 0;
  std::size_t used_ = 0;
};

}  // namespace tutti
