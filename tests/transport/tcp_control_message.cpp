// SPDX-License-Identifier: BSL-1.0

// What goes over a control connection: every message comes back as it was, and garbage is refused before it costs
// memory.

#include <tutti/transport/tcp/control_message.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace tutti::detail;
using tutti::call;
using tutti::call_signature;
using tutti::errc;

const call_signature allreduce("allreduce", "ring", "float", "std::plus<void>", 4);
const call_signature barrier("barrier", "dissemination", "", "", 0);

call call_of(const call_signature& signature, std::uint64_t number, const char* file = "main.cpp") {
  return {&signature, number, 17 * number, 100 + static_cast<std::size_t>(number), 2, {file, 12}};
}

std::shared_ptr<const recorded_calls> some_calls(int count) {
  const auto calls = std::make_shared<recorded_calls>();
  for (int i = 1; i <= count; ++i)
    calls->add(recorded_call(call_of(i % 2 == 0 ? allreduce : barrier, static_cast<std::uint64_t>(i))));
  return calls;
}

/// One of each kind, with something in every field.
std::vector<control_message> examples() {
  std::vector<control_message> all;
  for (std::uint32_t kind = 1; kind <= static_cast<std::uint32_t>(last_control_kind); ++kind) {
    control_message m;
    m.kind = static_cast<control_kind>(kind);
    m.peer = static_cast<int>(kind) - 3;
    m.code = static_cast<errc>(kind % 5 + 1);
    m.round = static_cast<int>(kind) * 1000;
    m.milliseconds = std::numeric_limits<std::int64_t>::max() - kind;
    m.ticket = std::numeric_limits<std::uint64_t>::max() - kind;
    m.number = kind;
    m.fingerprint = 0x0123456789abcdefULL * kind;
    m.text = std::string(kind * 7, 'x') + "\0y";
    if (kind % 2 == 0) m.calls = some_calls(static_cast<int>(kind));
    m.group = 0xffffffff / kind;
    if (kind % 3 != 1)
      m.members = std::make_shared<const std::vector<std::int32_t>>(std::vector<std::int32_t>{7, 0, -3});
    all.push_back(m);
  }
  return all;
}

void check_equal(const control_message& one, const control_message& other) {
  CHECK(one.kind == other.kind);
  CHECK(one.peer == other.peer);
  CHECK(one.code == other.code);
  CHECK(one.round == other.round);
  CHECK(one.milliseconds == other.milliseconds);
  CHECK(one.ticket == other.ticket);
  CHECK(one.number == other.number);
  CHECK(one.fingerprint == other.fingerprint);
  CHECK(one.text == other.text);
  CHECK(one.group == other.group);
  REQUIRE((one.members == nullptr) == (other.members == nullptr));
  if (one.members != nullptr) CHECK(*one.members == *other.members);
  REQUIRE((one.calls == nullptr) == (other.calls == nullptr));
  if (one.calls == nullptr) return;
  REQUIRE(one.calls->size() == other.calls->size());
  for (std::size_t i = 0; i < one.calls->size(); ++i) {
    const call a = (*one.calls)[i].read();
    const call b = (*other.calls)[i].read();
    CHECK(a.fingerprint() == b.fingerprint());
    CHECK(a.describe() == b.describe());
    CHECK(a.sequence == b.sequence);
  }
}

std::string frame_of(const control_message& m) {
  std::string out;
  write_control(out, m);
  return out;
}

/// What the stream makes of these bytes, given in parts of that size.
struct result {
  bool sound = true;
  std::vector<control_message> messages;
};
result read_in_parts(std::string_view bytes, std::size_t part) {
  result r;
  control_stream stream;
  while (!bytes.empty() && r.sound) {
    r.sound = stream.take(bytes.substr(0, part), [&](control_message& m) {
      r.messages.push_back(m);
      return true;
    });
    bytes.remove_prefix(std::min(part, bytes.size()));
  }
  return r;
}

void put_u32(std::string& frame, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) frame[at + i] = static_cast<char>((value >> (8 * i)) & 0xff);
}

}  // namespace

TEST_CASE("every message comes back as it was, however the stream is cut") {
  std::string all;
  for (const control_message& m : examples()) write_control(all, m);
  for (const std::size_t part : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{63}, all.size()}) {
    const result r = read_in_parts(all, part);
    CHECK(r.sound);
    const auto expected = examples();
    REQUIRE(r.messages.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) check_equal(r.messages[i], expected[i]);
  }
}

TEST_CASE("no more messages are given than are wanted") {
  const std::string two = frame_of({}) + frame_of({});
  int given = 0;
  control_stream stream;
  CHECK(stream.take(two, [&](control_message&) {
    ++given;
    return false;
  }));
  CHECK(given == 1);
}

TEST_CASE("texts that are too long are cut, and calls are the same calls all the same") {
  const std::string long_name(3000, 'n');
  const std::string long_path = std::string(3000, 'p').append("/main.cpp");
  const call_signature signature(long_name, long_name, long_name, long_name, 4);
  const call c = call_of(signature, 3, long_path.c_str());
  const auto calls = std::make_shared<recorded_calls>();
  for (std::size_t i = 0; i < recorded_calls::most; ++i) CHECK(calls->add(recorded_call(c)));
  CHECK_FALSE(calls->add(recorded_call(c)));
  control_message m;
  m.text = std::string(10'000, 't');
  m.calls = calls;
  m.group = 3;
  m.members = std::make_shared<const std::vector<std::int32_t>>(control_frame::most_members);
  const std::string frame = frame_of(m);
  CHECK(frame.size() == control_frame::head_bytes + control_frame::most_body);
  const result r = read_in_parts(frame, 100);
  REQUIRE(r.sound);
  REQUIRE(r.messages.size() == 1);
  CHECK(r.messages[0].text == std::string(control_frame::most_text, 't'));
  const call back = r.messages[0].calls->read(3);
  CHECK(back.fingerprint() == c.fingerprint());
  CHECK(back.describe().ends_with("/main.cpp:12"));
}

TEST_CASE("a log is recorded with its last calls, and is compared like the log itself") {
  call_log log;
  call_log other;
  for (std::uint64_t number = 1; number <= 20; ++number) {
    log.write(call_of(allreduce, number));
    other.write(call_of(number == 18 ? barrier : allreduce, number));
  }
  const recorded_calls here(log);
  CHECK(here.size() == recorded_calls::most);
  CHECK(here.last() == 20);
  CHECK(here.read(4).signature == nullptr);
  CHECK(here.read(5).fingerprint() == log.read(5).fingerprint());
  const recorded_calls there(other);
  CHECK(disagreement(3, here, 1, there).text == disagreement(3, log, 1, other).text);
  CHECK(recorded_calls(call_log()).last() == 0);
}

TEST_CASE("a frame that is no message is refused") {
  const control_message m = examples()[1];
  const std::string sound = frame_of(m);
  REQUIRE(read_in_parts(sound, 1000).sound);
  constexpr std::size_t body = control_frame::head_bytes;
  const auto spoilt = [&](std::size_t at, std::uint32_t value) {
    std::string frame = sound;
    put_u32(frame, at, value);
    return frame;
  };
  const std::uint32_t length = static_cast<std::uint32_t>(sound.size() - body);
  const std::size_t text_length = body + control_frame::fixed_bytes - 16;
  const std::size_t calls_count = text_length + 4 + m.text.size();
  const std::size_t members_count = sound.size() - 4 - 4 * (m.members == nullptr ? 0 : m.members->size());
  CHECK_FALSE(read_in_parts(spoilt(4, 0), 1000).sound);
  CHECK_FALSE(read_in_parts(spoilt(4, static_cast<std::uint32_t>(last_control_kind) + 1), 1000).sound);
  CHECK_FALSE(read_in_parts(spoilt(4, 0xffffffff), 1000).sound);
  CHECK_FALSE(read_in_parts(spoilt(0, length - 1), 1000).sound);
  CHECK_FALSE(read_in_parts(spoilt(0, length + 1) + "x", 1000).sound);
  CHECK_FALSE(read_in_parts(spoilt(body + 4, 0), 1000).sound);
  CHECK_FALSE(read_in_parts(spoilt(body + 4, 6), 1000).sound);
  CHECK_FALSE(read_in_parts(spoilt(text_length, 0xffffffff), 1000).sound);
  CHECK_FALSE(read_in_parts(spoilt(text_length, control_frame::most_text + 1), 1000).sound);
  CHECK_FALSE(read_in_parts(spoilt(calls_count, recorded_calls::most + 1), 1000).sound);
  CHECK_FALSE(read_in_parts(spoilt(calls_count, 0), 1000).sound);
  for (const std::uint32_t members : {0U, 2U, 4U, 0x4000'0003U, 0xffff'ffffU})
    CHECK_FALSE(read_in_parts(spoilt(members_count, members), 1000).sound);
  CHECK_FALSE(read_in_parts(std::string("\0\0\0\0\1\0\0\0", 8), 1000).sound);  // no body at all
}

TEST_CASE("D3 a length that is too large is refused before anything is allocated for it") {
  for (const std::uint32_t length :
       {static_cast<std::uint32_t>(control_frame::most_body + 1), 0x7fffffffu, 0xffffffffu}) {
    std::string frame = frame_of({});
    put_u32(frame, 0, length);
    control_stream stream;
    CHECK_FALSE(stream.take(frame, [](control_message&) { return true; }));
  }
  CHECK(control_frame::most_body - 4 * control_frame::most_members < 64 * 1024);
  CHECK(control_frame::most_body < 1024 * 1024);
}

TEST_CASE("D4 garbage never gives more than messages, and what it gives can be written again") {
  std::mt19937_64 random(7);
  std::string sound;
  for (const control_message& m : examples()) write_control(sound, m);
  int refused = 0;
  int taken = 0;
  for (int repetition = 0; repetition < 800; ++repetition) {
    std::string bytes = sound;
    const int changes = static_cast<int>(random() % 4) + 1;
    for (int i = 0; i < changes; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (repetition % 3 == 0) bytes.resize(random() % bytes.size());
    const result r = read_in_parts(bytes, 1 + random() % 300);
    refused += r.sound ? 0 : 1;
    for (const control_message& m : r.messages) {
      ++taken;
      const result again = read_in_parts(frame_of(m), 4096);
      REQUIRE(again.sound);
      REQUIRE(again.messages.size() == 1);
      CHECK(again.messages[0].text == m.text);
    }
  }
  CHECK(refused > 50);
  CHECK(taken > 1000);
  for (const char* stranger :
       {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01\x02\x00\x01\x00"})
    CHECK(read_in_parts(std::string(stranger) + std::string(64 * 1024, 'x'), 1000).messages.empty());
}
