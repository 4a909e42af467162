// SPDX-License-Identifier: BSL-1.0

// Collectives by chance between processes: any of them by any of some algorithms, of any size, in buffers of any kind,
// which each rank chooses for itself, blocking ones among nonblocking ones. Every result is compared with that of one
// rank alone, and so is all that must not have changed.

#include <tutti/run_processes.hpp>
#include <tutti/schedule/algorithms.hpp>
#include <tutti/tutti.hpp>

#include "child_process.hpp"
#include "collective/elements.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using conformance::matrix;
using conformance::triple;
using communicator = tutti::communicator<tutti::processes>;
using tutti::collective;

/// One of these is more than a piece of a message among more than two ranks.
struct giant {
  std::array<std::uint32_t, 17500> words;
  friend giant operator+(giant x, const giant& y) {
    for (std::size_t i = 0; i < x.words.size(); ++i) x.words[i] += y.words[i];
    return x;
  }
};

class chance {
 public:
  explicit chance(std::size_t seed, std::size_t rank = 0) : seed_(seed), rank_(rank) {}
  /// A number below n.
  std::size_t below(std::size_t n) { return conformance::noise(seed_, rank_, drawn_++) % n; }
  bool coin() { return below(2) != 0; }

 private:
  std::size_t seed_;
  std::size_t rank_;
  std::size_t drawn_ = 0;
};

/// One call, the same on all ranks.
struct job {
  std::string name;
  std::size_t number = 0;
  std::size_t count = 0;
  int root = 0;
  bool in_place = false;
  bool nonblocking = false;
};

/// Element i of that rank's contribution to the call.
template <class T>
T given(const job& j, int rank, std::size_t i) {
  const int who = static_cast<int>(j.number) * 16 + rank;
  if constexpr (std::is_same_v<T, giant>) {
    giant result;
    for (std::size_t k = 0; k < result.words.size(); ++k)
      result.words[k] = static_cast<std::uint32_t>(who) * 2654435761U + static_cast<std::uint32_t>(97 * k + i);
    return result;
  } else {
    return conformance::element<T>(who, i);
  }
}

/// The fold of the first `ranks` contributions.
template <class T, class Op>
T folded(const job& j, int ranks, std::size_t i, Op op) {
  T result = given<T>(j, 0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    if constexpr (std::is_same_v<Op, tutti::reproducible_sum>) {
      result += given<T>(j, rank, i);  // whole numbers
    } else {
      result = static_cast<T>(op(result, given<T>(j, rank, i)));
    }
  }
  return result;
}

/// Elements somewhere in memory of some kind, with others around that must stay as they are.
template <class T>
class buffer {
 public:
  buffer(communicator& comm, const job& j, chance& by, std::size_t n)
      : job_(&j), rank_(comm.rank()), n_(n), before_(by.below(2)) {
    const std::size_t all = before_ + n + 1;
    if (by.below(3) == 0) {
      shared_ = comm.allocate<T>(all);
      data_ = shared_.data();
    } else {
      own_.resize(all);
      data_ = own_.data();
    }
    std::memset(static_cast<void*>(data_), 0xA5, all * sizeof(T));
  }
  /// Fills elements from `at` on with those of this rank's contribution.
  void give(std::size_t at, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) whole()[at + i] = given<T>(*job_, rank_, i);
  }
  void give() { give(0, n_); }

  std::span<T> whole() { return {data_ + before_, n_}; }
  std::span<const T> read() { return whole(); }

  /// Throws if element `at + i` is not `value(i)`, for i in [0, n).
  template <class Value>
  void expect(std::size_t at, std::size_t n, Value&& value) {
    for (std::size_t i = 0; i < n; ++i) {
      const T right = value(i);
      if (std::memcmp(static_cast<const void*>(&whole()[at + i]), static_cast<const void*>(&right), sizeof(T)) != 0)
        refuse(at + i);
    }
    expect_frame(0, before_);
    expect_frame(before_ + n_, before_ + n_ + 1);
  }
  void expect_from(int rank, std::size_t at, std::size_t from, std::size_t n) {
    expect(at, n, [&](std::size_t i) { return given<T>(*job_, rank, from + i); });
  }
  template <class Op>
  void expect_fold(int ranks, std::size_t at, std::size_t from, std::size_t n, Op op) {
    expect(at, n, [&](std::size_t i) { return folded<T>(*job_, ranks, from + i, op); });
  }

 private:
  void expect_frame(std::size_t begin, std::size_t end) const {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(data_);
    if (!std::all_of(bytes + begin * sizeof(T), bytes + end * sizeof(T), [](unsigned char b) { return b == 0xA5; }))
      refuse(end);
  }
  [[noreturn]] void refuse(std::size_t at) const {
    std::ostringstream text;
    text << job_->name << ", call " << job_->number << " of " << job_->count << " elements, root " << job_->root
         << (job_->in_place ? ", in place" : "") << (job_->nonblocking ? ", nonblocking" : "")
         << (shared_.empty() ? ", private" : ", shared") << ": wrong at " << at << " on rank " << rank_;
    throw std::runtime_error(text.str());
  }

  const job* job_;
  int rank_;
  std::size_t n_;
  std::size_t before_;
  T* data_;
  std::vector<T> own_;
  tutti::shared_buffer<T> shared_;
};

/// A nonblocking call under way, with its buffers.
class flight {
 public:
  template <class A, class T, class Op>
  static std::unique_ptr<flight> begin(communicator& comm, const job& j, chance& by, Op op) {
    struct one final : flight {
      one(communicator& c, const job& k, chance& own, Op o)
          : what(k),
            operation(o),
            ranks(c.size()),
            rank(c.rank()),
            in(c, what, own, k.count),
            out(c, what, own, k.count),
            pending(start(c)) {}
      tutti::pending<communicator> start(communicator& c) {
        in.give();
        out.give();
        return what.in_place ? tutti::iallreduce<A>(c, out.whole(), operation)
                             : tutti::iallreduce<A>(c, in.read(), out.whole(), operation);
      }
      void check() {
        out.expect_fold(ranks, 0, 0, what.count, operation);
        in.expect_from(rank, 0, 0, what.count);
      }
      bool test() override {
        if (!pending.test()) return false;
        check();
        return true;
      }
      void wait() override {
        pending.wait();
        check();
      }
      job what;
      Op operation;
      int ranks;
      int rank;
      buffer<T> in, out;
      tutti::pending<communicator> pending;
    };
    return std::make_unique<one>(comm, j, by, op);
  }
  flight() = default;
  flight(const flight&) = delete;
  flight& operator=(const flight&) = delete;
  virtual ~flight() = default;
  /// Both check the result once it is there.
  virtual bool test() = 0;
  virtual void wait() = 0;
};

/// A rank, what it chooses for itself, and what it has begun.
struct player {
  communicator& comm;
  chance own;
  std::vector<std::unique_ptr<flight>> begun = {};

  void look_after_one() {
    const auto one = begun.begin() + static_cast<std::ptrdiff_t>(own.below(begun.size()));
    if (own.coin()) {
      (*one)->wait();
    } else if (!(*one)->test()) {
      return;
    }
    begun.erase(one);
  }
};

template <collective C, class A, class T>
void move(player& me, const job& j) {
  communicator& comm = me.comm;
  const auto p = static_cast<std::size_t>(comm.size());
  const auto rank = static_cast<std::size_t>(comm.rank());
  const bool root = comm.rank() == j.root;
  const std::size_t m = j.count / p;
  buffer<T> whole(comm, j, me.own, C == collective::broadcast ? j.count : p * m);
  buffer<T> second(comm, j, me.own, C == collective::alltoall ? p * m : m);
  const auto expect_all = [&](std::size_t from) {
    for (std::size_t r = 0; r < p; ++r) whole.expect_from(static_cast<int>(r), r * m, from, m);
  };
  if constexpr (C == collective::broadcast) {
    if (root) whole.give();
    tutti::broadcast<A>(comm, whole.whole(), j.root);
    whole.expect_from(j.root, 0, 0, j.count);
  } else if constexpr (C == collective::scatter) {
    if (root) whole.give();
    if (j.in_place) {
      static_cast<void>(tutti::scatter<A>(comm, whole.whole(), j.root));
      whole.expect_from(j.root, rank * m, rank * m, m);
    } else {
      tutti::scatter<A>(comm, whole.read(), second.whole(), j.root);
      second.expect_from(j.root, 0, rank * m, m);
    }
    if (root) whole.expect_from(j.root, 0, 0, p * m);
  } else if constexpr (C == collective::gather) {
    second.give();
    whole.give(rank * m, m);
    if (j.in_place) {
      tutti::gather<A>(comm, whole.whole(), j.root);
    } else {
      tutti::gather<A>(comm, second.read(), whole.whole(), j.root);
    }
    if (root) expect_all(0);
    whole.expect_from(comm.rank(), rank * m, 0, m);
  } else if constexpr (C == collective::allgather) {
    second.give();
    if (j.in_place) {
      whole.give(rank * m, m);
      tutti::allgather<A>(comm, whole.whole());
    } else {
      tutti::allgather<A>(comm, second.read(), whole.whole());
    }
    expect_all(0);
  } else {
    second.give();
    if (j.in_place) {
      whole.give();
      tutti::alltoall<A>(comm, whole.whole());
    } else {
      tutti::alltoall<A>(comm, second.read(), whole.whole());
    }
    expect_all(rank * m);
  }
  if constexpr (C == collective::gather || C == collective::allgather || C == collective::alltoall)
    second.expect_from(comm.rank(), 0, 0, C == collective::alltoall ? p * m : m);
}

template <collective C, class A, class T, class Op>
void reduce(player& me, const job& j) {
  communicator& comm = me.comm;
  const Op op = [] {
    if constexpr (std::is_same_v<Op, conformance::add>) {
      return conformance::sum_of_structs;
    } else {
      return Op{};
    }
  }();
  const int ranks = C == collective::scan ? comm.rank() + 1 : C == collective::exscan ? comm.rank() : comm.size();
  const tutti::layout parts(j.count, C == collective::reduce_scatter ? comm.size() : 1);
  const int part = C == collective::reduce_scatter ? comm.rank() : 0;
  const bool has_result = (C != collective::reduce || comm.rank() == j.root) && ranks > 0;
  if constexpr (C == collective::allreduce) {
    if (j.nonblocking) {
      me.begun.push_back(flight::begin<A, T>(comm, j, me.own, op));
      return;
    }
  }
  buffer<T> in(comm, j, me.own, j.count);
  buffer<T> out(comm, j, me.own, parts.size(part));
  in.give();
  const auto call = [&](auto&&... buffers) {
    if constexpr (C == collective::allreduce) tutti::allreduce<A>(comm, buffers..., op);
    if constexpr (C == collective::scan) tutti::scan<A>(comm, buffers..., op);
    if constexpr (C == collective::exscan) tutti::exscan<A>(comm, buffers..., op);
    if constexpr (C == collective::reduce) tutti::reduce<A>(comm, buffers..., op, j.root);
    if constexpr (C == collective::reduce_scatter) static_cast<void>(tutti::reduce_scatter<A>(comm, buffers..., op));
  };
  if (j.in_place) {
    call(in.whole());
    if (has_result) in.expect_fold(ranks, parts.offset(part), parts.offset(part), parts.size(part), op);
  } else {
    call(in.read(), out.whole());
    if (has_result) out.expect_fold(ranks, 0, parts.offset(part), parts.size(part), op);
    in.expect_from(comm.rank(), 0, 0, j.count);
  }
}

struct action {
  std::string name;
  std::size_t element_bytes;
  bool (*supported)(int ranks);
  void (*play)(player&, const job&);
};

template <class... A>
struct by {
  template <collective C, class T>
  static void moves(std::vector<action>& list) {
    (add<C, A, T>(list, &move<C, A, T>), ...);
  }
  template <collective C, class T, class Op>
  static void reductions(std::vector<action>& list) {
    (add<C, A, T>(list, &reduce<C, A, T, Op>), ...);
  }

 private:
  template <collective C, class B, class T>
  static void add(std::vector<action>& list, void (*play)(player&, const job&)) {
    const auto supported = [](int ranks) {
      if constexpr (std::is_same_v<B, tutti::automatic>) {
        return true;
      } else {
        return tutti::supports<B>(ranks);
      }
    };
    list.push_back({std::string(tutti::name_of(C)) + " by " + std::string(B::name), sizeof(T), supported, play});
  }
};

std::vector<action> actions() {
  using namespace tutti;
  using product = std::multiplies<>;
  using conformance::add;
  std::vector<action> list;
  by<automatic, naive, recursive_doubling>::reductions<collective::allreduce, matrix, product>(list);
  by<ring, circulant, recursive_multiplying<4>>::reductions<collective::allreduce, triple, add>(list);
  by<ring, recursive_multiplying<4>>::reductions<collective::allreduce, double, reproducible_sum>(list);
  by<automatic, ring>::reductions<collective::allreduce, giant, add>(list);
  by<automatic, binomial>::reductions<collective::reduce, matrix, product>(list);
  by<circulant_pipelined>::reductions<collective::reduce, triple, add>(list);
  by<flat, canonical_halving>::reductions<collective::reduce_scatter, matrix, product>(list);
  by<chain, recursive_doubling>::reductions<collective::scan, matrix, product>(list);
  by<recursive_doubling>::reductions<collective::exscan, matrix, product>(list);
  by<flat, binomial, circulant_pipelined>::moves<collective::broadcast, triple>(list);
  by<binomial>::moves<collective::scatter, triple>(list);
  by<flat>::moves<collective::gather, triple>(list);
  by<flat, bruck, ring>::moves<collective::allgather, triple>(list);
  by<flat, bruck>::moves<collective::alltoall, triple>(list);
  return list;
}

/// So many calls by chance, the same on every rank.
void play(communicator& comm, const std::vector<action>& list, std::size_t seed, std::size_t calls) {
  chance all(seed);
  player me{comm, chance(seed, 1 + static_cast<std::size_t>(comm.rank()))};
  for (std::size_t number = 0; number < calls; ++number) {
    const action* one = nullptr;
    do one = &list[all.below(list.size())];
    while (!one->supported(comm.size()));
    constexpr std::array<std::size_t, 6> most{64, 1000, 5000, 40000, 100000, 300000};
    const std::size_t bytes = all.below(most[all.below(test::sanitized ? 5 : 6)]);
    job j{one->name, number, 0, static_cast<int>(all.below(static_cast<std::size_t>(comm.size()))), false, false};
    j.count = one->element_bytes == sizeof(giant) ? all.below(4) : bytes / one->element_bytes;
    j.in_place = all.coin();
    j.nonblocking = all.coin();
    one->play(me, j);
    while (!me.begun.empty() && me.own.below(3) == 0) me.look_after_one();
  }
  while (!me.begun.empty()) me.look_after_one();
}

}  // namespace

TEST_CASE("collectives by chance give what one rank alone would get") {
  const test::alarm_limit limit(120);
  const std::vector<action> list = actions();
  for (const int ranks : {2, 3, 4, 5, 8, 9}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(tutti::run_processes(ranks, [&](communicator& comm) {
      comm.timeout(std::chrono::seconds(60));
      play(comm, list, static_cast<std::size_t>(ranks), 30);
    }));
  }
}

TEST_CASE("`ordered` gives the same bits between processes as between threads") {
  const test::alarm_limit limit(60);
  for (const int ranks : {3, 8}) {
    for (const std::size_t count : {std::size_t{3}, std::size_t{2000}, std::size_t{30000}}) {
      CAPTURE(ranks);
      CAPTURE(count);
      std::vector<float> of_threads(count);
      const auto sum = [&](auto& comm, std::vector<float>& out) {
        std::vector<float> in(count);
        for (std::size_t i = 0; i < count; ++i)
          in[i] = 1.1F * conformance::element<float>(comm.rank(), i) + 1e-3F * static_cast<float>(i);
        tutti::allreduce<tutti::ordered>(comm, in, out, std::plus<>{});
      };
      tutti::run(ranks, [&](auto& comm) {
        std::vector<float> out(count);
        sum(comm, out);
        if (comm.rank() == 0) of_threads = out;
      });
      CHECK_NOTHROW(tutti::run_processes(ranks, [&](auto& comm) {
        std::vector<float> out(count);
        sum(comm, out);
        if (std::memcmp(out.data(), of_threads.data(), count * sizeof(float)) != 0)
          throw std::runtime_error("not the bits that threads get");
      }));
    }
  }
}
