// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/memory.hpp>

#include <cstddef>
#include <cstring>
#include <utility>

namespace tutti::detail {

/// Memory for what is kept, in pieces that are used again.
class tcp_backlog_pool {
 public:
  struct piece {
    static constexpr std::size_t size = std::size_t{16} * 1024 - sizeof(void*);
    piece* next;
    std::byte bytes[size];
  };

  tcp_backlog_pool() = default;
  tcp_backlog_pool(const tcp_backlog_pool&) = delete;
  tcp_backlog_pool& operator=(const tcp_backlog_pool&) = delete;
  ~tcp_backlog_pool() {
    while (unused_ != nullptr) delete std::exchange(unused_, unused_->next);
  }

  piece* take() {
    if (unused_ == nullptr)
      return allocating(sizeof(piece), "messages that came before they were asked for", [] { return new piece; });
    --count_;
    return std::exchange(unused_, unused_->next);
  }
  void give_back(piece* done) noexcept {
    if (count_ == most) {
      delete done;
      return;
    }
    ++count_;
    done->next = std::exchange(unused_, done);
  }

 private:
  static constexpr std::size_t most = 128;  // 2 MiB

  piece* unused_ = nullptr;
  std::size_t count_ = 0;
};

/// Bytes in the order in which they came.
class tcp_backlog {
 public:
  using piece = tcp_backlog_pool::piece;

  tcp_backlog() = default;
  tcp_backlog(tcp_backlog&& other) noexcept { swap(other); }
  tcp_backlog& operator=(tcp_backlog&& other) noexcept {
    swap(other);
    return *this;
  }
  ~tcp_backlog() {
    while (first_ != nullptr) delete std::exchange(first_, first_->next);
  }

  std::size_t size() const { return size_; }

  void push(const std::byte* from, std::size_t bytes, tcp_backlog_pool& pieces) {
    while (bytes != 0) {
      if (last_ == nullptr || end_ == piece::size) {
        piece* const fresh = pieces.take();
        fresh->next = nullptr;
        (last_ == nullptr ? first_ : last_->next) = fresh;
        last_ = fresh;
        end_ = 0;
      }
      const std::size_t room = piece::size - end_;
      const std::size_t part = bytes < room ? bytes : room;
      std::memcpy(last_->bytes + end_, from, part);
      end_ += part;
      size_ += part;
      from += part;
      bytes -= part;
    }
  }

  /// The next bytes; there are so many.
  void pop(std::byte* to, std::size_t bytes, tcp_backlog_pool& pieces) noexcept {
    peek(to, bytes);
    drop(bytes, pieces);
  }
  void peek(std::byte* to, std::size_t bytes) const noexcept {
    const piece* from = first_;
    for (std::size_t at = begin_; bytes != 0; at = 0, from = from->next) {
      const std::size_t there = piece::size - at;
      const std::size_t part = bytes < there ? bytes : there;
      std::memcpy(to, from->bytes + at, part);
      to += part;
      bytes -= part;
    }
  }

 private:
  void drop(std::size_t bytes, tcp_backlog_pool& pieces) noexcept {
    size_ -= bytes;
    begin_ += bytes;
    while (first_ != nullptr && (begin_ >= piece::size || size_ == 0)) {
      begin_ -= begin_ >= piece::size ? piece::size : begin_;
      pieces.give_back(std::exchange(first_, first_->next));
    }
    if (first_ == nullptr) last_ = nullptr;
  }
  void swap(tcp_backlog& other) noexcept {
    std::swap(first_, other.first_);
    std::swap(last_, other.last_);
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
    std::swap(size_, other.size_);
  }

  piece* first_ = nullptr;
  piece* last_ = nullptr;
  std::size_t begin_ = 0;  // in the first piece
  std::size_t end_ = 0;    // in the last
  std::size_t size_ = 0;
};

}  // namespace tutti::detail
