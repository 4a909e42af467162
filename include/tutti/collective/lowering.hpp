// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/storage.hpp>
#include <tutti/core/accumulator.hpp>
#include <tutti/core/arena.hpp>
#include <tutti/core/exact_fold.hpp>
#include <tutti/core/fold.hpp>
#include <tutti/schedule/schedule.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>

namespace tutti::detail {

// A lowering says how a reduction of T by Op runs: on what `element`s, with which fold, what comes before the schedule
// (`widen`) and what after it (`finish`).

/// Folds of T by Op as they are.
template <class T, class Op>
struct lowered_as_is {
  using element = T;
  static Op fold(Op op, int) { return op; }
  static buffers<T> widen(const buffers<T>& memory, std::size_t, arena&) { return memory; }
  static void finish(const buffers<T>&, std::span<T>, std::size_t, int) {}
};

/// Averages that are summed in T.
template <class T>
struct lowered_as_is<T, average> {
  using element = T;
  static std::plus<> fold(average, int) { return {}; }
  static buffers<T> widen(const buffers<T>& memory, std::size_t, arena&) { return memory; }
  static void finish(const buffers<T>&, std::span<T> result, std::size_t, int ranks) {
    const T divisor = static_cast<T>(ranks);
    for (T& value : result) value = value / divisor;
  }
};

// Each loop is a function of its own over restrict pointers with a constant inner trip count, as those of fold.hpp.

template <class W, class T>
[[gnu::noinline]] void widen_elements(W* __restrict out, const T* __restrict in, std::size_t n) {
  std::size_t i = 0;
  for (; i + unroll <= n; i += unroll)
    for (std::size_t j = i; j < i + unroll; ++j) out[j] = static_cast<W>(in[j]);
  for (; i < n; ++i) out[i] = static_cast<W>(in[i]);
}

/// out = out op in, for values that have not been widened.
template <class W, class T, class Op>
[[gnu::noinline]] void accumulate(W* __restrict out, const T* __restrict in, std::size_t n, Op& op) {
  std::size_t i = 0;
  for (; i + unroll <= n; i += unroll)
    for (std::size_t j = i; j < i + unroll; ++j) out[j] = static_cast<W>(op(out[j], static_cast<W>(in[j])));
  for (; i < n; ++i) out[i] = static_cast<W>(op(out[i], static_cast<W>(in[i])));
}
/// The results, divided by the number of ranks if they are averages.
template <class Op, class T, class W>
[[gnu::noinline]] void narrow_elements(T* __restrict out, const W* __restrict in, std::size_t n, int ranks) {
  const auto one = [=](const W& value) {
    if constexpr (std::is_same_v<Op, average>) {
      return static_cast<T>(value / static_cast<W>(ranks));
    } else {
      return static_cast<T>(value);
    }
  };
  std::size_t i = 0;
  for (; i + unroll <= n; i += unroll)
    for (std::size_t j = i; j < i + unroll; ++j) out[j] = one(in[j]);
  for (; i < n; ++i) out[i] = one(in[i]);
}

/// All contributions are widened before the first round, and accumulators travel.
template <class T, class Op>
struct lowered_to_accumulators {
  using element = accumulator_t<T, Op>;
  using fold_type = accumulating_t<T, Op>;
  static fold_type fold([[maybe_unused]] Op op, int) {
    if constexpr (std::is_same_v<fold_type, Op>) {
      return op;
    } else {
      return {};
    }
  }
  static buffers<element> widen(const buffers<T>& memory, std::size_t count, arena& scratch) {
    element* const wide = scratch.take_for<element>(count);
    widen_elements(wide, memory.in, count);
    return {.in = wide, .out = wide, .result = wanted::none};
  }
  static void finish(const buffers<element>& wide, std::span<T> result, std::size_t offset, int ranks) {
    narrow_elements<Op>(result.data(), wide.out + offset, result.size(), ranks);
  }
};

/// The fold where all ranks' contributions come together at once: from T to T, in accumulators that stay in the
/// first-level cache.
template <class T, class Op>
class fold_at_once_as {
 public:
  using element = accumulator_t<T, Op>;
  using fold_type = accumulating_t<T, Op>;

  fold_at_once_as(fold_type op, int ranks) : op_(std::move(op)), ranks_(ranks) {}

  /// `out` may be one of the sources: a chunk of it is written when the same chunk of all has been read.
  void fold_at_once(T* out, const T* const* source, int sources, std::size_t n, bool streaming) {
    if constexpr (std::is_same_v<Op, reproducible_sum>) {
      fold_exactly(out, source, sources, n, streaming);
    } else {
      fold_in_accumulators(out, source, sources, n, streaming);
    }
  }

 private:
  void fold_in_accumulators(T* out, const T* const* source, int sources, std::size_t n, bool streaming) {
    constexpr std::size_t chunk = chunk_for(sizeof(element));
    alignas(64) alignas(element) std::byte memory[chunk * sizeof(element)];
    alignas(64) alignas(T) std::byte narrow[chunk * sizeof(T)];
    auto* const partial = reinterpret_cast<element*>(memory);
    for (std::size_t at = 0; at < n; at += chunk) {
      const std::size_t m = n - at < chunk ? n - at : chunk;
      widen_elements(partial, source[0] + at, m);
      for (int s = 1; s < sources; ++s) accumulate(partial, source[s] + at, m, op_);
      if (streaming) {
        narrow_elements<Op>(reinterpret_cast<T*>(narrow), partial, m, ranks_);
        stream_copy(reinterpret_cast<std::byte*>(out + at), narrow, m * sizeof(T));
      } else {
        narrow_elements<Op>(out + at, partial, m, ranks_);
      }
    }
    if (streaming) stream_fence();
  }

  /// A power of two, so that a chunk of T is whole cache lines.
  static constexpr std::size_t chunk_for(std::size_t bytes) {
    std::size_t chunk = 32;
    while (2 * chunk * bytes <= 8192) chunk *= 2;
    return chunk;
  }

  [[no_unique_address]] fold_type op_;
  int ranks_;
};

/// Elements travel as T.
template <class T, class Op>
struct lowered_to_one_fold {
  using element = T;
  using lower = lowered_to_accumulators<T, Op>;
  static fold_at_once_as<T, Op> fold(Op op, int ranks) { return {lower::fold(std::move(op), ranks), ranks}; }
  static buffers<T> widen(const buffers<T>& memory, std::size_t, arena&) { return memory; }
  /// One rank folds nothing, but its result is what an accumulator of one value gives.
  static void finish(const buffers<T>&, std::span<T> result, std::size_t, int ranks) {
    if (ranks == 1) to_accumulators_and_back(result);
  }

 private:
  [[gnu::noinline]] static void to_accumulators_and_back(std::span<T> result) {
    for (T& value : result) {
      const auto wide = static_cast<accumulator_t<T, Op>>(value);
      narrow_elements<Op>(&value, &wide, 1, 1);
    }
  }
};

/// How a reduction of T by Op runs on the schedule S.
template <class T, class Op, class S>
using lowered = std::conditional_t<
    std::is_same_v<accumulator_t<T, Op>, T>, lowered_as_is<T, Op>,
    std::conditional_t<folding<S> == folds::at_once, lowered_to_one_fold<T, Op>, lowered_to_accumulators<T, Op>>>;

/// The bytes that the vector has on its way.
template <class T, class Op>
struct lowered_bytes {
  std::size_t count;

  template <class S>
  constexpr std::size_t by() const {
    return count * sizeof(typename lowered<T, Op, S>::element);
  }
};
template <class T, class Op>
constexpr auto bytes_of(std::size_t count) {
  if constexpr (std::is_same_v<accumulator_t<T, Op>, T>) {
    return count * sizeof(T);
  } else {
    return lowered_bytes<T, Op>{count};
  }
}

}  // namespace tutti::detail
