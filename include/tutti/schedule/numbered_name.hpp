// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string_view>

namespace tutti::detail {

/// A string literal as a template argument.
template <std::size_t N>
struct literal {
  char text[N];

  constexpr literal(const char (&characters)[N]) : text{} {
    for (std::size_t i = 0; i < N; ++i) text[i] = characters[i];
  }
};

template <literal Name, int Number>
struct numbered {
  static constexpr int digits = [] {
    int count = 1;
    for (int rest = Number; rest >= 10; rest /= 10) ++count;
    return count;
  }();
  static constexpr std::size_t length = sizeof(Name.text) - 1;
  struct buffer {
    char text[length + digits + 2];
  };
  static constexpr buffer filled = [] {
    buffer result{};
    for (std::size_t i = 0; i < length; ++i) result.text[i] = Name.text[i];
    result.text[length] = '<';
    int rest = Number;
    for (int i = digits; i > 0; --i, rest /= 10) {
      result.text[length + static_cast<std::size_t>(i)] = static_cast<char>('0' + rest % 10);
    }
    result.text[length + digits + 1] = '>';
    return result;
  }();
};

/// What an algorithm that is a template of a number is called: `Name<Number>`.
template <literal Name, int Number>
inline constexpr std::string_view numbered_name{numbered<Name, Number>::filled.text,
                                                sizeof numbered<Name, Number>::filled.text};

}  // namespace tutti::detail
