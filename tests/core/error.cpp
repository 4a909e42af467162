// SPDX-License-Identifier: BSL-1.0
#include <tutti/core/error.hpp>

#include <doctest/doctest.h>

#include <concepts>
#include <ostream>
#include <string>
#include <system_error>

namespace {

static_assert(std::derived_from<tutti::error, std::system_error>);
static_assert(std::derived_from<tutti::usage_error, tutti::error>);
static_assert(std::derived_from<tutti::mismatch, tutti::error>);
static_assert(std::derived_from<tutti::peer_failed, tutti::error>);
static_assert(std::derived_from<tutti::timed_out, tutti::error>);
static_assert(std::derived_from<tutti::resource_error, tutti::error>);
static_assert(std::is_error_code_enum_v<tutti::errc>);

template <class Thrown, class Caught = Thrown>
void check(const Thrown& thrown, tutti::errc code) {
  try {
    throw thrown;
  } catch (const std::system_error& e) {
    CHECK(dynamic_cast<const Caught*>(&e) != nullptr);
    CHECK(dynamic_cast<const tutti::error*>(&e) != nullptr);
    CHECK(e.code() == code);
    CHECK(e.code().category() == tutti::error_category());
    CHECK(std::string(e.what()).find("what went wrong") != std::string::npos);
  }
}

}  // namespace

TEST_CASE("every exception carries its code and its message") {
  check(tutti::usage_error("what went wrong"), tutti::errc::usage);
  check(tutti::mismatch("what went wrong"), tutti::errc::mismatch);
  check(tutti::peer_failed(3, "what went wrong"), tutti::errc::peer_failed);
  check(tutti::timed_out(3, "what went wrong"), tutti::errc::timed_out);
  check(tutti::resource_error("what went wrong"), tutti::errc::resource);
  CHECK(tutti::peer_failed(3, "").peer() == 3);
  CHECK(tutti::timed_out(4, "").peer() == 4);
}

TEST_CASE("codes have a category and words of their own") {
  CHECK(std::string(tutti::error_category().name()) == "tutti");
  for (const auto code : {tutti::errc::usage, tutti::errc::mismatch, tutti::errc::peer_failed, tutti::errc::timed_out,
                          tutti::errc::resource}) {
    const std::error_code as_code = code;
    CHECK(as_code);
    CHECK(as_code == code);
    CHECK_FALSE(as_code.message().empty());
    CHECK(as_code.message() != "unknown error");
  }
  CHECK(std::error_code(99, tutti::error_category()).message() == "unknown error");
  CHECK(std::error_code(tutti::errc::usage) != std::error_code(tutti::errc::mismatch));
}

TEST_CASE("a failure raises the exception of its kind with its text and its peer") {
  const auto raised = [](tutti::errc kind) { tutti::failure{kind, 5, "the text"}.raise(); };
  CHECK_THROWS_AS(raised(tutti::errc::usage), tutti::usage_error);
  CHECK_THROWS_AS(raised(tutti::errc::mismatch), tutti::mismatch);
  CHECK_THROWS_AS(raised(tutti::errc::resource), tutti::resource_error);
  try {
    raised(tutti::errc::peer_failed);
  } catch (const tutti::peer_failed& e) {
    CHECK(e.peer() == 5);
    CHECK(std::string(e.what()).starts_with("the text"));
  }
  try {
    raised(tutti::errc::timed_out);
  } catch (const tutti::timed_out& e) {
    CHECK(e.peer() == 5);
    CHECK(std::string(e.what()).starts_with("the text"));
  }
}
