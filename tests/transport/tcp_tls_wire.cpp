// SPDX-License-Identifier: BSL-1.0

// One encrypted data connection: full buffers in both directions, keys that change, what lies decrypted, and what
// somebody on the way may do to it.

#include <tutti/transport/tcp/connection.hpp>
#include <tutti/transport/tcp/tls_session.hpp>
#include <tutti/transport/tcp/tls_wire.hpp>

#include <doctest/doctest.h>

#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "deadline.hpp"
#include "transport/tcp_data.hpp"
#include "transport/tls_certificates.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using tutti::detail::tls_session;
using connection = tutti::detail::basic_tcp_connection<tutti::detail::tcp_tls_wire>;
using bytes = std::vector<std::byte>;

bytes payload(std::size_t size, unsigned seed) {
  bytes made(size);
  for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<std::byte>((i * 7 + i / 251 + seed * 31 + 1) & 0xFF);
  return made;
}

SSL_CTX* context(bool server) {
  static const temporary_folder folder;
  static const certificate_authority authority(folder, "authority");
  static const identity_files files = authority.sign({});
  const auto make = [](const SSL_METHOD* method) {
    SSL_CTX* const made = SSL_CTX_new(method);
    SSL_CTX_use_certificate_chain_file(made, files.certificate.c_str());
    SSL_CTX_use_PrivateKey_file(made, files.private_key.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_set_num_tickets(made, 0);
    SSL_CTX_set_read_ahead(made, 1);
    return made;
  };
  static SSL_CTX* const of_server = make(TLS_server_method());
  static SSL_CTX* const of_client = make(TLS_client_method());
  return server ? of_server : of_client;
}

/// What a connection takes over when hands have been shaken.
struct greeted_socket {
  descriptor_owner socket;
  std::unique_ptr<tls_session> session;
  int native_handle() const { return socket.get(); }
  int release() { return socket.release(); }
  std::unique_ptr<tls_session> take_session() { return std::move(session); }
};

/// Both ends of a connection.
struct pair {
  explicit pair(bool loopback = false, int buffer = 0, std::uint64_t rekey_bytes = std::uint64_t{1} << 36) {
    auto [one, two] = connected_pair(loopback, buffer);
    std::array<greeted_socket, 2> ends;
    ends[0].socket = std::move(one);
    ends[1].socket = std::move(two);
    for (std::size_t i = 0; i < 2; ++i) {
      ends[i].session = std::make_unique<tls_session>(context(i == 0), ends[i].socket.get(), i == 0, 1);
      ends[i].session->rekey_bytes = rekey_bytes;
      sessions[i] = ends[i].session.get();
    }
    for (int ready = 0; ready != 3;)
      for (std::size_t i = 0; i < 2; ++i)
        if (sessions[i]->handshake() == tls_session::steps::done && !sessions[i]->unflushed()) ready |= i == 0 ? 1 : 2;
    for (std::size_t i = 0; i < 2; ++i) {
      descriptors[i] = ends[i].native_handle();
      end[i].establish(std::move(ends[i]));
    }
  }
  std::array<connection, 2> end;
  std::array<tls_session*, 2> sessions{};
  std::array<int, 2> descriptors{};
};

bool send(connection& c, std::uint32_t lane, const bytes& content, bool copy = false) {
  return c.send(lane, 5, content.data(), content.size(), copy);
}
/// Receives the next message of a lane, while `other` does what it can.
void receive(connection& c, std::uint32_t lane, const bytes& expected, connection* other = nullptr) {
  bytes memory(expected.size() + 1);
  c.ask(lane, memory.data(), expected.size(), 5);
  while (!c.look(lane)) {
    REQUIRE_MESSAGE(!c.broken(), c.what());
    if (other != nullptr) other->flush();
  }
  REQUIRE_FALSE(c.end_of(lane).refused);
  REQUIRE(std::equal(expected.begin(), expected.end(), memory.begin()));
  c.take(lane);
}

}  // namespace

TEST_CASE("messages of all sizes arrive, one after the other") {
  constexpr int record = 16'384 - static_cast<int>(tutti::detail::tcp_header::size);  // with its header
  for (const bool copy : {false, true})
    for (const int size :
         {0, 1, 1000, 1024, 1025, record - 1, record, record + 1, record + 16'384, 100'000, 1'000'000}) {
      CAPTURE(size);
      pair p(true);
      const bytes content = payload(static_cast<std::size_t>(size), 3);
      for (int i = 0; i < 3; ++i) {
        send(p.end[0], 9, content, copy);
        receive(p.end[1], 9, content, &p.end[0]);
      }
    }
}

TEST_CASE("both directions at once, more than buffers hold, while keys change") {
  const deadline limit(60s);
  for (const int buffer : {2048, 20'000, 0}) {
    CAPTURE(buffer);
    pair p(buffer == 0, buffer, 50'000);
    std::mt19937 random(7);
    struct sent_message {
      std::uint32_t lane;
      bytes content;
    };
    std::array<std::deque<sent_message>, 2> messages;
    for (std::size_t i = 0; i < 2; ++i)
      for (int k = 0; k < 60; ++k) {
        const std::size_t size = k % 3 == 0 ? random() % 200'000 : random() % 2000;
        messages[i].push_back({static_cast<std::uint32_t>(random() % 3), payload(size, static_cast<unsigned>(k))});
        // Not copied: it stays where it is until all is over.
        send(p.end[i], messages[i].back().lane, messages[i].back().content, k % 2 == 0);
      }
    // Each lane in its order; those whose message is not asked for are kept, and the other end is asked to pause.
    for (const std::uint32_t lane : {2u, 0u, 1u})
      for (std::size_t i = 0; i < 2; ++i)
        for (const sent_message& m : messages[i])
          if (m.lane == lane) receive(p.end[1 - i], lane, m.content, &p.end[i]);
    for (std::size_t i = 0; i < 2; ++i) {
      while (!p.end[i].flush()) p.end[1 - i].advance();
      CHECK_FALSE(p.end[i].broken());
      CHECK(p.sessions[i]->rekeyed() > 5);
    }
  }
}

TEST_CASE("a change of keys that the other end asks for is answered by one that only reads") {
  pair p;
  const bytes content = payload(100, 1);
  for (int round = 0; round < 3; ++round) {
    REQUIRE(SSL_key_update(p.sessions[0]->native(), SSL_KEY_UPDATE_REQUESTED) == 1);
    send(p.end[0], 0, content);
    receive(p.end[1], 0, content);
    p.end[1].advance();
    CHECK_FALSE(p.end[1].wants_to_write());
    send(p.end[1], 0, content);
    receive(p.end[0], 0, content);
  }
}

TEST_CASE("what lies decrypted is not waited for at the descriptor") {
  pair p;
  const bytes one = payload(100, 1);
  const bytes other = payload(200, 2);
  // Two frames in one record.
  constexpr std::size_t head = tutti::detail::tcp_header::size;
  bytes record(2 * head + 300);
  tutti::detail::encode({one.size(), 5, 0, tutti::detail::tcp_frame_kind::message}, record.data());
  std::copy(one.begin(), one.end(), record.begin() + head);
  tutti::detail::encode({other.size(), 5, 1, tutti::detail::tcp_frame_kind::message}, record.data() + head + 100);
  std::copy(other.begin(), other.end(), record.begin() + 2 * head + 100);
  REQUIRE(p.sessions[0]->encrypt(record.data(), record.size()));
  p.sessions[0]->flush();
  std::byte header[head];
  REQUIRE(p.sessions[1]->read(header, sizeof header).bytes == sizeof header);
  CHECK(p.sessions[1]->holds());
  CHECK(p.end[1].holds());
  pollfd readable{p.descriptors[1], POLLIN, 0};
  CHECK(::poll(&readable, 1, 0) == 0);
  bytes memory(one.size());
  REQUIRE(p.sessions[1]->read(memory.data(), memory.size()).bytes == memory.size());
  CHECK(memory == one);
  CHECK(p.end[1].holds());
  receive(p.end[1], 1, other);
  CHECK_FALSE(p.end[1].holds());
}

TEST_CASE("who writes to an end that is closed is told so, and raises no signal") {
  pair p(true);
  p.end[1].close();
  const bytes content = payload(100'000, 1);
  for (int i = 0; i < 100 && !p.end[0].broken(); ++i) send(p.end[0], 0, content, true);
  CHECK(p.end[0].broken());
}

TEST_CASE("an end is an end, whether or not TLS has been told") {
  for (const bool told : {false, true}) {
    pair p;
    const bytes content = payload(10, 1);
    send(p.end[0], 0, content);
    if (told)
      p.end[0].finish_sending();
    else
      ::shutdown(p.descriptors[0], SHUT_WR);
    receive(p.end[1], 0, content);
    bytes memory(10);
    p.end[1].ask(0, memory.data(), memory.size(), 5);
    CHECK_FALSE(p.end[1].look(0));
    CHECK(p.end[1].ended());
    CHECK(p.end[1].what() == "it ended the connection");
    // The other direction goes on.
    send(p.end[1], 0, content);
    receive(p.end[0], 0, content);
  }
}

TEST_CASE("nothing is delivered of what somebody on the way has changed") {
  for (const int position : {0, 3, 7, 40}) {
    CAPTURE(position);
    pair p;
    const bytes content = payload(100, 1);
    send(p.end[0], 0, content);
    // Takes the record off the way, and puts another one there.
    bytes record(1000);
    const ssize_t size = ::recv(p.descriptors[1], record.data(), record.size(), MSG_DONTWAIT);
    REQUIRE(size > 100);
    record[static_cast<std::size_t>(position)] ^= std::byte{0x41};
    REQUIRE(::send(p.descriptors[0], record.data(), static_cast<std::size_t>(size), MSG_DONTWAIT) == size);
    ::shutdown(p.descriptors[0], SHUT_WR);
    bytes memory(100);
    p.end[1].ask(0, memory.data(), memory.size(), 5);
    CHECK_FALSE(p.end[1].look(0));
    CHECK(p.end[1].broken());
    CHECK(memory == bytes(100));
    if (position != 3) CHECK(p.end[1].what().starts_with("TLS: "));
  }
}
