// SPDX-License-Identifier: BSL-1.0

// The bad network that other tests rely on is as bad as they ask for, and no worse.

#include "tcp_proxy.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "child_process.hpp"
#include "deadline.hpp"

namespace {

// An end that blocks, with a limit so that nothing hangs.
class end {
 public:
  explicit end(int descriptor) : descriptor_(descriptor) {
    REQUIRE(descriptor >= 0);
    const timeval limit{20, 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  end(const end&) = delete;
  end& operator=(const end&) = delete;
  ~end() { ::close(descriptor_); }
  void say(const std::string& text) const {
    std::size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t n = send(descriptor_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      REQUIRE(n > 0);
      sent += static_cast<std::size_t>(n);
    }
  }
  // What comes until there are `count` bytes, or the end (then `error` is 0), or an error.
  std::string hear(std::size_t count) {
    std::string got(count, '\0');
    std::size_t have = 0;
    error = 0;
    while (have < count) {
      const ssize_t n = recv(descriptor_, got.data() + have, count - have, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) error = errno;
      if (n <= 0) break;
      have += static_cast<std::size_t>(n);
    }
    got.resize(have);
    return got;
  }
  void finish() const { shutdown(descriptor_, SHUT_WR); }
  int error = 0;

 private:
  int descriptor_;
};

struct listener {
  listener() {
    descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    REQUIRE(bind(descriptor, reinterpret_cast<sockaddr*>(&address), length) == 0);
    REQUIRE(listen(descriptor, 16) == 0);
    REQUIRE(getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    port = ntohs(address.sin_port);
  }
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;
  ~listener() { ::close(descriptor); }
  int descriptor;
  std::uint16_t port;
};

int connect_to(std::uint16_t port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  REQUIRE(connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return descriptor;
}

// A connection through a proxy: who connected, and who listens.
struct line {
  explicit line(const test::proxy_behaviour& behaviour = {})
      : proxy(listening.port, behaviour),
        client(connect_to(proxy.port())),
        server(accept4(listening.descriptor, nullptr, nullptr, SOCK_CLOEXEC)) {}
  listener listening;
  test::tcp_proxy proxy;
  end client, server;
};

std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 251);
  return text;
}

TEST_CASE("a proxy passes on what it gets, in both directions, in pieces as small as one likes") {
  const test::deadline limit(std::chrono::seconds(40));
  for (const std::size_t cap : {std::size_t{1}, std::size_t{7}, std::size_t{4095}, std::size_t{65536}}) {
    CAPTURE(cap);
    test::proxy_behaviour both;
    both.onwards.per_call = both.back.per_call = cap;
    line through(both);
    const std::string text = pattern(cap < 10 ? 5000 : 700'000);
    std::thread writer([&] { through.client.say(text); });
    CHECK(through.server.hear(text.size()) == text);
    writer.join();
    std::thread other([&] { through.server.say(text); });
    CHECK(through.client.hear(text.size()) == text);
    other.join();
    // The end of each direction, by itself.
    through.client.finish();
    CHECK(through.server.hear(1).empty());
    CHECK(through.server.error == 0);
    through.server.say("x");
    CHECK(through.client.hear(1) == "x");
    through.server.finish();
    CHECK(through.client.hear(1).empty());
    CHECK(through.client.error == 0);
    CHECK(through.proxy.passed() == 2 * text.size() + 1);
    CHECK(through.proxy.connections() == 1);
  }
}

TEST_CASE("a proxy passes on no sooner than it is told") {
  const test::deadline limit(std::chrono::seconds(20));
  test::proxy_behaviour slow;
  slow.onwards.delay = std::chrono::milliseconds(30);
  line through(slow);
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    through.client.say("late");
    CHECK(through.server.hear(4) == "late");
    CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(30));
    through.server.say("soon");
    CHECK(through.client.hear(4) == "soon");
  }
}

TEST_CASE("a proxy lets bytes vanish after so many, and the end of the stream with them") {
  const test::deadline limit(std::chrono::seconds(20));
  for (const std::uint64_t after : {0U, 1U, 1000U}) {
    CAPTURE(after);
    test::proxy_behaviour hole;
    hole.onwards.blackhole_after = after;
    line through(hole);
    through.client.say(pattern(100'000));
    through.client.finish();
    // The other direction still works, and what has gone into the hole has gone before.
    through.server.say("still here");
    CHECK(through.client.hear(10) == "still here");
    CHECK(through.server.hear(static_cast<std::size_t>(after)) == pattern(static_cast<std::size_t>(after)));
    through.proxy.reset();
    CHECK(through.server.hear(1).empty());
    CHECK(through.server.error == ECONNRESET);
  }
}

TEST_CASE("a proxy resets both ends after so many bytes") {
  const test::deadline limit(std::chrono::seconds(20));
  for (const std::uint64_t after : {0U, 1U, 1000U}) {
    CAPTURE(after);
    test::proxy_behaviour cut;
    cut.onwards.reset_after = after;
    line through(cut);
    through.client.say(pattern(static_cast<std::size_t>(after) + 1));
    CHECK(through.client.hear(1).empty());
    CHECK(through.client.error == ECONNRESET);
    // What was on the way may be lost with it.
    CHECK(through.server.hear(2000).size() <= after);
    CHECK(through.server.error == ECONNRESET);
  }
}

TEST_CASE("a proxy ends one direction after so many bytes, while the other goes on") {
  const test::deadline limit(std::chrono::seconds(20));
  for (const std::uint64_t after : {0U, 1U, 1000U}) {
    CAPTURE(after);
    test::proxy_behaviour half;
    half.onwards.half_close_after = after;
    line through(half);
    through.client.say(pattern(5000));
    CHECK(through.server.hear(5000) == pattern(static_cast<std::size_t>(after)));
    CHECK(through.server.error == 0);
    through.server.say("still here");
    CHECK(through.client.hear(10) == "still here");
  }
}

TEST_CASE("a proxy does on demand what it can do after so many bytes") {
  const test::deadline limit(std::chrono::seconds(20));
  SUBCASE("nothing gets through") {
    line through;
    through.client.say("a");
    CHECK(through.server.hear(1) == "a");
    through.proxy.blackhole();
    through.client.say("lost");
    through.server.say("lost");
    const end late(connect_to(through.proxy.port()));  // neither do new ones
    end late_server(accept4(through.listening.descriptor, nullptr, nullptr, SOCK_CLOEXEC));
    late.say("lost");
    through.proxy.reset();
    CHECK(through.server.hear(1).empty());
    CHECK(through.server.error == ECONNRESET);
    CHECK(through.client.hear(1).empty());
    CHECK(late_server.hear(1).empty());
    CHECK(through.proxy.passed() == 1);
  }
  SUBCASE("both streams end") {
    line through;
    through.client.say("a");
    CHECK(through.server.hear(1) == "a");
    through.proxy.half_close();
    CHECK(through.server.hear(1).empty());
    CHECK(through.server.error == 0);
    CHECK(through.client.hear(1).empty());
    CHECK(through.client.error == 0);
  }
  SUBCASE("each connection has its own rules") {
    const listener listening;
    test::tcp_proxy proxy(listening.port, [](int which) {
      test::proxy_behaviour behaviour;
      if (which == 1) behaviour.onwards.reset_after = 0;
      return behaviour;
    });
    const end first(connect_to(proxy.port()));
    end first_server(accept4(listening.descriptor, nullptr, nullptr, SOCK_CLOEXEC));
    end second(connect_to(proxy.port()));
    second.say("a");
    CHECK(second.hear(1).empty());
    CHECK(second.error == ECONNRESET);
    first.say("a");
    CHECK(first_server.hear(1) == "a");
  }
}

TEST_CASE("where nobody listens, a proxy resets who connects; it leaves no descriptor") {
  const test::deadline limit(std::chrono::seconds(20));
  const int before = test::open_descriptors();
  {
    std::uint16_t gone = 0;
    {
      const listener was;
      gone = was.port;
    }
    test::tcp_proxy proxy(gone);
    end client(connect_to(proxy.port()));
    CHECK(client.hear(1).empty());
    CHECK(client.error == ECONNRESET);
  }
  {
    line through;
    through.client.say("a");
    CHECK(through.server.hear(1) == "a");
  }
  CHECK(test::open_descriptors() == before);
}

}  // namespace
