// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the ranks write, line by line.

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

/// A descriptor that is closed in the end.
class descriptor {
 public:
  explicit descriptor(int number = -1) : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor() { reset(); }
  int get() const { return number_; }
  bool open() const { return number_ >= 0; }
  void reset() {
    if (open()) close(std::exchange(number_, -1));
  }

 private:
  int number_;
};

/// Lines on their way to a descriptor of launch's own, which it must not wait for.
class line_sink {
 public:
  explicit line_sink(int to) : to_(to) {}

  void add(std::string_view line) {
    if (broken_) return;
    waiting_ += line;
    waiting_ += '\n';
  }
  void add(int rank, std::string_view line) {
    if (!broken_) waiting_ += '[' + std::to_string(rank) + "] ";
    add(line);
  }
  bool empty() const { return waiting_.empty(); }
  /// Nothing more should be read for it now.
  bool full() const { return waiting_.size() - written_ >= most_waiting; }
  /// Nobody reads it any more.
  bool broken() const { return broken_; }
  pollfd wants() const { return {empty() ? -1 : to_, POLLOUT, 0}; }

  /// When it can be written to: so much as a pipe takes then.
  void write_some() {
    const std::size_t left = waiting_.size() - written_;
    const ssize_t written = ::write(to_, waiting_.data() + written_, left < at_once ? left : at_once);
    if (written > 0) written_ += static_cast<std::size_t>(written);
    if (written_ > waiting_.size() / 2) waiting_.erase(0, std::exchange(written_, 0));
    if (written >= 0 || errno == EINTR || errno == EAGAIN) return;
    broken_ = true;
    waiting_.clear();
    written_ = 0;
  }

 private:
  static constexpr std::size_t at_once = 4096;
  static constexpr std::size_t most_waiting = std::size_t{1} << 20;

  int to_;
  bool broken_ = false;
  std::string waiting_;
  std::size_t written_ = 0;  // of it
};

/// One of the two pipes that a rank writes to.
class line_source {
 public:
  line_source(descriptor from, int rank, line_sink& to) : from_(std::move(from)), rank_(rank), to_(&to) {}

  bool open() const { return from_.open(); }
  pollfd wants() const { return {to_->full() ? -1 : from_.get(), POLLIN, 0}; }

  void read_some() {
    char part[16384];
    const ssize_t got = ::read(from_.get(), part, sizeof part);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return finish();
    const std::size_t known = line_.size();  // without an end
    line_.append(part, static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (std::size_t end = line_.find('\n', known); end != std::string::npos; end = line_.find('\n', begin)) {
      to_->add(rank_, std::string_view(line_).substr(begin, end - begin));
      begin = end + 1;
    }
    line_.erase(0, begin);
    if (line_.size() < longest) return;
    to_->add(rank_, line_);
    line_.clear();
  }
  /// The last line may have no end.
  void finish() {
    if (!line_.empty()) to_->add(rank_, std::exchange(line_, {}));
    from_.reset();
  }

 private:
  static constexpr std::size_t longest = std::size_t{16} << 20;  // a longer line comes in parts

  descriptor from_;
  int rank_;
  line_sink* to_;
  std::string line_;
};

/// Whether what is written to the one goes where what is written to the other goes.
inline bool same_file(int one, int other) {
  struct stat a {};
  struct stat b {};
  return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}
