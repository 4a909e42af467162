// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>

#include <climits>
#include <string_view>

namespace tutti::detail {

/// Reads the variables that a job is launched with, through `lookup(name)`, which returns the value of a variable or
/// null.
template <class Lookup>
class environment_variables {
 public:
  explicit environment_variables(Lookup& lookup) : lookup_(lookup) {}

  bool is_set(const char* name) const { return lookup_(name) != nullptr; }
  /// Empty if it is not set.
  std::string_view text(const char* name) const {
    const char* const found = lookup_(name);
    return found == nullptr ? std::string_view() : std::string_view(found);
  }
  /// How an error about the variable begins: `launch from the environment: RANK is "x"`.
  message is(const char* name) const {
    return message() << "launch from the environment: " << name << " is \"" << text(name) << "\"";
  }
  /// The value of the variable as a number from `least` to INT_MAX. Throws `usage_error`.
  int number(const char* name, int least) const {
    const std::string_view digits = text(name);
    long long sum = 0;
    bool good = !digits.empty();
    for (const char digit : digits) {
      good = good && digit >= '0' && digit <= '9';
      if (!good) break;
      sum = 10 * sum + (digit - '0');
      good = sum <= INT_MAX;
    }
    if (!good || sum < least)
      throw usage_error(is(name) << ", expected a whole number from " << least << " to " << INT_MAX);
    return static_cast<int>(sum);
  }

 private:
  Lookup& lookup_;
};

}  // namespace tutti::detail
