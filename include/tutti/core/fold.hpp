// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/inline.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tutti {

/// Vectors of at least this many bytes are written past the caches, if so many ranks write one each: they would only
/// push out what is read next. The ranks of a host share its last cache.
constexpr std::size_t streaming_bytes(int ranks) {
  constexpr std::size_t together = std::size_t{16} << 20;
  constexpr std::size_t least = std::size_t{2} << 20;
  const std::size_t share = together / static_cast<std::size_t>(ranks);
  return share < least ? least : share;
}

namespace detail {

// Each loop is a function of its own over restrict pointers with a constant inner trip count: that is what lets g++
// vectorise it at -O2 as well as at -O3.
inline constexpr std::size_t unroll = 64;
inline constexpr std::size_t several = 8;

template <class T, class Op>
[[gnu::noinline]] void fold_2(T* __restrict out, const T* __restrict a, const T* __restrict b, std::size_t n, Op& op) {
  std::size_t i = 0;
  for (; i + unroll <= n; i += unroll)
    for (std::size_t j = i; j < i + unroll; ++j) out[j] = static_cast<T>(op(a[j], b[j]));
  for (; i + several <= n; i += several)
    for (std::size_t j = i; j < i + several; ++j) out[j] = static_cast<T>(op(a[j], b[j]));
  for (; i < n; ++i) out[i] = static_cast<T>(op(a[i], b[i]));
}

template <class T, class Op>
[[gnu::noinline]] void fold_3(T* __restrict out, const T* __restrict a, const T* __restrict b, const T* __restrict c,
                              std::size_t n, Op& op) {
  std::size_t i = 0;
  for (; i + unroll <= n; i += unroll)
    for (std::size_t j = i; j < i + unroll; ++j) out[j] = static_cast<T>(op(static_cast<T>(op(a[j], b[j])), c[j]));
  for (; i + several <= n; i += several)
    for (std::size_t j = i; j < i + several; ++j) out[j] = static_cast<T>(op(static_cast<T>(op(a[j], b[j])), c[j]));
  for (; i < n; ++i) out[i] = static_cast<T>(op(static_cast<T>(op(a[i], b[i])), c[i]));
}

template <class T, class Op>
[[gnu::noinline]] void fold_onto_right(T* __restrict out, const T* __restrict b, std::size_t n, Op& op) {
  std::size_t i = 0;
  for (; i + unroll <= n; i += unroll)
    for (std::size_t j = i; j < i + unroll; ++j) out[j] = static_cast<T>(op(out[j], b[j]));
  for (; i + several <= n; i += several)
    for (std::size_t j = i; j < i + several; ++j) out[j] = static_cast<T>(op(out[j], b[j]));
  for (; i < n; ++i) out[i] = static_cast<T>(op(out[i], b[i]));
}

template <class T, class Op>
[[gnu::noinline]] void fold_onto_left(T* __restrict out, const T* __restrict a, std::size_t n, Op& op) {
  std::size_t i = 0;
  for (; i + unroll <= n; i += unroll)
    for (std::size_t j = i; j < i + unroll; ++j) out[j] = static_cast<T>(op(a[j], out[j]));
  for (; i + several <= n; i += several)
    for (std::size_t j = i; j < i + several; ++j) out[j] = static_cast<T>(op(a[j], out[j]));
  for (; i < n; ++i) out[i] = static_cast<T>(op(a[i], out[i]));
}

template <class T, class Op>
[[gnu::noinline]] void fold_two_onto(T* __restrict out, const T* __restrict b, const T* __restrict c, std::size_t n,
                                     Op& op) {
  std::size_t i = 0;
  for (; i + unroll <= n; i += unroll)
    for (std::size_t j = i; j < i + unroll; ++j) out[j] = static_cast<T>(op(static_cast<T>(op(out[j], b[j])), c[j]));
  for (; i + several <= n; i += several)
    for (std::size_t j = i; j < i + several; ++j) out[j] = static_cast<T>(op(static_cast<T>(op(out[j], b[j])), c[j]));
  for (; i < n; ++i) out[i] = static_cast<T>(op(static_cast<T>(op(out[i], b[i])), c[i]));
}

}  // namespace detail

/// Copies without reading the destination into the caches; the ranges must not overlap.
inline void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#if defined(__SSE2__)
  // Whole lines at a time, or the buffers that combine writes would be sent to memory half full.
  const std::size_t head = (64 - (reinterpret_cast<std::uintptr_t>(to) & 63)) & 63;
  if (bytes < 64 + head) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, head);
  to += head;
  from += head;
  bytes -= head;
  std::size_t i = 0;
  for (; i + 64 <= bytes; i += 64) {
    __builtin_prefetch(from + i + 1024);  // past what the processor fetches ahead by itself
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i + 16));
    const __m128i c = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i + 32));
    const __m128i d = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i + 48));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), a);
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + 16), b);
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + 32), c);
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + 48), d);
  }
  std::memcpy(to + i, from + i, bytes - i);
#else
  std::memcpy(to, from, bytes);
#endif
}

/// Makes streamed bytes visible before what is stored next.
inline void stream_fence() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// Copies n elements; the ranges are equal or do not overlap. With `streaming`, past the caches.
template <class T>
void copy_elements(T* to, const T* from, std::size_t n, bool streaming) {
  if (n == 0 || to == from) return;
  if (streaming) {
    stream_copy(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from), n * sizeof(T));
    stream_fence();
  } else {
    std::memcpy(static_cast<void*>(to), from, n * sizeof(T));
  }
}

namespace detail {
// For more than a few elements.

template <class T, class Op>
[[gnu::noinline]] void fold_many_pairs(T* out, const T* left, const T* right, std::size_t n, Op& op) {
  if (out == left) {
    fold_onto_right(out, right, n, op);
  } else if (out == right) {
    fold_onto_left(out, left, n, op);
  } else {
    fold_2(out, left, right, n, op);
  }
}
template <class T, class Op>
[[gnu::noinline]] void fold_many(T* out, const T* const* source, int sources, std::size_t n, Op& op, bool streaming) {
  if (sources == 2 && !streaming) return fold_many_pairs(out, source[0], source[1], n, op);
  bool aliased = false;
  for (int s = 0; s < sources; ++s) aliased |= source[s] == out;
  // A chunk of partial results stays in the first-level cache while all sources pass over it.
  constexpr std::size_t chunk = sizeof(T) >= 4096 ? 1 : 4096 / sizeof(T);
  alignas(64) alignas(T) std::byte memory[chunk * sizeof(T)];
  T* const partial = reinterpret_cast<T*>(memory);
  for (std::size_t at = 0; at < n; at += chunk) {
    const std::size_t m = n - at < chunk ? n - at : chunk;
    T* const to = aliased || streaming ? partial : out + at;
    int s;
    if (sources == 2) {
      fold_2(to, source[0] + at, source[1] + at, m, op);
      s = 2;
    } else {
      fold_3(to, source[0] + at, source[1] + at, source[2] + at, m, op);
      s = 3;
    }
    for (; s + 1 < sources; s += 2) fold_two_onto(to, source[s] + at, source[s + 1] + at, m, op);
    if (s < sources) fold_onto_right(to, source[s] + at, m, op);
    if (to == partial) {
      if (streaming) {
        stream_copy(reinterpret_cast<std::byte*>(out + at), memory, m * sizeof(T));
      } else {
        std::memcpy(static_cast<void*>(out + at), memory, m * sizeof(T));
      }
    }
  }
  if (streaming) stream_fence();
}
}  // namespace detail

/// An operation that folds all operands itself, in one call and as `fold_all`.
template <class Op, class T>
concept folding_at_once = requires(Op& op, T* out, const T* const* source, int sources, std::size_t n, bool streaming) {
  op.fold_at_once(out, source, sources, n, streaming);
};

/// out = left op right, elementwise over n elements. `out` may be one of them; otherwise nothing overlaps.
template <class T, class Op>
TUTTI_ALWAYS_INLINE inline void fold_pair(T* out, const T* left, const T* right, std::size_t n, Op& op,
                                          bool streaming) {
  if constexpr (folding_at_once<Op, T>) {
    const T* const source[] = {left, right};
    op.fold_at_once(out, source, 2, n, streaming);
  } else {
    if (n > 8) {
      if (!streaming) return detail::fold_many_pairs(out, left, right, n, op);
      const T* const source[] = {left, right};
      detail::fold_many(out, source, 2, n, op, streaming);
      return;
    }
    for (std::size_t i = 0; i < n; ++i) {
      asm(""
          : "+r"(i));  // to find out whether so few elements may be handled together takes longer than to handle them
      out[i] = static_cast<T>(op(left[i], right[i]));
    }
  }
}

/// out = ((source[0] op source[1]) op source[2]) ..., elementwise over n elements, in one pass over memory. `out` may
/// be one of the sources; otherwise nothing overlaps. Requires `sources >= 2`.
template <class T, class Op>
void fold_all(T* out, const T* const* source, int sources, std::size_t n, Op& op, bool streaming) {
  if constexpr (folding_at_once<Op, T>) {
    op.fold_at_once(out, source, sources, n, streaming);
  } else {
    if (n > 8) {
      detail::fold_many(out, source, sources, n, op, streaming);
      return;
    }
    for (std::size_t i = 0; i < n; ++i) {
      T value = source[0][i];
      for (int s = 1; s < sources; ++s) value = static_cast<T>(op(value, source[s][i]));
      out[i] = value;
    }
  }
}

/// Folds n elements of `vectors` sources as `fold_all`, and writes them to as many `out`, first to number `first`, in
/// one pass over memory. Each `out` may be the source of its number; otherwise nothing overlaps. With `streaming`, past
/// the caches where it is not: what has just been read is in them. Requires `2 <= vectors <= Most`.
template <int Most, class T, class Op>
[[gnu::noinline]] void fold_to_each(T* const* out, const T* const* source, int vectors, int first, std::size_t n,
                                    Op& op, bool streaming) {
  constexpr std::size_t chunk = sizeof(T) >= 4096 ? 1 : 4096 / sizeof(T);
  alignas(64) alignas(T) std::byte memory[chunk * sizeof(T)];
  T* const folded = reinterpret_cast<T*>(memory);
  const T* from[Most];
  for (std::size_t at = 0; at < n; at += chunk) {
    const std::size_t m = n - at < chunk ? n - at : chunk;
    for (int v = 0; v < vectors; ++v) from[v] = source[v] + at;
    fold_all(folded, static_cast<const T* const*>(from), vectors, m, op, false);
    for (int i = 0; i < vectors; ++i) {
      const int v = first + i < vectors ? first + i : first + i - vectors;
      if (streaming && out[v] != source[v]) {
        stream_copy(reinterpret_cast<std::byte*>(out[v] + at), memory, m * sizeof(T));
      } else {
        std::memcpy(static_cast<void*>(out[v] + at), memory, m * sizeof(T));
      }
    }
  }
  if (streaming) stream_fence();
}

}  // namespace tutti
