// SPDX-License-Identifier: BSL-1.0

// What may be handed to a collective: which ranges, which elements, which operations.

#include <tutti/tutti.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"

namespace {

using namespace conformance;

/// One algorithm of each way to send and to fold.
using few =
    list<tutti::automatic, tutti::circulant, tutti::bruck, tutti::halving_doubling, tutti::recursive_doubling, ternary>;

/// A buffer of the user's own: a contiguous range that knows its size, and nothing else.
class own_buffer {
 public:
  explicit own_buffer(std::vector<int> values) : values_(std::move(values)) {}
  int* data() { return values_.data(); }
  const int* data() const { return values_.data(); }
  std::size_t size() const { return values_.size(); }
  int* begin() { return data(); }
  int* end() { return data() + size(); }
  const int* begin() const { return data(); }
  const int* end() const { return data() + size(); }

 private:
  std::vector<int> values_;
};

enum class colour : std::uint8_t { red, green, blue };

/// Bigger than anything that is copied or folded in one piece.
struct page {
  std::array<std::uint32_t, 1500> words;
};

/// Aligned as no message on its way needs to be.
template <std::size_t Alignment>
struct alignas(Alignment) aligned {
  std::array<unsigned char, Alignment> bytes;
};

/// Whether every rank's elements are folded at addresses that suit them.
template <class T>
struct careful_sum {
  T operator()(const T& a, const T& b) const {
    if (reinterpret_cast<std::uintptr_t>(&a) % alignof(T) != 0 ||
        reinterpret_cast<std::uintptr_t>(&b) % alignof(T) != 0) {
      throw std::logic_error("an operand is not aligned");
    }
    T sum;
    for (std::size_t i = 0; i < sizeof(T); ++i) sum.bytes[i] = static_cast<unsigned char>(a.bytes[i] + b.bytes[i]);
    return sum;
  }
};

template <class T>
T numbered(int rank, std::size_t i) {
  T result;
  for (std::size_t b = 0; b < sizeof(T); ++b)
    result.bytes[b] = static_cast<unsigned char>(noise(static_cast<std::size_t>(rank), i, b));
  return result;
}

template <class A, class T>
void check_alignment(auto& comm, findings& found) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{5}, std::size_t{40}, std::size_t{700}}) {
    found.about("allreduce<", tutti::name_of<A>(), "> of ", n, " x ", tutti::type_name<T>());
    std::vector<T> data, expected;
    for (std::size_t i = 0; i < n; ++i) {
      data.push_back(numbered<T>(comm.rank(), i));
      T sum = numbered<T>(0, i);
      for (int rank = 1; rank < comm.size(); ++rank) sum = careful_sum<T>{}(sum, numbered<T>(rank, i));
      expected.push_back(sum);
    }
    std::vector<T> apart(n);
    tutti::allreduce<A>(comm, data, apart, tutti::commutative(careful_sum<T>{}));
    found.same("the sum", std::span<const T>(apart), std::span<const T>(expected));
    tutti::allreduce<A>(comm, data, tutti::commutative(careful_sum<T>{}));
    found.same("the sum in place", std::span<const T>(data), std::span<const T>(expected));
  }
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("every contiguous range that knows its size is a buffer", Launcher, ranges) {
  on_ranks<Launcher>(3, [](auto& comm, findings& found) {
    found.about("ranges");
    const int sum = 0 + 1 + 2;
    std::vector<int> a_vector(4, comm.rank());
    tutti::allreduce(comm, a_vector, std::plus<>{});
    found.check(a_vector == std::vector<int>(4, sum), "vector");

    std::array<int, 4> an_array;
    an_array.fill(comm.rank());
    tutti::allreduce(comm, an_array, std::plus<>{});
    found.check(an_array == std::array<int, 4>{sum, sum, sum, sum}, "array");

    int plain[4] = {comm.rank(), comm.rank(), comm.rank(), comm.rank()};
    tutti::allreduce(comm, plain, std::plus<>{});
    found.check(plain[0] == sum && plain[3] == sum, "built-in array");

    own_buffer mine({comm.rank(), comm.rank()});
    tutti::allreduce(comm, mine, std::plus<>{});
    found.check(mine.data()[0] == sum && mine.data()[1] == sum, "a type of one's own");

    std::string text = comm.rank() == 1 ? "all together" : "............";
    tutti::broadcast(comm, text, 1);
    found.check(text == "all together", "string");

    // An array of size 0 and an empty vector agree.
    std::array<int, 0> nothing;
    tutti::allreduce(comm, nothing, std::plus<>{});
    std::vector<int> empty;
    if (comm.rank() == 0) {
      tutti::allreduce(comm, nothing, std::plus<>{});
    } else {
      tutti::allreduce(comm, empty, std::plus<>{});
    }
  });
}
TEST_CASE_TEMPLATE_APPLY(ranges, launchers);

TEST_CASE_TEMPLATE_DEFINE("spans are buffers, named or not, const or not, of fixed size or not", Launcher, spans) {
  on_ranks<Launcher>(3, [](auto& comm, findings& found) {
    found.about("spans");
    std::vector<int> data(10, comm.rank());
    tutti::allreduce(comm, std::span(data).subspan(1, 3), std::plus<>{});
    found.check(data[0] == comm.rank() && data[1] == 3 && data[3] == 3 && data[4] == comm.rank(), "part of a vector");
    const std::span<int> constant(data.data() + 4, 2);
    tutti::allreduce(comm, constant, std::plus<>{});
    found.check(data[4] == 3 && data[5] == 3 && data[6] == comm.rank(), "a constant span of elements that are not");
    tutti::allreduce(comm, std::span<int, 2>(data.data() + 6, 2), std::plus<>{});
    found.check(data[6] == 3 && data[7] == 3 && data[8] == comm.rank(), "a span of fixed size");
    // What is returned in place is a span into the buffer, whatever the buffer is.
    std::array<int, 6> blocks{0, 1, 2, 3, 4, 5};
    const std::span<int> own = tutti::reduce_scatter(comm, blocks, std::plus<>{});
    static_assert(std::is_same_v<decltype(tutti::scatter(comm, blocks, 0)), std::span<int>>);
    found.check(own.size() == 2 && own.data() == blocks.data() + 2 * comm.rank(), "the block that is returned");
    found.check(own[0] == 3 * 2 * comm.rank() && own[1] == 3 * (2 * comm.rank() + 1), "what it holds");
  });
}
TEST_CASE_TEMPLATE_APPLY(spans, launchers);

TEST_CASE_TEMPLATE_DEFINE("inputs may be constant and may be of another kind than outputs", Launcher, inputs) {
  on_ranks<Launcher>(2, [](auto& comm, findings& found) {
    found.about("inputs");
    const std::vector<int> constant{1, 2, 3, 4};
    std::array<int, 4> out{};
    tutti::allreduce(comm, constant, out, std::plus<>{});
    found.check(out == std::array<int, 4>{2, 4, 6, 8}, "a constant vector");
    tutti::allreduce(comm, std::span<const int>(constant), std::span<int>(out), std::plus<>{});
    found.check(out == std::array<int, 4>{2, 4, 6, 8}, "a span of constants");
    static constexpr int table[] = {5, 6, 7, 8};
    std::vector<int> more(4);
    tutti::alltoall(comm, table, more);
    found.check(more == (comm.rank() == 0 ? std::vector{5, 6, 5, 6} : std::vector{7, 8, 7, 8}), "a table of constants");
    const std::string_view letters = comm.rank() == 0 ? "ab" : "cd";
    std::string all(4, '.');
    tutti::allgather(comm, letters, all);
    found.check(all == "abcd", "a string view");
    const std::vector<char> none;
    std::string gathered(comm.rank() == 1 ? 4 : 0, '.');
    tutti::gather(comm, letters, gathered, 1);
    found.check(gathered == (comm.rank() == 1 ? "abcd" : ""), "an empty output where it is ignored");
    std::array<char, 2> part{};
    if (comm.rank() == 1) {
      tutti::scatter(comm, gathered, part, 1);
    } else {
      tutti::scatter(comm, none, part, 1);
    }
    found.check(part[0] == letters[0] && part[1] == letters[1], "an empty input where it is ignored");
  });
}
TEST_CASE_TEMPLATE_APPLY(inputs, launchers);

TEST_CASE_TEMPLATE_DEFINE("elements are anything that is trivially copyable", Launcher, elements) {
  on_ranks<Launcher>(3, [](auto& comm, findings& found) {
    found.about("elements");
    std::array<bool, 5> flags{};
    flags[static_cast<std::size_t>(comm.rank())] = true;
    auto all = flags;
    tutti::allreduce<tutti::flat>(comm, flags, std::logical_or<>{});
    found.check(flags == std::array<bool, 5>{true, true, true, false, false}, "bool");
    tutti::allreduce<tutti::flat>(comm, all, std::logical_and<>{});
    found.check(all == std::array<bool, 5>{}, "bool");

    std::vector<colour> colours(100, comm.rank() == 2 ? colour::blue : colour::red);
    tutti::broadcast(comm, colours, 2);
    found.check(colours == std::vector<colour>(100, colour::blue), "enumeration");
    tutti::allreduce<tutti::flat>(comm, colours, [](colour a, colour b) { return a < b ? a : b; });
    found.check(colours == std::vector<colour>(100, colour::blue), "enumeration");

    std::vector<std::byte> bytes(5000, static_cast<std::byte>(1 << comm.rank()));
    tutti::allreduce<tutti::flat>(comm, bytes, tutti::commutative(std::bit_or<>{}));
    found.check(bytes == std::vector<std::byte>(5000, std::byte{7}), "std::byte");

    std::vector<long double> wide(300, 0.5L);
    tutti::allreduce<tutti::flat>(comm, wide, std::plus<>{});
    found.check(wide == std::vector<long double>(300, 1.5L), "long double");

    std::vector<std::array<short, 3>> arrays(7, {1, 2, 3});
    tutti::allreduce<tutti::flat>(comm, arrays, [](const auto& a, const auto& b) {
      return std::array<short, 3>{static_cast<short>(a[0] + b[0]), static_cast<short>(a[1] + b[1]), b[2]};
    });
    found.check(arrays == std::vector<std::array<short, 3>>(7, {3, 6, 3}), "array of short");

    int here = 0;
    std::vector<const int*> pointers(3, &here);
    tutti::broadcast(comm, pointers, 0);
    found.check(comm.rank() != 0 || pointers[2] == &here, "pointer");
  });
}
TEST_CASE_TEMPLATE_APPLY(elements, launchers);

TEST_CASE_TEMPLATE_DEFINE("elements may be longer than any piece that is copied or folded at once", Launcher, pages) {
  for (const int ranks : {2, 3, 5}) {
    on_ranks<Launcher>(ranks, [](auto& comm, findings& found) {
      found.about("pages of 6000 bytes");
      std::vector<page> data(7);
      for (page& p : data) p.words.fill(static_cast<std::uint32_t>(comm.rank() + 1));
      const auto add_pages = [](const page& a, const page& b) {
        page sum;
        for (std::size_t i = 0; i < 1500; ++i) sum.words[i] = a.words[i] * 10 + b.words[i];
        return sum;
      };
      tutti::allreduce<tutti::flat>(comm, data, add_pages);
      std::uint32_t expected = 1;
      for (int rank = 1; rank < comm.size(); ++rank) expected = expected * 10 + static_cast<std::uint32_t>(rank + 1);
      for (const page& p : data) found.check(p.words[0] == expected && p.words[1499] == expected, "a sum is wrong");
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(pages, launchers);

TEST_CASE_TEMPLATE_DEFINE("operands are aligned as their type asks", Launcher, alignments) {
  for (const int ranks : {2, 3, 4, 7}) {
    on_ranks<Launcher>(ranks, [ranks](auto& comm, findings& found) {
      for_each_algorithm<tutti::collective::allreduce>(
          few{}, ranks, [&]<class A>() { check_alignment<A, aligned<64>>(comm, found); });
      check_alignment<tutti::automatic, aligned<16>>(comm, found);
      check_alignment<tutti::automatic, aligned<32>>(comm, found);
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(alignments, launchers);

TEST_CASE_TEMPLATE_DEFINE("an operation is taken by value, with what it carries", Launcher, operations) {
  on_ranks<Launcher>(4, [](auto& comm, findings& found) {
    found.about("operations");
    // Sums modulo a number that is known only now.
    const int modulus = comm.size() + 3;
    std::vector<int> data(3000, comm.rank() + 5);
    tutti::allreduce<tutti::flat>(comm, data,
                                  tutti::commutative([modulus](int a, int b) { return (a + b) % modulus; }));
    found.check(data == std::vector<int>(3000, (5 + 6 + 7 + 8) % modulus), "a lambda with a capture");

    struct counting {
      int calls = 0;
      int operator()(int a, int b) {
        ++calls;
        return a + b;
      }
    };
    counting op;
    std::vector<int> ones(10, 1);
    tutti::allreduce<tutti::flat>(comm, ones, op);
    found.check(ones == std::vector<int>(10, 4), "an operation that counts");
    found.check(op.calls == 0, "the caller's operation was used, not a copy");
    int calls = 0;
    tutti::allreduce<tutti::naive>(comm, ones, [&calls](int a, int b) {
      ++calls;
      return a + b;
    });
    found.check(calls == 3 * 10, text("folding four vectors of ten called the operation ", calls, " times"));

    int (*const function)(int, int) = [](int a, int b) { return a * b; };
    std::vector<int> factors(4, 2);
    tutti::allreduce<tutti::flat>(comm, factors, function);
    found.check(factors == std::vector<int>(4, 16), "a pointer to a function");
    std::vector<int> third(4, 3);
    tutti::reduce<tutti::star>(comm, third, std::function<int(int, int)>(function), 2);
    found.check(third == std::vector<int>(4, comm.rank() == 2 ? 81 : 3), "a std::function");
    // What comes of it need only convert.
    std::vector<char> letters(5, 'a');
    tutti::allreduce<tutti::flat>(comm, letters, [](char a, char) -> int { return a; });
    found.check(letters == std::vector<char>(5, 'a'), "an operation that gives int");
  });
}
TEST_CASE_TEMPLATE_APPLY(operations, launchers);

TEST_CASE_TEMPLATE_DEFINE("words are joined in the order of ranks", Launcher, words) {
  // The operation of F9: "left,right". Elements are short texts; joining is associative and does not commute.
  struct word {
    std::array<char, 40> letters{};
  };
  const auto join = [](const word& a, const word& b) {
    word joined = a;
    std::size_t end = 0;
    while (joined.letters[end] != 0) ++end;
    joined.letters[end++] = ',';
    for (std::size_t i = 0; b.letters[i] != 0; ++i) joined.letters[end++] = b.letters[i];
    return joined;
  };
  for (const int ranks : rank_counts) {
    on_ranks<Launcher>(ranks, [ranks, join](auto& comm, findings& found) {
      std::string expected = "a";
      for (int rank = 1; rank < ranks; ++rank) expected += std::string(",") + static_cast<char>('a' + rank);
      word mine;
      mine.letters[0] = static_cast<char>('a' + comm.rank());
      for_each_algorithm_for<tutti::collective::allreduce, word, decltype(join)>(few{}, ranks, [&]<class A>() {
        found.about("allreduce<", tutti::name_of<A>(), "> of words");
        std::array<word, 3> data{mine, mine, mine};
        tutti::allreduce<A>(comm, data, join);
        for (const word& w : data) found.check(std::string(w.letters.data()) == expected, w.letters.data());
      });
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(words, launchers);
