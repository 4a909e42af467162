// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/place.hpp>

#include <array>
#include <climits>
#include <cstddef>
#include <optional>

namespace tutti {

/// Ranks on a grid of D dimensions: which rank is where, and who is next to whom. Pure arithmetic: it holds no
/// communicator, and may be asked about any rank. Each dimension is either periodic (a ring, in which the last position
/// is next to the first) or ends: a mesh, a torus, or a cylinder.
///
/// Ranks count the last dimension fastest, as in MPI and as a C array lies in memory.
template <int D>
class cartesian {
  static_assert(D >= 1, "tutti: a grid has at least one dimension");
  static constexpr auto dimensions = static_cast<std::size_t>(D);

 public:
  using position = std::array<int, dimensions>;

  /// Throws `usage_error` if an extent is below 1 or there are more positions than an int counts.
  constexpr cartesian(const position& extents, const std::array<bool, dimensions>& periodic)
      : extents_(extents), periodic_(periodic) {
    long long size = 1;
    for (std::size_t d = 0; d < dimensions; ++d) {
      if (extents[d] < 1) refuse("extent", extents[d], "must be at least 1");
      size *= extents[d];
      if (size > INT_MAX) refuse("number of ranks", size, "must be at most that of an int");
    }
    size_ = static_cast<int>(size);
  }
  /// No dimension is periodic.
  static constexpr cartesian mesh(const position& extents) { return {extents, filled(false)}; }
  /// All are.
  static constexpr cartesian torus(const position& extents) { return {extents, filled(true)}; }

  constexpr int size() const { return size_; }
  constexpr const position& extents() const { return extents_; }
  constexpr bool periodic(int dimension) const { return periodic_[checked(dimension)]; }

  /// Where the rank is: each coordinate in `[0, extent)`. Throws `usage_error` if the rank is not in `[0, size)`.
  constexpr position coordinates(int rank) const {
    if (rank < 0 || rank >= size_) refuse("rank", rank, "is not on the grid");
    position at{};
    for (std::size_t d = dimensions; d-- > 0;) {
      at[d] = rank % extents_[d];
      rank /= extents_[d];
    }
    return at;
  }

  /// Who is there. Coordinates of a periodic dimension may be any number; beyond the end of another there is nobody.
  constexpr std::optional<int> rank_of(const position& at) const {
    int rank = 0;
    for (std::size_t d = 0; d < dimensions; ++d) {
      if (!periodic_[d] && (at[d] < 0 || at[d] >= extents_[d])) return std::nullopt;
      rank = rank * extents_[d] + modulo(at[d], extents_[d]);
    }
    return rank;
  }

  /// With whom a rank exchanges where all send along one dimension.
  struct partners {
    std::optional<int> source;       ///< whose data comes to this rank
    std::optional<int> destination;  ///< to whom its own goes
    friend constexpr bool operator==(const partners&, const partners&) = default;
  };
  /// All ranks send to the one that is `distance` further along the dimension, which may be negative:
  /// `sendrecv(comm, p.destination, out, p.source, in)`.
  constexpr partners shift(int rank, int dimension, int distance) const {
    return {moved(rank, dimension, -static_cast<long long>(distance)), moved(rank, dimension, distance)};
  }

  /// The ranks next to one: of dimension d, `[2 * d]` is the one below and `[2 * d + 1]` the one above. In a ring of
  /// two these are the same rank, in a ring of one the rank itself.
  constexpr std::array<std::optional<int>, 2 * dimensions> neighbours(int rank) const {
    std::array<std::optional<int>, 2 * dimensions> next{};
    for (int d = 0; d < D; ++d) {
      next[2 * static_cast<std::size_t>(d)] = moved(rank, d, -1);
      next[2 * static_cast<std::size_t>(d) + 1] = moved(rank, d, 1);
    }
    return next;
  }

  /// What `split` is told to make a communicator of each line of ranks along a dimension.
  struct line_place {
    int color;  ///< the same for the ranks of one line, which differ in that coordinate alone: the first of them
    int key;    ///< the position on the line
    friend constexpr bool operator==(const line_place&, const line_place&) = default;
  };
  constexpr line_place line(int rank, int dimension) const {
    const std::size_t d = checked(dimension);
    position at = coordinates(rank);
    const int key = at[d];
    at[d] = 0;
    return {*rank_of(at), key};
  }

 private:
  static constexpr std::array<bool, dimensions> filled(bool value) {
    std::array<bool, dimensions> all{};
    for (bool& each : all) each = value;
    return all;
  }
  [[noreturn, gnu::noinline, gnu::cold]] static void refuse(const char* what, long long value, const char* why) {
    throw usage_error(message() << "a grid of " << D << " dimensions: " << what << " " << value << " " << why);
  }
  static constexpr std::size_t checked(int dimension) {
    if (dimension < 0 || dimension >= D) refuse("dimension", dimension, "is none of them");
    return static_cast<std::size_t>(dimension);
  }
  constexpr std::optional<int> moved(int rank, int dimension, long long distance) const {
    const std::size_t d = checked(dimension);
    position at = coordinates(rank);
    const long long there = at[d] + distance;
    if (!periodic_[d] && (there < 0 || there >= extents_[d])) return std::nullopt;
    const long long rest = there % extents_[d];
    at[d] = static_cast<int>(rest < 0 ? rest + extents_[d] : rest);
    return rank_of(at);
  }

  position extents_;
  std::array<bool, dimensions> periodic_;
  int size_ = 1;
};

namespace detail {

/// Writes `size` as a product of so many factors, none above `limit` nor above the one before it; false if there is
/// none. The first factor is as small as can be, then the second, and so on.
constexpr bool balance(int size, int* factors, int count, int limit) {
  if (count == 1) {
    factors[0] = size;
    return size <= limit;
  }
  const auto fits = [&](int factor) {
    if (factor > limit || !balance(size / factor, factors + 1, count - 1, factor)) return false;
    factors[0] = factor;
    return true;
  };
  int divisor = 1;
  for (; divisor <= size / divisor; ++divisor)
    if (size % divisor == 0 && fits(divisor)) return true;
  for (--divisor; divisor >= 1; --divisor)
    if (size % divisor == 0 && fits(size / divisor)) return true;
  return false;
}
[[noreturn, gnu::noinline, gnu::cold]] inline void refuse_extents(int size) {
  throw usage_error(message() << "balanced_extents: number of ranks is " << size << ", must be at least 1");
}

}  // namespace detail

/// The extents of a grid of D dimensions on which `size` ranks stand, as near to each other as can be: the largest
/// first, and that as small as possible, then the second, and so on (MPI_Dims_create). Throws `usage_error` if
/// `size < 1`.
template <int D>
constexpr std::array<int, static_cast<std::size_t>(D)> balanced_extents(int size) {
  static_assert(D >= 1, "tutti: a grid has at least one dimension");
  if (size < 1) detail::refuse_extents(size);
  std::array<int, static_cast<std::size_t>(D)> extents{};
  detail::balance(size, extents.data(), D, size);
  return extents;
}

}  // namespace tutti
