// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tutti::detail {

/// A string literal as template argument.
template <std::size_t N>
struct literal {
  char text[N] = {};
  constexpr literal(const char (&from)[N]) {  // NOLINT(google-explicit-constructor): a literal is one
    for (std::size_t i = 0; i < N; ++i) text[i] = from[i];
  }
  constexpr std::string_view view() const { return {text, N - 1}; }
};

/// A number where a type with a name is wanted.
template <int N>
struct numeral {
  static_assert(N >= 0);
  static constexpr auto digits = [] {
    std::array<char, 10> text{};
    std::size_t at = text.size();
    int rest = N;
    do {
      text[--at] = static_cast<char>('0' + rest % 10);
      rest /= 10;
    } while (rest != 0);
    std::array<char, 11> result{};
    std::size_t size = 0;
    for (; at < text.size(); ++at) result[size++] = text[at];
    result.back() = static_cast<char>(size);
    return result;
  }();
  static constexpr std::string_view name{digits.data(), static_cast<std::size_t>(digits.back())};
};

template <literal Template, class... Arguments>
struct spelled {
  static constexpr std::size_t size =
      Template.view().size() + 2 * sizeof...(Arguments) + (Arguments::name.size() + ...);
  static constexpr auto text = [] {
    std::array<char, size> result{};
    std::size_t at = 0;
    const auto add = [&](std::string_view part) {
      for (const char c : part) result[at++] = c;
    };
    add(Template.view());
    bool first = true;
    ((add(first ? "<" : ", "), first = false, add(Arguments::name)), ...);
    add(">");
    return result;
  }();
};

/// The name of a template with its arguments as users write them: `product<ring, circulant>`.
template <literal Template, class... Arguments>
inline constexpr std::string_view template_name{spelled<Template, Arguments...>::text.data(),
                                                spelled<Template, Arguments...>::size};

}  // namespace tutti::detail
