// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace tutti {

/// Builds the text of an error: `message() << "rank " << rank`. Kept out of line, since every program pays for
/// compiling it.
class message {
 public:
  [[gnu::noinline, gnu::cold]] message& operator<<(std::string_view text) {
    text_.append(text.data(), text.size());
    return *this;
  }
  message& operator<<(unsigned long long value) { return number(value, false); }
  message& operator<<(unsigned long value) { return number(value, false); }
  message& operator<<(unsigned value) { return number(value, false); }
  message& operator<<(int value) { return *this << static_cast<long long>(value); }
  message& operator<<(long value) { return *this << static_cast<long long>(value); }
  message& operator<<(long long value) {
    return number(value < 0 ? 0 - static_cast<unsigned long long>(value) : static_cast<unsigned long long>(value),
                  value < 0);
  }
  /// In six digits.
  [[gnu::noinline, gnu::cold]] message& operator<<(double value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%g", value);
    return *this << std::string_view(digits);
  }
  /// The text so far.
  const std::string& str() const { return text_; }
  operator std::string() const { return text_; }  // NOLINT(google-explicit-constructor): it is a text

 private:
  [[gnu::noinline, gnu::cold]] message& number(unsigned long long value, bool negative) {
    char digits[24];
    char* at = digits + sizeof digits;
    do {
      *--at = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    if (negative) *--at = '-';
    text_.append(at, static_cast<std::size_t>(digits + sizeof digits - at));
    return *this;
  }

  std::string text_;
};

}  // namespace tutti
