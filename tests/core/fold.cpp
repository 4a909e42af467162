// SPDX-License-Identifier: BSL-1.0
#include <tutti/core/fold.hpp>
#include <tutti/core/operation.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace {

// Ends of loops, of chunks and of lines.
constexpr std::array<std::size_t, 20> lengths{0,  1,  2,  3,   4,    5,    7,    15,   16,   17,
                                              63, 64, 65, 127, 1023, 1024, 1025, 2048, 4099, 9001};

/// 2x2 matrices of integers modulo 2^32: their product is associative and does not commute.
struct matrix {
  std::uint32_t a, b, c, d;
  friend matrix operator*(const matrix& x, const matrix& y) {
    return {x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
  }
};
struct wide {  // longer than a chunk of partial results
  std::uint32_t words[1500];
};
struct join_words {
  wide operator()(const wide& x, const wide& y) const {
    wide result;
    for (std::size_t i = 0; i < 1500; ++i) result.words[i] = x.words[i] * 31 + y.words[i];
    return result;
  }
};

std::uint32_t noise(std::size_t a, std::size_t b) {
  std::uint64_t x = (a + 1) * 0x9E3779B97F4A7C15ULL + (b + 1) * 0xC2B2AE3D27D4EB4FULL;
  x = (x ^ (x >> 29)) * 0xD6E8FEB86659FD93ULL;
  return static_cast<std::uint32_t>(x >> 32);
}
template <class T>
T sample(std::size_t source, std::size_t i) {
  if constexpr (std::is_same_v<T, matrix>) {
    return {noise(source, 4 * i), noise(source, 4 * i + 1), noise(source, 4 * i + 2), noise(source, 4 * i + 3)};
  } else if constexpr (std::is_same_v<T, wide>) {
    T result;
    for (std::size_t w = 0; w < 1500; ++w) result.words[w] = noise(source, 1500 * i + w);
    return result;
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(noise(source, i)) / T{7} - T{1e8};  // sums round, so order shows
  } else {
    return static_cast<T>(noise(source, i));
  }
}

template <class T>
bool equal(const T* a, const T* b, std::size_t n) {
  return n == 0 || std::memcmp(a, b, n * sizeof(T)) == 0;
}

/// The fold of 2 to 9 sources with the result apart from them or in place of any one of them, past the caches or not.
template <class T, class Op>
void check_fold(Op op, std::size_t longest) {
  for (int sources = 2; sources <= 9; ++sources) {
    for (const std::size_t n : lengths) {
      if (n > longest) continue;
      std::vector<std::vector<T>> original(static_cast<std::size_t>(sources));
      for (std::size_t s = 0; s < original.size(); ++s) {
        // One more on either side: it must stay, and makes the sources lie at odd places.
        for (std::size_t i = 0; i < n + 2; ++i) original[s].push_back(sample<T>(s, i));
      }
      std::vector<T> expected(original[0].begin() + 1, original[0].end() - 1);
      for (std::size_t s = 1; s < original.size(); ++s) {
        for (std::size_t i = 0; i < n; ++i) expected[i] = static_cast<T>(op(expected[i], original[s][i + 1]));
      }
      for (const bool streaming : {false, true}) {
        for (int place = -1; place < sources; ++place) {
          CAPTURE(sources);
          CAPTURE(n);
          CAPTURE(streaming);
          CAPTURE(place);
          auto data = original;
          std::vector<T> apart(n + 2, sample<T>(99, 0));
          std::vector<T>& out = place < 0 ? apart : data[static_cast<std::size_t>(place)];
          const std::vector<T> before = out;
          std::vector<const T*> from;
          for (auto& d : data) from.push_back(d.data() + 1);
          tutti::fold_all(out.data() + 1, from.data(), sources, n, op, streaming);
          CHECK(equal(out.data() + 1, expected.data(), n));
          CHECK(equal(out.data(), before.data(), 1));
          CHECK(equal(out.data() + n + 1, before.data() + n + 1, 1));
          for (std::size_t s = 0; s < data.size(); ++s) {
            if (static_cast<int>(s) != place) CHECK(equal(data[s].data(), original[s].data(), n + 2));
          }
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("a fold is the left fold of its sources: float") { check_fold<float>(std::plus<>{}, 9001); }
TEST_CASE("a fold is the left fold of its sources: double") { check_fold<double>(std::plus<>{}, 1025); }
TEST_CASE("a fold is the left fold of its sources: unsigned char") {
  check_fold<unsigned char>(std::plus<>{}, 9001);
  check_fold<unsigned char>(std::minus<>{}, 127);
}
TEST_CASE("a fold is the left fold of its sources: an operation that does not commute") {
  check_fold<matrix>(std::multiplies<>{}, 1025);
}
TEST_CASE("a fold is the left fold of its sources: elements longer than a chunk") { check_fold<wide>(join_words{}, 5); }

TEST_CASE("a fold is written to each vector, to its own source or elsewhere, past the caches or not") {
  constexpr int vectors = 3;
  constexpr std::size_t guard = 0xABCDEF;
  for (const std::size_t n : lengths) {
    for (int in_place = 0; in_place < 8; ++in_place) {
      for (const bool streaming : {false, true}) {
        CAPTURE(n);
        CAPTURE(in_place);
        CAPTURE(streaming);
        // They begin one element after a line, or two, or three, and end before one that must stay.
        std::vector<std::vector<std::uint32_t>> in(vectors), out(vectors);
        const std::uint32_t* source[vectors];
        std::uint32_t* to[vectors];
        for (std::size_t v = 0; v < vectors; ++v) {
          in[v].resize(n + v + 2, guard);
          out[v].resize(n + v + 2, guard);
          for (std::size_t i = 0; i < n; ++i) in[v][v + 1 + i] = noise(v, i);
          source[v] = in[v].data() + v + 1;
          to[v] = ((in_place >> v & 1) != 0 ? in[v] : out[v]).data() + v + 1;
        }
        std::plus<> add;
        tutti::fold_to_each<vectors>(static_cast<std::uint32_t* const*>(to),
                                     static_cast<const std::uint32_t* const*>(source), vectors, in_place % vectors, n,
                                     add, streaming);
        for (std::size_t v = 0; v < vectors; ++v) {
          bool right = to[v][-1] == guard && to[v][n] == guard;
          for (std::size_t i = 0; i < n; ++i) right &= to[v][i] == noise(0, i) + noise(1, i) + noise(2, i);
          CHECK(right);
        }
      }
    }
  }
}

TEST_CASE("the operation's own state is used, not a copy") {
  struct counting {
    int calls = 0;
    int operator()(int a, int b) {
      ++calls;
      return a + b;
    }
  };
  counting op;
  const std::vector<int> a(100, 1), b(100, 2), c(100, 3);
  std::vector<int> out(100);
  const int* const sources[] = {a.data(), b.data(), c.data()};
  tutti::fold_all(out.data(), sources, 3, 100, op, false);
  CHECK(op.calls == 200);
  CHECK(out == std::vector<int>(100, 6));
}

TEST_CASE("what an operation throws comes out, and nothing beyond is written") {
  struct fussy {
    int operator()(int a, int b) const { return b == 13 ? throw std::runtime_error("thirteen") : a + b; }
  };
  fussy op;
  std::vector<int> out(200, -1), a(200, 1), b(200, 2);
  b[150] = 13;
  const int* const sources[] = {a.data(), b.data()};
  CHECK_THROWS_WITH(tutti::fold_all(out.data(), sources, 2, 200, op, false), "thirteen");
  CHECK(out[199] == -1);
}

TEST_CASE("copies are whole and stay within their bounds, wherever they begin") {
  for (const bool streaming : {false, true}) {
    for (const std::size_t n : lengths) {
      for (std::size_t shift = 0; shift < 17; ++shift) {
        CAPTURE(streaming);
        CAPTURE(n);
        CAPTURE(shift);
        std::vector<unsigned char> from(n + 40), to(n + 40, 0xA5);
        for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(noise(1, i));
        tutti::copy_elements(to.data() + shift, from.data() + 3, n, streaming);
        CHECK(equal(to.data() + shift, from.data() + 3, n));
        for (std::size_t i = 0; i < shift; ++i) CHECK(to[i] == 0xA5);
        for (std::size_t i = n + shift; i < to.size(); ++i) CHECK(to[i] == 0xA5);
      }
    }
  }
}

TEST_CASE("a copy onto itself and a copy of nothing are allowed") {
  std::vector<int> data{1, 2, 3};
  tutti::copy_elements(data.data(), data.data(), 3, false);
  tutti::copy_elements(data.data(), data.data(), 3, true);
  tutti::copy_elements<int>(nullptr, nullptr, 0, false);
  tutti::copy_elements<int>(nullptr, nullptr, 0, true);
  CHECK(data == std::vector<int>{1, 2, 3});
}
