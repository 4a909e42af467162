// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstddef>
#include <span>

namespace tutti {

/// How parameters follow a gradient. A rule is a small value that holds its settings; what it remembers from step to
/// step is a state of its own, made once for `n` parameters:
///
/// - `typename R::template state<T>`: constructible from `n`; everything the rule will ever allocate.
/// - `rule.update(state, parameters, gradient)`: one step; three times `n` elements in the same order, `gradient` is
/// the
///   mean over all samples of the step. Allocates nothing; depends on nothing but its arguments and settings, so that
///   ranks that hold the same values go on holding the same values.
template <class R, class T>
concept update_rule = std::copyable<R> && std::floating_point<T> &&
    std::constructible_from<typename R::template state<T>, std::size_t> &&
    requires(const R& rule, typename R::template state<T>& state, std::span<T> parameters,
             std::span<const T> gradient) {
  rule.update(state, parameters, gradient);
};

}  // namespace tutti
