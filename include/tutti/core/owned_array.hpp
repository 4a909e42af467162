// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/memory.hpp>
#include <tutti/core/type_name.hpp>

#include <cstddef>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tutti {

/// A fixed number of objects on the heap, zero or default to begin with, in cache lines of their own: one thread makes
/// those of several ranks, which would slow each other down. Moved, not copied. Every program compiles what it is made
/// of, which is why it is not a std::vector. Throws `resource_error` where the system refuses memory.
template <class T>
class owned_array {
 public:
  owned_array() = default;
  explicit owned_array(std::size_t size) : owned_array(size, type_name<T>()) {}
  /// `purpose` is what an error says that the memory is for.
  owned_array(std::size_t size, std::string_view purpose) : data_(detail::make_apart<T>(size, purpose)), size_(size) {}
  owned_array(owned_array&& other) noexcept : data_(other.data_), size_(other.size_) { other.forget(); }
  owned_array& operator=(owned_array&& other) noexcept {
    if (this == &other) return *this;
    detail::destroy_apart(data_, size_);
    data_ = other.data_;
    size_ = other.size_;
    other.forget();
    return *this;
  }
  ~owned_array() { detail::destroy_apart(data_, size_); }

  std::size_t size() const { return size_; }
  T* data() { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  void forget() {
    data_ = nullptr;
    size_ = 0;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A list of trivially copyable values that grows; what was reserved once is kept. Where the system refuses memory
/// `resource_error` is thrown, and the list stays as it is.
template <class T>
class array_list {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  array_list() = default;
  array_list(array_list&& other) noexcept : memory_(std::move(other.memory_)), size_(std::exchange(other.size_, 0)) {}
  array_list& operator=(array_list&& other) noexcept {
    if (this == &other) return *this;
    memory_ = std::move(other.memory_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return memory_[i]; }
  const T& operator[](std::size_t i) const { return memory_[i]; }
  T& back() { return memory_[size_ - 1]; }
  T* begin() { return memory_.begin(); }
  T* end() { return memory_.begin() + size_; }
  const T* begin() const { return memory_.begin(); }
  const T* end() const { return memory_.begin() + size_; }

  void push_back(const T& value) {
    if (size_ == memory_.size()) [[unlikely]] {
      const T copy = value;  // it may lie in this list
      reserve(size_ < 4 ? 8 : 2 * size_);
      memory_[size_++] = copy;
      return;
    }
    memory_[size_++] = value;
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  /// Takes out the value at that place; those behind it move up.
  void erase(T* at) {
    std::memmove(at, at + 1, static_cast<std::size_t>(end() - at - 1) * sizeof(T));
    --size_;
  }
  /// Puts the value before that place.
  void insert(std::size_t at, const T& value) {
    const T copy = value;
    push_back(copy);
    std::memmove(begin() + at + 1, begin() + at, (size_ - 1 - at) * sizeof(T));
    memory_[at] = copy;
  }
  [[gnu::noinline]] void reserve(std::size_t least) {
    if (least <= memory_.size()) return;
    owned_array<T> larger(least);
    if (size_ != 0) std::memcpy(larger.data(), memory_.data(), size_ * sizeof(T));
    memory_ = std::move(larger);
  }

 private:
  owned_array<T> memory_;
  std::size_t size_ = 0;
};

}  // namespace tutti
