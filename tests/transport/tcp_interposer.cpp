// SPDX-License-Identifier: BSL-1.0

// Ranks over TCP on a system whose calls take fewer bytes than they are given, and are interrupted all the time.

#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include <doctest/doctest.h>
#include <signal.h>
#include <time.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "child_process.hpp"
#include "deadline.hpp"
#include "transport/tcp_interposer.hpp"
#include "transport/tcp_proxy.hpp"
#include "transport/tcp_ranks.hpp"

namespace {

using test::tcp_comm;
namespace interposer = test::interposer;

// Every rank sends to every other, large and small; throws where a result is not what it must be.
void work(tcp_comm& comm, std::size_t count) {
  const auto n = static_cast<std::int32_t>(comm.size());
  const auto me = static_cast<std::int32_t>(comm.rank());
  const auto must = [](bool holds, const char* what) {
    if (!holds) throw std::runtime_error(what);
  };
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), me);
  tutti::allreduce<tutti::circulant>(comm, values, std::plus{});
  for (std::size_t i = 0; i < count; ++i)
    must(values[i] == n * (n - 1) / 2 + n * static_cast<std::int32_t>(i), "allreduce");

  std::vector<std::int32_t> out(static_cast<std::size_t>(n) * 3), in(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = me * 1000 + static_cast<std::int32_t>(i);
  tutti::alltoall<tutti::flat>(comm, out, in);
  for (std::size_t i = 0; i < in.size(); ++i)
    must(in[i] == static_cast<std::int32_t>(i / 3) * 1000 + me * 3 + static_cast<std::int32_t>(i % 3), "alltoall");

  std::vector<std::int32_t> all(static_cast<std::size_t>(n) * 100);
  const std::vector<std::int32_t> mine(100, me);
  tutti::allgather<tutti::ring>(comm, mine, all);
  for (std::size_t i = 0; i < all.size(); ++i) must(all[i] == static_cast<std::int32_t>(i / 100), "allgather");
  tutti::barrier<tutti::dissemination>(comm);
}

void check_that_all_went_well(const std::vector<test::outcome>& outcomes) {
  for (const test::outcome& each : outcomes) CHECK(each == test::outcome{});
}

TEST_CASE("replaced system calls do what a test asks for") {
  const test::deadline limit(std::chrono::seconds(20));
  const interposer::session replaced;
  int listener = ::socket(AF_INET, SOCK_STREAM, 0), other = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{}, elsewhere{};
  address.sin_family = elsewhere.sin_family = AF_INET;
  address.sin_addr.s_addr = elsewhere.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  for (const auto& [descriptor, at] : {std::pair(listener, &address), std::pair(other, &elsewhere)}) {
    REQUIRE(bind(descriptor, reinterpret_cast<sockaddr*>(at), length) == 0);
    REQUIRE(getsockname(descriptor, reinterpret_cast<sockaddr*>(at), &length) == 0);
  }
  REQUIRE(listen(listener, 8) == 0);
  interposer::redirect(ntohs(elsewhere.sin_port), ntohs(address.sin_port));

  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  interposer::fail(interposer::bit(interposer::call::connect), ECONNREFUSED, 1);
  CHECK(connect(client, reinterpret_cast<sockaddr*>(&elsewhere), sizeof elsewhere) == -1);
  CHECK(errno == ECONNREFUSED);
  REQUIRE(connect(client, reinterpret_cast<sockaddr*>(&elsewhere), sizeof elsewhere) == 0);
  interposer::fail(interposer::bit(interposer::call::accept), EMFILE, 1);
  CHECK(accept(listener, nullptr, nullptr) == -1);
  CHECK(errno == EMFILE);
  const int server = accept(listener, nullptr, nullptr);
  REQUIRE(server >= 0);

  interposer::cap = 3;
  char text[] = "abcdefgh", got[9] = {};
  iovec places[] = {{text, 2}, {text + 2, 6}}, into[] = {{got, 1}, {got + 1, 7}};
  msghdr message{};
  message.msg_iov = places;
  message.msg_iovlen = 2;
  CHECK(sendmsg(client, &message, 0) == 3);
  CHECK(writev(client, places, 2) == 3);
  CHECK(write(client, text, 8) == 3);
  CHECK(send(client, text, 2, 0) == 2);
  message.msg_iov = into;
  CHECK(recvmsg(server, &message, MSG_WAITALL) == 3);
  CHECK(readv(server, into, 2) == 3);
  interposer::fail(interposer::reads, EINTR, 2);
  CHECK(recv(server, got, 8, MSG_WAITALL) == 3);
  CHECK(recv(server, got, 8, 0) == -1);
  CHECK(errno == EINTR);
  CHECK(read(server, got, 8) == 2);
  CHECK(std::string_view(got, 2) == "ab");
  // When there is nothing to be had, a call is not counted.
  CHECK(recv(server, got, 8, MSG_DONTWAIT) == -1);
  CHECK(errno == EAGAIN);
  CHECK(interposer::rule.seen == 3);
  CHECK(interposer::count_of(interposer::writes) == 4);
  CHECK(interposer::count_of(interposer::reads) == 4);
  // What is no TCP socket is left alone.
  const test::channel pipe;
  pipe.say("12345678");
  CHECK(pipe.hear<std::uint64_t>() != 0);
  for (const int each : {listener, other, client, server}) close(each);
}

TEST_CASE("E3 every read and write takes 1, 7 or 4095 bytes") {
  const test::deadline limit(std::chrono::seconds(60));
  for (const std::size_t cap : {std::size_t{1}, std::size_t{7}, std::size_t{4095}}) {
    for (const int ranks : {2, 3}) {
      CAPTURE(cap);
      CAPTURE(ranks);
      const interposer::session replaced;
      interposer::cap = cap;
      const std::size_t count = cap == 1 ? 500 : cap == 7 ? 3000 : 200'000;
      const test::listening_job job(ranks);
      check_that_all_went_well(test::outcomes_of_tcp(job.options, [&](tcp_comm& comm) { work(comm, count); }));
      // The calls that move bytes are those that are replaced.
      CHECK(interposer::count_of(interposer::writes) >= static_cast<long>(count * 4 / cap));
      CHECK(interposer::count_of(interposer::reads) >= static_cast<long>(count * 4 / cap));
    }
  }
}

TEST_CASE("E3 what is between two ranks passes on 1, 7 or 4095 bytes at a time") {
  const test::deadline limit(std::chrono::seconds(60));
  for (const std::size_t cap : {std::size_t{1}, std::size_t{7}, std::size_t{4095}}) {
    CAPTURE(cap);
    const interposer::session replaced;
    const test::listening_job job(2);
    test::proxy_behaviour slow;
    slow.onwards.per_call = slow.back.per_call = cap;
    // Whoever connects to either of them gets there through a proxy.
    const test::tcp_proxy to_first(job.port(0), slow), to_second(job.port(1), slow);
    interposer::redirect(job.port(0), to_first.port());
    interposer::redirect(job.port(1), to_second.port());
    const std::size_t count = cap == 1 ? 500 : cap == 7 ? 3000 : 200'000;
    check_that_all_went_well(test::outcomes_of_tcp(job.options, [&](tcp_comm& comm) { work(comm, count); }));
    CHECK(to_first.connections() + to_second.connections() >= 2);
    CHECK(to_first.passed() + to_second.passed() >= count * 4);
  }
}

TEST_CASE("what a rank has sent on a communicator that it left long ago may be on its way for long, and arrives") {
  const test::deadline limit(std::chrono::seconds(60));
  for (const bool by_message : {false, true}) {
    CAPTURE(by_message);
    const interposer::session replaced;
    const test::listening_job job(2);
    test::proxy_behaviour late;
    late.onwards.delay = late.back.delay = std::chrono::milliseconds(150);
    // The control connection is the first, and is not late.
    const test::tcp_proxy to_first(job.port(0), [&](int i) { return i == 0 ? test::proxy_behaviour{} : late; });
    const test::tcp_proxy to_second(job.port(1), late);
    interposer::redirect(job.port(0), to_first.port());
    interposer::redirect(job.port(1), to_second.port());
    check_that_all_went_well(test::outcomes_of_tcp(job.options, [&](tcp_comm& comm) {
      tutti::barrier<tutti::dissemination>(comm);
      const int both[]{0, 1};
      for (const int others : {0, 40}) {
        std::deque<tcp_comm> parts;
        while (static_cast<int>(parts.size()) < 1 + others)
          parts.emplace_back(comm.transport().subgroup(comm.transport().next_group(), both));
        std::vector<int> values(10, comm.rank() == 0 ? 7 : 0);
        if (!by_message)
          tutti::broadcast<tutti::flat>(parts.front(), values, 0);
        else if (comm.rank() == 0)
          tutti::send(parts.front(), 1, values);
        else
          tutti::recv(parts.front(), 0, values);
        if (values.back() != 7) throw std::runtime_error("what was sent");
        while (!parts.empty()) parts.pop_front();
        tutti::barrier<tutti::dissemination>(comm);
      }
    }));
  }
}

TEST_CASE("E1 every other call is interrupted") {
  const test::deadline limit(std::chrono::seconds(60));
  using interposer::bit, interposer::call;
  for (const unsigned kinds : {interposer::reads, interposer::writes, bit(call::accept), bit(call::poll),
                               interposer::reads | interposer::writes | bit(call::accept) | bit(call::poll)}) {
    CAPTURE(kinds);
    const interposer::session replaced;
    interposer::fail(kinds, EINTR, 0, 2);
    test::listening_job job(3);
    for (auto& each : job.options) each.busy_poll = std::chrono::microseconds(0);  // so that poll(2) is called
    check_that_all_went_well(test::outcomes_of_tcp(job.options, [&](tcp_comm& comm) { work(comm, 100'000); }));
    CHECK(interposer::rule.failed > 0);
  }
}

// The calling thread gets a signal a thousand times in a second.
class interruptions {
 public:
  interruptions() {
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGUSR1;
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    if (timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) std::abort();
    const itimerspec often{{0, 1'000'000}, {0, 1'000'000}};
    timer_settime(timer_, 0, &often, nullptr);
  }
  interruptions(const interruptions&) = delete;
  interruptions& operator=(const interruptions&) = delete;
  ~interruptions() { timer_delete(timer_); }

 private:
  timer_t timer_{};
};

TEST_CASE("E1 every rank gets a signal a thousand times in a second, and system calls are not restarted") {
  static std::atomic<long> signals;
  static std::atomic<long> elsewhere;
  static thread_local bool in_rank = false;
  signals = elsewhere = 0;
  struct sigaction handler {};
  handler.sa_handler = [](int) {
    ++signals;
    if (!in_rank) ++elsewhere;
  };
  struct sigaction before {};
  REQUIRE(sigaction(SIGUSR1, &handler, &before) == 0);
  // Only ranks take the signal, and threads that they start.
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &one, nullptr);
  {
    const test::deadline limit(std::chrono::seconds(60));
    for (const int poll_us : {0, -1}) {
      test::listening_job job(3);
      for (auto& each : job.options) each.busy_poll = std::chrono::microseconds(poll_us);
      std::vector<test::outcome> outcomes(3);
      std::vector<std::thread> threads;
      for (std::size_t r = 0; r < 3; ++r) {
        threads.emplace_back([&, r] {
          in_rank = true;
          pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
          const interruptions all_the_time;  // from the start to the end
          const long already = signals;
          outcomes[r] = test::outcome_of_tcp(job.options[r], [&](tcp_comm& comm) {
            // Until they have been interrupted often enough, in whatever it was.
            for (int enough = 0; enough < 3;) {
              kill(getpid(), SIGUSR1);  // for any thread that takes it
              work(comm, 20'000);
              enough = signals - already >= 60 ? 1 : 0;
              tutti::allreduce<tutti::circulant>(comm, std::span(&enough, 1), std::plus{});
            }
          });
        });
      }
      for (std::thread& each : threads) each.join();
      check_that_all_went_well(outcomes);
    }
  }
  CHECK(signals >= 120);
  CHECK(elsewhere == 0);  // what serves a rank takes no signals
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
