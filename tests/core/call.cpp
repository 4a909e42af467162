// SPDX-License-Identifier: BSL-1.0
#include <tutti/core/call.hpp>
#include <tutti/core/type_name.hpp>

#include <doctest/doctest.h>

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace somewhere {
struct thing {};
template <class T, int N>
struct holder {};
}  // namespace somewhere

namespace {

constexpr tutti::call_signature reference{"allreduce", "ring", "float", "std::plus<void>", 4};

tutti::call call_of(const tutti::call_signature& signature) { return {&signature, 7, 0, 100, 2, {"main.cpp", 12}}; }

}  // namespace

TEST_CASE("every field of a call changes its fingerprint, the call site does not") {
  static constexpr tutti::call_signature other_collective{"reduce", "ring", "float", "std::plus<void>", 4};
  static constexpr tutti::call_signature other_algorithm{"allreduce", "flat", "float", "std::plus<void>", 4};
  static constexpr tutti::call_signature other_type{"allreduce", "ring", "int", "std::plus<void>", 4};
  static constexpr tutti::call_signature other_operation{"allreduce", "ring", "float", "tutti::maximum", 4};
  static constexpr tutti::call_signature other_size{"allreduce", "ring", "float", "std::plus<void>", 8};
  // Text that moves from one field to the next is another text.
  static constexpr tutti::call_signature moved_text{"allreducer", "ing", "float", "std::plus<void>", 4};

  std::set<std::uint64_t> fingerprints{call_of(reference).fingerprint()};
  std::set<std::uint64_t> marks{call_of(reference).mark()};
  for (const auto* signature :
       {&other_collective, &other_algorithm, &other_type, &other_operation, &other_size, &moved_text}) {
    CHECK(signature->hash != reference.hash);
    CHECK(fingerprints.insert(call_of(*signature).fingerprint()).second);
    CHECK(marks.insert(call_of(*signature).mark()).second);
  }
  tutti::call c = call_of(reference);
  c.sequence = 8;
  CHECK(fingerprints.insert(c.fingerprint()).second);
  c = call_of(reference);
  c.history = 1;  // of the calls before
  CHECK(fingerprints.insert(c.fingerprint()).second);
  CHECK(marks.insert(c.mark()).second);
  c = call_of(reference);
  c.count = 101;
  CHECK(fingerprints.insert(c.fingerprint()).second);
  CHECK(marks.insert(c.mark()).second);
  c = call_of(reference);
  c.root = -1;
  CHECK(fingerprints.insert(c.fingerprint()).second);
  CHECK(marks.insert(c.mark()).second);
  c = call_of(reference);
  c.where = {"other.cpp", 99};
  CHECK(c.fingerprint() == call_of(reference).fingerprint());
  CHECK(c.mark() == call_of(reference).mark());
}

TEST_CASE("marks of near calls all differ, and so do those of the same calls in another order") {
  std::set<std::uint64_t> marks;
  std::size_t calls = 0;
  for (std::uint64_t history = 0; history <= 40; ++history) {
    for (std::size_t count = 0; count <= 40; ++count) {
      for (int root = -1; root <= 40; ++root) {
        marks.insert(tutti::call{&reference, 1, history, count, root, {}}.mark());
        ++calls;
      }
    }
  }
  // Two different sums of history and call may meet, but no two calls after one history, nor one after two.
  CHECK(marks.size() > calls / 50);
  for (std::uint64_t history : {std::uint64_t{0}, std::uint64_t{77}, UINT64_MAX}) {
    std::set<std::uint64_t> of_history;
    std::size_t made = 0;
    for (std::size_t count = 0; count <= 2000; ++count) {
      for (int root = -1; root <= 40; ++root, ++made)
        of_history.insert(tutti::call{&reference, 1, history, count, root, {}}.mark());
    }
    CHECK(of_history.size() == made);
  }
  const auto after = [](std::uint64_t history, std::size_t count) {
    return tutti::call{&reference, 1, history, count, -1, {}}.mark();
  };
  std::set<std::uint64_t> pairs;
  for (std::size_t one = 0; one < 100; ++one)
    for (std::size_t other = 0; other < 100; ++other) pairs.insert(after(after(0, one), other));
  CHECK(pairs.size() == 10'000);
}

TEST_CASE("fingerprints of many near calls all differ") {
  std::set<std::uint64_t> fingerprints;
  std::size_t calls = 0;
  for (std::uint64_t sequence = 1; sequence <= 40; ++sequence) {
    for (std::size_t count = 0; count <= 40; ++count) {
      for (int root = -1; root <= 40; ++root) {
        fingerprints.insert(tutti::call{&reference, sequence, 0, count, root, {}}.fingerprint());
        ++calls;
      }
    }
  }
  for (int bit = 7; bit < 64; ++bit) {
    fingerprints.insert(tutti::call{&reference, 1, 0, std::size_t{1} << bit, -1, {}}.fingerprint());
    ++calls;
  }
  CHECK(fingerprints.size() == calls);
}

TEST_CASE("a fingerprint is known at compile time and counts are of full width") {
  static_assert(tutti::call{&reference, 1, 0, 1, -1, {}}.fingerprint() != 0);
  static_assert(std::same_as<decltype(tutti::call::count), std::size_t>);
  static_assert(tutti::call{&reference, 1, 0, 1, -1, {}}.fingerprint() !=
                tutti::call{&reference, 1, 0, (std::size_t{1} << 32) + 1, -1, {}}.fingerprint());
}

TEST_CASE("a call describes itself in words") {
  const std::string words = call_of(reference).describe();
  for (const std::string_view part :
       {"allreduce", "100", "float", "std::plus<void>", "root 2", "ring", "7", "main.cpp:12"}) {
    CAPTURE(words);
    CAPTURE(part);
    CHECK(words.find(part) != std::string::npos);
  }
}

TEST_CASE("both ends of a message have one fingerprint, and each describes itself") {
  using tutti::call;
  constexpr tutti::call_signature sends = tutti::message_signature("sendrecv", call::outgoing, "float", 4);
  constexpr tutti::call_signature receives = tutti::message_signature("recv", call::incoming, "float", 4);
  constexpr tutti::call_signature others = tutti::message_signature("recv", call::incoming, "int", 4);
  const call sent{&sends, call::between(70000, 3), 7, 100, -1, {"a.cpp", 1}};
  const call received{&receives, call::between(70000, 3), 7, 100, -1, {"b.cpp", 2}};
  CHECK(sent.fingerprint() == received.fingerprint());
  CHECK(sent.describe() == "sendrecv of 100 x float (4 bytes each) to rank 3, message 7 at a.cpp:1");
  CHECK(received.describe() == "recv of 100 x float (4 bytes each) from rank 70000, message 7 at b.cpp:2");
  CHECK((sent.is_message() && sent.is_outgoing() && sent.peer() == 3));
  CHECK((received.is_message() && !received.is_outgoing() && received.peer() == 70000));
  CHECK_FALSE(call_of(reference).is_message());
  CHECK_FALSE(call{}.is_message());
  // Type, count, number and the two ranks all matter.
  for (const call& other : {call{&others, call::between(70000, 3), 7, 100, -1, {}},
                            call{&receives, call::between(70000, 3), 7, 101, -1, {}},
                            call{&receives, call::between(70000, 3), 8, 100, -1, {}},
                            call{&receives, call::between(70000, 4), 7, 100, -1, {}},
                            call{&receives, call::between(3, 70000), 7, 100, -1, {}}})
    CHECK(other.fingerprint() != sent.fingerprint());
}

TEST_CASE("a call without type, operation or root does not speak of them") {
  static constexpr tutti::call_signature nothing{"barrier", "dissemination", "", "", 1};
  const std::string words = tutti::call{&nothing, 3, 0, 0, -1, {"main.cpp", 5}}.describe();
  CHECK(words.find("barrier") != std::string::npos);
  CHECK(words.find("root") == std::string::npos);
  CHECK(words.find("with") == std::string::npos);
  CHECK(words.find("bytes") == std::string::npos);
  CHECK(tutti::call{}.describe() == "no call");
}

TEST_CASE("a call site is where the function with the default argument was called") {
  const auto site = [](tutti::call_site where = tutti::call_site::current()) { return where; };
  const tutti::call_site here = site();
  const unsigned line = __LINE__ - 1;
  CHECK(here.line == line);
  CHECK(std::string_view(here.file).ends_with("call.cpp"));
}

TEST_CASE("types are named as the compiler spells them") {
  static_assert(tutti::type_name<int>() == "int");
  static_assert(tutti::type_name<float>() == "float");
  static_assert(tutti::type_name<somewhere::thing>() == "somewhere::thing");
  CHECK(tutti::type_name<std::complex<float>>() == "std::complex<float>");
  CHECK(tutti::type_name<std::plus<>>().starts_with("std::plus<"));
  const std::string_view holder = tutti::type_name<somewhere::holder<const int*, 3>>();
  CHECK(holder.starts_with("somewhere::holder<const int"));
  CHECK(holder.ends_with("3>"));
  static_assert(tutti::type_name<std::int64_t>() != tutti::type_name<std::int32_t>());
}
