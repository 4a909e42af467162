// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the tests of all collectives share: on how many ranks, with which algorithms and how many elements they run,
// buffers that show what was written, and findings that name the case.

#include <tutti/tutti.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "collective/launchers.hpp"
#include "deadline.hpp"

namespace conformance {

// ---- The cases ------------------------------------------------------------------------------------------------------

/// Under a sanitizer, which takes ten times as long, fewer of each kind.
inline constexpr std::array all_rank_counts{1, 2, 3, 4, 5, 7, 8, 13, 16};
inline constexpr std::array few_rank_counts{1, 2, 3, 5, 8, 13};
inline constexpr std::span<const int> rank_counts =
    test::sanitized ? std::span<const int>(few_rank_counts) : std::span<const int>(all_rank_counts);

/// A route of the user's own, as good as the library's: thirds instead of halves, two ports, several messages to one
/// peer in a round, and two operands that are folded in one pass.
struct ternary {
  static constexpr std::string_view name = "ternary";
  static constexpr int rounds(int size) {
    int rounds = 0;
    for (int left = size; left > 1; left = (left + 2) / 3) ++rounds;
    return rounds;
  }
  static constexpr int ports(int, int) { return 3; }
  static constexpr tutti::hop entry(int size, int k, int port) {
    int left = size;
    for (int i = 0; i < k; ++i) left = (left + 2) / 3;
    const int third = (left + 2) / 3;
    const int rest = std::max(left - 2 * third, 0);  // what the far port has, folded together with as much of the near
    if (port == 0) return {third, {third, 1, rest}};
    if (port == 1) return {2 * third, {2 * third, 1, rest}};
    return {third, {third + rest, 1, std::min(third, left - third) - rest}};
  }
};
static_assert(tutti::proved<ternary, 1, 64>);

template <class... A>
struct list {};

template <class... A, class... B>
list<A..., B...> joined(list<A...>, list<B...>);

/// At least one of every kind: for tests of types, operations and values.
using representative_algorithms =
    list<tutti::automatic, tutti::flat, tutti::ring, tutti::circulant, tutti::pat, tutti::bruck,
         tutti::hypercube_halving, tutti::hypercube_doubling, tutti::halving_doubling, tutti::recursive_doubling,
         tutti::recursive_multiplying<2>, tutti::recursive_multiplying<4>, tutti::recursive_multiplying<8>,
         tutti::recursive_multiplying<16>, tutti::census, tutti::canonical_halving, tutti::binomial, tutti::k_nomial<4>,
         tutti::chain, tutti::two_tree, tutti::circulant_pipelined, tutti::star, tutti::single_master, tutti::naive,
         tutti::scatter_allgather, tutti::reduce_scatter_gather, tutti::dissemination, ternary>;

/// Every algorithm of the library, templates with some arguments.
using algorithms =
    decltype(joined(representative_algorithms{},
                    list<tutti::bidirectional_ring, tutti::neighbour_exchange, tutti::torus<>,
                         tutti::product<tutti::flat, tutti::circulant>, tutti::k_ary<3>, tutti::bine, tutti::swing>{}));

/// For tests of values, which by a sanitizer are not seen better: it takes long to compile, and runs a few of them. All
/// algorithms run there with one element type each.
template <class Algorithms>
using unless_sanitized =
    std::conditional_t<test::sanitized,
                       list<tutti::automatic, tutti::flat, tutti::circulant, tutti::halving_doubling,
                            tutti::recursive_multiplying<4>, tutti::binomial, tutti::two_tree, tutti::census, ternary>,
                       Algorithms>;

/// Those that have no schedule of their own: they do every collective, keep rank order where they must, and give the
/// same on all ranks.
template <class A>
inline constexpr bool is_any = std::is_same_v<A, tutti::automatic> || std::is_same_v<A, tutti::native>;

template <class A, tutti::collective C>
constexpr bool offers() {
  if constexpr (is_any<A>) {
    return true;
  } else {
    return tutti::implements<A, C>;
  }
}
template <class A, tutti::collective C>
constexpr bool ordered() {
  if constexpr (is_any<A>) {
    return true;
  } else {
    return tutti::schedule_for<C, A>::rank_ordered;
  }
}

/// All ranks fold in the same way.
template <class A, tutti::collective C>
constexpr bool alike() {
  if constexpr (is_any<A>) {
    return true;
  } else {
    return tutti::uniform<tutti::schedule_for<C, A>>;
  }
}

/// `f.template operator()<A>()` for every algorithm A of the list that implements the collective among so many ranks.
template <tutti::collective C, class F, class... A>
void for_each_algorithm(list<A...>, int ranks, F&& f) {
  const auto one = [&]<class B>() {
    if constexpr (offers<B, C>()) {
      if (tutti::supports<B>(ranks)) f.template operator()<B>();
    }
  };
  (one.template operator()<A>(), ...);
}
/// The same for those that may be used with elements T and operation Op.
template <tutti::collective C, class T, class Op, class F, class... A>
void for_each_algorithm_for(list<A...> all, int ranks, F&& f) {
  for_each_algorithm<C>(all, ranks, [&]<class B>() {
    constexpr bool in_order = tutti::is_commutative_v<Op, T> || ordered<B, C>();
    if constexpr (in_order && (C != tutti::collective::allreduce || tutti::is_exact_v<Op, T> || alike<B, C>()))
      f.template operator()<B>();
  });
}

inline std::vector<int> roots(int ranks) {
  std::vector<int> result{0};
  if (ranks > 5) {
    result.push_back(ranks - 1);
  } else {
    for (int root = 1; root < ranks; ++root) result.push_back(root);
  }
  return result;
}

/// Lengths of whole vectors: none, fewer and more than ranks, uneven; then blocks of 2800 bytes, single ones of which
/// are copied and several of which are more than one message; then blocks that are read where they lie.
template <class T>
std::vector<std::size_t> vector_lengths(int ranks) {
  const auto p = static_cast<std::size_t>(ranks);
  const std::set<std::size_t> lengths{
      0, 1, p - 1, p, p + 1, 1003, 2800 / sizeof(T) * p + 1, std::max(p, std::size_t{2}) * (5000 / sizeof(T)) + 3};
  return {lengths.begin(), lengths.end()};
}
/// Lengths of one rank's block, likewise.
template <class T>
std::vector<std::size_t> block_lengths() {
  return {0, 1, 2, 37, 2800 / sizeof(T), 5000 / sizeof(T) + 3};
}

/// From here on vectors are written past the caches.
template <class T>
constexpr std::size_t streaming_length(int ranks) {
  return tutti::streaming_bytes(ranks) / sizeof(T) + 7;
}

// ---- Findings -------------------------------------------------------------------------------------------------------

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream result;
  (result << ... << parts);
  return result.str();
}

template <class T>
std::string shown(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return text(+value);
  } else {
    std::ostringstream result;
    std::array<unsigned char, sizeof(T)> bytes;
    std::memcpy(bytes.data(), &value, sizeof(T));
    result << std::hex;
    for (const unsigned char byte : bytes) result << (byte < 16 ? "0" : "") << static_cast<unsigned>(byte);
    return result.str();
  }
}

/// What one rank finds wrong. It is collected, so that all ranks come to the end of all cases, and thrown there.
class findings {
 public:
  explicit findings(tutti::place at) : at_(at) {}

  /// The case that the following checks belong to.
  template <class... Parts>
  void about(const Parts&... parts) {
    about_ = text(parts...);
  }

  void wrong(const std::string& what) {
    constexpr int shown_at_most = 4;
    if (++count_ <= shown_at_most) list_ += text("\n  rank ", at_.rank, ", ", about_, ": ", what);
  }
  void check(bool right, std::string_view what) {
    if (!right) wrong(std::string(what));
  }

  /// Bitwise.
  template <class T>
  void same(std::string_view what, std::span<const T> got, std::span<const T> expected) {
    if (got.size() != expected.size()) {
      wrong(text(what, " has ", got.size(), " elements, expected ", expected.size()));
    } else if (!got.empty() && std::memcmp(got.data(), expected.data(), got.size_bytes()) != 0) {
      std::size_t i = 0;
      while (std::memcmp(&got[i], &expected[i], sizeof(T)) == 0) ++i;
      wrong(text(what, " has ", shown(got[i]), " at ", i, ", expected ", shown(expected[i])));
    }
  }

  void conclude() const {
    if (count_ != 0) throw std::runtime_error(text(count_, " findings on rank ", at_.rank, list_));
  }

 private:
  tutti::place at_;
  std::string about_;
  std::string list_;
  int count_ = 0;
};

/// Runs `f(comm, findings)` on so many ranks. To be called outside of all ranks; a failure is a failed check there, and
/// what follows goes on. A hang ends too, with a message that says who waits for whom where.
template <class Launcher>
void on_ranks(int ranks, const std::function<void(typename Launcher::communicator&, findings&)>& f) {
  try {
    Launcher::run(ranks, [&](typename Launcher::communicator& comm) {
      comm.timeout(std::chrono::seconds(60));
      findings found(comm.place());
      f(comm, found);
      found.conclude();
    });
  } catch (const std::exception& e) {
    const std::string what = text(Launcher::name, ", ", ranks, " ranks: ", e.what());
    FAIL_CHECK(what);
  }
}

// ---- Buffers --------------------------------------------------------------------------------------------------------

/// A buffer for a collective between elements that must stay as they are. It begins at an odd element, and every byte
/// is 0xA5 until it is written.
template <class T>
class guarded {
 public:
  explicit guarded(std::size_t count, std::size_t before = 1)
      : memory_(count + before + 2), before_(before), count_(count) {
    std::memset(static_cast<void*>(memory_.data()), poison, memory_.size() * sizeof(T));
  }
  /// Filled.
  explicit guarded(std::span<const T> values, std::size_t before = 1) : guarded(values.size(), before) {
    std::copy(values.begin(), values.end(), memory_.begin() + static_cast<std::ptrdiff_t>(before));
  }

  std::span<T> span() { return std::span<T>(memory_).subspan(before_, count_); }
  std::span<const T> values() const { return std::span<const T>(memory_).subspan(before_, count_); }

  /// No byte outside the buffer was written.
  bool intact() const { return poisoned(0, before_) && poisoned(before_ + count_, memory_.size()); }
  /// Nothing was written at all.
  bool untouched() const { return poisoned(0, memory_.size()); }

 private:
  static constexpr int poison = 0xA5;

  bool poisoned(std::size_t begin, std::size_t end) const {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(memory_.data());
    return std::all_of(bytes + begin * sizeof(T), bytes + end * sizeof(T),
                       [](unsigned char byte) { return byte == poison; });
  }

  std::vector<T> memory_;
  std::size_t before_;
  std::size_t count_;
};

/// An output must hold what is expected, an input what it held before; neither may have been left.
template <class T>
void check_output(findings& found, const guarded<T>& buffer, std::span<const T> expected) {
  found.same("the output", buffer.values(), expected);
  found.check(buffer.intact(), "the output was written outside its bounds");
}
template <class T>
void check_input(findings& found, const guarded<T>& buffer, std::span<const T> original) {
  found.same("the input", buffer.values(), original);
  found.check(buffer.intact(), "the input was written outside its bounds");
}

}  // namespace conformance
