// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <utility>

namespace tutti::detail {

/// A growing array of trivial values for proofs. Compilers evaluate this an order of magnitude faster than std::vector.
template <class T>
class proof_buffer {
 public:
  constexpr proof_buffer() = default;
  constexpr explicit proof_buffer(int size)
      : items_{new T[static_cast<unsigned>(size) + 1u]{}}, room_{size + 1}, size_{size} {}
  constexpr proof_buffer(int size, T value) : proof_buffer(size) {
    for (int i = 0; i < size; ++i) items_[i] = value;
  }
  proof_buffer(const proof_buffer&) = delete;
  proof_buffer& operator=(const proof_buffer&) = delete;
  constexpr ~proof_buffer() { delete[] items_; }

  constexpr T& operator[](int i) { return items_[i]; }
  constexpr const T& operator[](int i) const { return items_[i]; }
  constexpr int size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* begin() { return items_; }
  constexpr T* end() { return items_ + size_; }
  constexpr void clear() { size_ = 0; }
  constexpr T pop() { return items_[--size_]; }
  constexpr void push(const T& item) {
    if (size_ == room_) {
      room_ = room_ == 0 ? 8 : room_ * 4;
      T* const wider = new T[static_cast<unsigned>(room_)]{};
      for (int i = 0; i < size_; ++i) wider[i] = items_[i];
      delete[] std::exchange(items_, wider);
    }
    items_[size_++] = item;
  }

 private:
  T* items_ = nullptr;
  int room_ = 0;
  int size_ = 0;
};

}  // namespace tutti::detail
