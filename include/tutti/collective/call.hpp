// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/execution.hpp>
#include <tutti/core/accumulator.hpp>
#include <tutti/core/call.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/operation.hpp>
#include <tutti/core/type_name.hpp>
#include <tutti/schedule/algorithm.hpp>

#include <climits>
#include <cstddef>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tutti::detail {

// ---- Buffers
// ----------------------------------------------------------------------------------------------------------
template <class R>
inline constexpr bool is_buffer = std::ranges::contiguous_range<R>&& std::ranges::sized_range<R>;

template <class R>
constexpr auto element_of() {
  static_assert(is_buffer<R>,
                "tutti: a buffer must be a contiguous range that knows its size: vector, array, span, ...");
  if constexpr (is_buffer<R>) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(std::ranges::data(std::declval<R&>()))>>;
    static_assert(std::is_trivially_copyable_v<T>,
                  "tutti: elements must be trivially copyable, since their bytes travel between ranks");
    static_assert(alignof(T) <= 64, "tutti: elements must not be aligned to more than 64 bytes");
    return std::type_identity<T>{};
  } else {
    return std::type_identity<char>{};
  }
}
/// The element type of a buffer; fails with a sentence where the range is no buffer.
template <class R>
using element_t = typename decltype(element_of<std::remove_reference_t<R>>())::type;

/// A buffer that may be written.
template <class R>
constexpr auto writable(R&& range) {
  using T = element_t<R>;
  static_assert(!is_buffer<std::remove_reference_t<R>> || std::is_same_v<decltype(std::ranges::data(range)), T*>,
                "tutti: the output buffer's elements are const");
  if constexpr (is_buffer<std::remove_reference_t<R>>) {
    return std::span<T>(std::ranges::data(range), std::ranges::size(range));
  } else {
    return std::span<T>();
  }
}
template <class R>
constexpr auto readable(R&& range) {
  using T = element_t<R>;
  if constexpr (is_buffer<std::remove_reference_t<R>>) {
    return std::span<const T>(std::ranges::data(range), std::ranges::size(range));
  } else {
    return std::span<const T>();
  }
}

template <class In, class Out>
constexpr void require_same_element() {
  static_assert(std::is_same_v<element_t<In>, element_t<Out>>, "tutti: input and output have different element types");
}

template <class Op, class T>
constexpr void require_operation() {
  using W = accumulator_t<T, Op>;
  if constexpr (std::is_same_v<Op, average>) {
    static_assert(!std::is_void_v<W>,
                  "tutti: average is defined for floating-point types and for integers that a wider type can sum");
  } else if constexpr (std::is_same_v<Op, reproducible_sum>) {
    static_assert(!std::is_void_v<W>,
                  "tutti: reproducible_sum is defined for floating-point types of 16, 32 and 64 bits; integers sum "
                  "reproducibly with std::plus, exact_sum does with std::plus what reproducible_sum does");
  } else {
    static_assert(
        std::is_same_v<W, T> || operation<accumulating_t<T, Op>, W>,
        "tutti: the operation must be callable with two accumulators and give something that converts to one");
    static_assert(!std::is_same_v<W, T> || operation<Op, T>,
                  "tutti: the operation must be callable with two elements and give something that converts to one");
  }
}

template <class A, collective C>
constexpr void require_algorithm() {
  static_assert(implements<A, C>, "tutti: this algorithm does not implement this collective");
}

template <class S, class Op, class T>
constexpr void require_order() {
  static_assert(
      is_commutative_v<Op, T> || S::rank_ordered,
      "tutti: the operation is not known to commute and this algorithm does not keep rank order: choose one that "
      "does (naive, flat, recursive_doubling, halving_doubling, single_master), or say tutti::commutative(op)");
}

template <class S, class Op, class T>
constexpr void require_uniform() {
  static_assert(
      uniform<S> || is_exact_v<Op, T>,
      "tutti: this algorithm folds in a different order on each rank, so ranks would round differently: choose "
      "another, or specialise tutti::is_exact if the operation rounds nothing");
}

// ---- Checks that one rank can make
// --------------------------------------------------------------------------------------
[[noreturn, gnu::cold, gnu::noinline]] inline void refuse(place at, collective c, const std::string& what) {
  throw usage_error(message() << name_of(c) << " on rank " << at.rank << " of " << at.size << ": " << what);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_root(place at, collective c, int root) {
  refuse(at, c, message() << "root " << root << " is not in [0, " << at.size << ")");
}
TUTTI_ALWAYS_INLINE inline void check_root(place at, collective c, int root) {
  // Rank 0 is in every group: where it is written so in the call, nothing is asked.
  if (root != 0 && (root < 0 || root >= at.size)) [[unlikely]]
    refuse_root(at, c, root);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_elements(place at, collective c, const char* buffer,
                                                                   std::size_t has, std::size_t needs) {
  refuse(at, c, message() << "the " << buffer << " holds " << has << " elements, needs " << needs);
}
TUTTI_ALWAYS_INLINE inline void check_elements(place at, collective c, const char* buffer, std::size_t has,
                                               std::size_t needs) {
  if (has != needs) [[unlikely]]
    refuse_elements(at, c, buffer, has, needs);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_indivisible(place at, collective c, const char* buffer,
                                                                      std::size_t elements) {
  refuse(
      at, c,
      message() << "the " << buffer << " holds " << elements << " elements, not a multiple of " << at.size << " ranks");
}
TUTTI_ALWAYS_INLINE inline std::size_t check_divisible(place at, collective c, const char* buffer,
                                                       std::size_t elements) {
  const auto ranks = static_cast<std::size_t>(at.size);
  if (elements % ranks != 0) [[unlikely]]
    refuse_indivisible(at, c, buffer, elements);
  return elements / ranks;
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_overlap(place at, collective c) {
  refuse(at, c, "input and output overlap; use the form with one buffer to work in place");
}
/// Input and output have no memory in common.
template <class T>
TUTTI_ALWAYS_INLINE inline void check_overlap(place at, collective c, std::span<const T> in, std::span<T> out) {
  if (in.empty() || out.empty()) return;
  const std::less<const T*> before;
  const T* const o = out.data();
  if (before(in.data(), o + out.size()) && before(o, in.data() + in.size())) [[unlikely]]
    refuse_overlap(at, c);
}

template <class A>
void check_supported(place at, collective c) {
  if (!supports<A>(at)) [[unlikely]]
    refuse(at, c,
           message() << "algorithm " << name_of<A>() << " does not support this number of ranks"
                     << (at.hosts == nullptr ? "" : " on these hosts"));
}

// ---- The call
// -----------------------------------------------------------------------------------------------------------
template <collective C, class A, class T, class Op>
inline constexpr call_signature signature{
    name_of(C), name_of<A>(), C == collective::barrier ? std::string_view{} : type_name<T>(),
    std::is_same_v<Op, no_operation> ? std::string_view{} : type_name<Op>(), sizeof(T)};

template <collective C, class A, class T, class Op, class Comm>
TUTTI_ALWAYS_INLINE inline call make_call(Comm& comm, std::size_t count, int root, call_site where) {
  return comm.next_call(signature<C, A, T, Op>, count, root, where);
}

/// What a blocking call does after each look in vain: it waits, and what is pending besides goes on meanwhile.
template <class Comm>
struct waiting {
  Comm& comm;
  typename Comm::lane_type& lane;
  bool waited = false;

  bool operator()() {
    waited = true;
    comm.go_on();
    lane.idle();
    if (comm.pending().next() != nullptr) [[unlikely]]
      comm.progress();
    return true;
  }
};

/// A rank that sends along a tree need not wait for its receivers; one that exchanges waits for others anyway.
template <class Comm, class S>
constexpr policy policy_for(int ranks, bool streaming) {
  using transport = typename Comm::transport_type;
  return {transport::pack_bytes, rooted<S> ? transport::copy_bytes : transport::exchange_copy_bytes, ranks == 2,
          streaming};
}

/// To be called where an exception is handled: the call ends for all ranks, with what it says, and it goes on.
template <class Lane>
[[noreturn, gnu::cold, gnu::noinline]] void abandon(Lane& lane) {
  tell_and_rethrow([&](const char* what) { lane.abandon(what); });
}

/// A blocking collective: opens the lane, runs the schedule, and lets nobody touch the caller's memory after it is
/// left, by return or by exception.
///
/// Call and storage are built where they stay: a copy that reads 16 bytes where 8 were just written waits until the
/// stores before it, to lines that other processors hold, have been done.
template <class Comm, class S, class Storage, class Op>
TUTTI_ALWAYS_INLINE inline void run_schedule(Comm& comm, const call& c, const S& schedule, Storage&& storage, Op op,
                                             bool streaming) {
  auto& lane = comm.lane();
  try {
    lane.open(c);
    round_memory<Storage, Op> memory{storage, op, comm.scratch(), policy_for<Comm, S>(comm.size(), streaming),
                                     S::overlapping};
    execution<S, Storage, Op> execution(schedule, comm.place(), memory);
    waiting<Comm> wait{comm, lane};
    execution.advance(lane, wait);
    if (wait.waited) lane.awake();
  } catch (...) {
    abandon(lane);
  }
}

template <class T>
constexpr bool streams(std::size_t count, int ranks) {
  constexpr std::size_t always = streaming_bytes(INT_MAX) / sizeof(T);
  return count >= always && count >= streaming_bytes(ranks) / sizeof(T);
}

}  // namespace tutti::detail
