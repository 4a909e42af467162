// SPDX-License-Identifier: BSL-1.0

// What sockets can do: the bytes that each collective has to move, written by hand for the benchmark over non-blocking
// TCP connections on loopback which are polled without rest. No messages, tags, lanes, errors or deadlines, so that it
// is what a library is held against. Where there are several ways, the quickest counts.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "../measure.hpp"
#include "../ranks.hpp"

namespace {

[[noreturn]] void fail(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

// A listener for each rank, opened before the ranks are forked.
class listeners {
 public:
  explicit listeners(int ranks) {
    for (int r = 0; r < ranks; ++r) {
      const int listener = socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      socklen_t length = sizeof address;
      if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
          listen(listener, ranks) != 0 || getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
        fail("listener");
      }
      all_.push_back({listener, address});
    }
  }
  // Connections of one rank to all others, by rank.
  std::vector<int> connect_all(int rank) const {
    std::vector<int> connections(all_.size(), -1);
    for (int r = 0; r < rank; ++r) {
      const int connection = socket(AF_INET, SOCK_STREAM, 0);
      const sockaddr_in& address = all_[static_cast<std::size_t>(r)].address;
      if (connection < 0 || connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
          send(connection, &rank, sizeof rank, MSG_NOSIGNAL) != sizeof rank) {
        fail("connect");
      }
      connections[static_cast<std::size_t>(r)] = connection;
    }
    for (std::size_t r = static_cast<std::size_t>(rank) + 1; r < all_.size(); ++r) {
      const int connection = accept(all_[static_cast<std::size_t>(rank)].descriptor, nullptr, nullptr);
      int from = 0;
      if (connection < 0 || recv(connection, &from, sizeof from, MSG_WAITALL) != sizeof from) fail("accept");
      connections.at(static_cast<std::size_t>(from)) = connection;
    }
    const int on = 1;
    constexpr std::string_view unpaced = "reno";
    for (const int connection : connections) {
      if (connection < 0) continue;
      if (setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) fail("TCP_NODELAY");
      // Not everywhere may everybody choose.
      static_cast<void>(setsockopt(connection, IPPROTO_TCP, TCP_CONGESTION, unpaced.data(), unpaced.size()));
    }
    return connections;
  }

 private:
  struct one {
    int descriptor;
    sockaddr_in address;
  };
  std::vector<one> all_;
};

// One system call takes no more than this: the best on loopback, as each rank writes a large part before it reads, and
// still adds it while the next is on its way.
constexpr std::size_t per_call = 1024 * 1024;

class world {
 public:
  world(int rank, int size, std::vector<int> connections)
      : rank_{rank}, size_{size}, crowded_{size > cpus()}, connections_{std::move(connections)} {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  int after(int distance) const { return (rank_ + distance) % size_; }
  int before(int distance) const { return (rank_ + size_ - distance) % size_; }

  void barrier() {
    for (int distance = 1; distance < size_; distance *= 2) {
      float token = 0, other = 0;
      exchange(after(distance), {&token, 1}, before(distance), {&other, 1});
    }
  }
  double maximum(double mine) {
    double greatest = mine;
    for (int distance = 1; distance < size_; ++distance) {
      double other = 0;
      exchange(after(distance), {reinterpret_cast<float*>(&mine), 2}, before(distance),
               {reinterpret_cast<float*>(&other), 2});
      greatest = std::max(greatest, other);
    }
    return greatest;
  }

  // Sends to one rank while receiving from one. Either span may be empty.
  void exchange(int to, std::span<const float> what, int from, std::span<float> into) {
    exchange(
        to, what, from, into.size(), [&](std::size_t at, std::size_t) { return into.data() + at; },
        [](std::size_t, std::size_t) {});
  }

  // The same, of `count` floats that are folded as they come: out[i] = in[i] + received[i]. `in` and `out` may be
  // equal.
  void exchange_and_fold(int to, std::span<const float> what, int from, const float* in, std::span<float> out) {
    scratch_.resize(std::max(scratch_.size(), std::min(out.size(), per_call / sizeof(float))));
    exchange(
        to, what, from, out.size(), [&](std::size_t, std::size_t) { return scratch_.data(); },
        [&](std::size_t at, std::size_t count) {
          const float* const received = scratch_.data();
          for (std::size_t i = 0; i < count; ++i) out[at + i] = in[at + i] + received[i];
        });
  }

 private:
  static int cpus() {
    cpu_set_t mine;
    return sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : 1;
  }

  // `place(at, count)` says where `count` floats from the at-th on are put; `arrived(at, count)` that they are there.
  template <class Place, class Arrived>
  void exchange(int to, std::span<const float> what, int from, std::size_t count, Place place, Arrived arrived) {
    const std::span<const std::byte> out = std::as_bytes(what);
    const int out_connection = connections_[static_cast<std::size_t>(to)];
    const int in_connection = connections_[static_cast<std::size_t>(from)];
    std::size_t sent = 0;
    std::size_t received = 0;  // floats that have been passed on
    std::size_t in_part = 0;   // bytes that have come since
    while (sent < out.size() || received < count) {
      bool idle = true;
      if (sent < out.size()) {
        const ssize_t n =
            send(out_connection, out.data() + sent, std::min(out.size() - sent, per_call), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) fail("send");
        if (n > 0) sent += static_cast<std::size_t>(n), idle = false;
      }
      if (received < count) {
        const std::size_t part = std::min(count - received, per_call / sizeof(float));
        std::byte* const at = reinterpret_cast<std::byte*>(place(received, part));
        const ssize_t n = recv(in_connection, at + in_part, part * sizeof(float) - in_part, MSG_DONTWAIT);
        if (n == 0) throw std::runtime_error("rank " + std::to_string(from) + " has gone");
        if (n < 0 && errno != EAGAIN && errno != EINTR) fail("recv");
        if (n > 0) {
          idle = false;
          in_part += static_cast<std::size_t>(n);
          // Whole floats are passed on at once; where a part ends within one, the rest of it is awaited.
          if (in_part % sizeof(float) == 0) {
            arrived(received, in_part / sizeof(float));
            received += in_part / sizeof(float);
            in_part = 0;
          }
        }
      }
      if (idle && crowded_) sched_yield();
    }
  }

  int rank_, size_;
  bool crowded_;
  std::vector<int> connections_;
  std::vector<float> scratch_;
};

// The j-th of p blocks of n floats, as equal as possible.
template <class T>
std::span<T> part(std::span<T> all, int j, int p) {
  const auto begin = [&](int k) { return all.size() * static_cast<std::size_t>(k) / static_cast<std::size_t>(p); };
  return all.subspan(begin(j), begin(j + 1) - begin(j));
}

void copy(std::span<const float> from, std::span<float> to) { std::copy(from.begin(), from.end(), to.begin()); }

// p - 1 rounds: in the k-th with the ranks k away.
void reduce_scatter(world& all, std::span<const float> in, std::span<float> mine) {
  const int p = all.size();
  if (p == 1) return copy(in, mine);
  const float* own = part(in, all.rank(), p).data();
  for (int k = 1; k < p; ++k) {
    all.exchange_and_fold(all.after(k), part(in, all.after(k), p), all.before(k), own, mine);
    own = mine.data();
  }
}

void allgather(world& all, std::span<const float> mine, std::span<float> out) {
  for (int k = 1; k < all.size(); ++k) {
    all.exchange(all.after(k), mine, all.before(k), part(out, all.before(k), all.size()));
  }
}

// The whole vector in every round: log2 p rounds, for powers of two.
void allreduce_of_whole(world& all, std::span<const float> in, std::span<float> out) {
  if (all.size() == 1) return copy(in, out);
  for (int bit = 1; bit < all.size(); bit *= 2) {
    const int peer = all.rank() ^ bit;
    if (bit == 1) {
      all.exchange_and_fold(peer, in, peer, in.data(), out);
    } else {
      // What is sent must stay while the sum is written elsewhere.
      thread_local std::vector<float> before;
      before.assign(out.begin(), out.end());
      all.exchange_and_fold(peer, before, peer, before.data(), out);
    }
  }
}

// Blocks: reduce_scatter and allgather, which move the fewest bytes.
void allreduce_of_blocks(world& all, std::span<const float> in, std::span<float> out) {
  const std::span<float> mine = part(out, all.rank(), all.size());
  reduce_scatter(all, in, mine);
  allgather(all, mine, out);
}

void alltoall(world& all, std::span<const float> in, std::span<float> out) {
  const int p = all.size();
  copy(part(in, all.rank(), p), part(out, all.rank(), p));
  for (int k = 1; k < p; ++k) {
    all.exchange(all.after(k), part(in, all.after(k), p), all.before(k), part(out, all.before(k), p));
  }
}

void broadcast_along_tree(world& all, std::span<float> data) {
  // Binomial, root 0.
  const auto rank = static_cast<unsigned>(all.rank());
  const unsigned size = static_cast<unsigned>(all.size());
  if (rank != 0) {
    const auto parent = static_cast<int>(rank & (rank - 1));
    all.exchange(parent, {}, parent, data);
  }
  unsigned bit = rank == 0 ? std::bit_ceil(size) / 2 : (rank & -rank) / 2;
  for (; bit > 0; bit /= 2) {
    const auto child = static_cast<int>(rank + bit);
    if (rank + bit < size) all.exchange(child, data, child, {});
  }
}

void scatter(world& all, std::span<const float> in, std::span<float> mine) {
  if (all.rank() != 0) return all.exchange(0, {}, 0, mine);
  copy(part(in, 0, all.size()), mine);
  for (int r = 1; r < all.size(); ++r) all.exchange(r, part(in, r, all.size()), r, {});
}

void gather(world& all, std::span<const float> mine, std::span<float> out) {
  if (all.rank() != 0) return all.exchange(0, mine, 0, {});
  if (mine.data() != out.data()) copy(mine, part(out, 0, all.size()));
  for (int r = 1; r < all.size(); ++r) all.exchange(r, {}, r, part(out, r, all.size()));
}

void broadcast_of_blocks(world& all, std::span<float> data) {
  const std::span<float> mine = part(data, all.rank(), all.size());
  if (all.rank() != 0) all.exchange(0, {}, 0, mine);
  for (int r = 1; all.rank() == 0 && r < all.size(); ++r) all.exchange(r, part(data, r, all.size()), r, {});
  allgather(all, mine, data);
}

void reduce_to_root(world& all, std::span<const float> in, std::span<float> out) {
  if (all.rank() != 0) return all.exchange(0, in, 0, {});
  if (all.size() == 1) return copy(in, out);
  const float* own = in.data();
  for (int r = 1; r < all.size(); ++r) {
    all.exchange_and_fold(r, {}, r, own, out);
    own = out.data();
  }
}

void reduce_of_blocks(world& all, std::span<const float> in, std::span<float> out) {
  thread_local std::vector<float> sums;
  sums.resize(in.size());
  const std::span<float> mine = part(all.rank() == 0 ? out : std::span<float>(sums), all.rank(), all.size());
  reduce_scatter(all, in, mine);
  gather(all, mine, out);
}

template <class Use>
void visit(world& all, measure::collective what, measure::buffers& data, Use use) {
  using measure::collective;
  const std::span<const float> in = data.input();
  const std::span<float> out = data.output();
  switch (what) {
    case collective::broadcast:
      use([&all, out] { broadcast_along_tree(all, out); });
      return use([&all, out] { broadcast_of_blocks(all, out); });
    case collective::scatter:
      return use([&all, in, out] { scatter(all, in, out); });
    case collective::gather:
      return use([&all, in, out] { gather(all, in, out); });
    case collective::reduce:
      use([&all, in, out] { reduce_to_root(all, in, out); });
      return use([&all, in, out] { reduce_of_blocks(all, in, out); });
    case collective::reduce_scatter:
      return use([&all, in, out] { reduce_scatter(all, in, out); });
    case collective::allgather:
      return use([&all, in, out] {
        copy(in, part(out, all.rank(), all.size()));
        allgather(all, in, out);
      });
    case collective::allreduce:
      if (std::has_single_bit(static_cast<unsigned>(all.size()))) {
        use([&all, in, out] { allreduce_of_whole(all, in, out); });
      }
      return use([&all, in, out] { allreduce_of_blocks(all, in, out); });
    case collective::alltoall:
      return use([&all, in, out] { alltoall(all, in, out); });
    case collective::barrier:
      return use([&all] { all.barrier(); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  return measure::program(argc, argv, [](const measure::arguments& asked) {
    if (asked.algorithm != "auto") throw std::invalid_argument("raw sockets have no algorithms");
    const listeners open(asked.ranks);
    return measure::in_processes(asked.ranks, [&](int rank) {
      world all(rank, asked.ranks, open.connect_all(rank));
      measure::pin(rank, asked.cpus);
      measure::report_cpus(all);
      if (asked.dry_run) return;
      measure::all_sizes(all, asked,
                         [&](measure::buffers& data, auto use) { visit(all, asked.what, data, std::move(use)); });
    });
  });
}
