// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/derive.hpp>
#include <tutti/schedule/proof_buffer.hpp>

#include <array>
#include <concepts>
#include <type_traits>
#include <utility>

namespace tutti {

/// A list of group elements for each size, one a round: what `greedy_route` makes a route of. A tag type with
///
/// - `G::name`: what users read in messages and tables;
/// - `G::rounds(size)`: number of rounds, 0 for one rank;
/// - `G::generator(size, k)`: rank x sends to rank `x * generator` in round k; taken modulo `size`.
///
/// Optional, as in a route: `G::group_type`, `G::supports(size)`.
template <class G>
concept generator_list = requires(int n) {
  { G::name } -> std::convertible_to<std::string_view>;
  { G::rounds(n) } -> std::same_as<int>;
  { G::generator(n, n) } -> std::same_as<int>;
};

namespace detail {

/// A greedy route among one number of ranks, written out.
struct greedy_plan {
  int rounds;
  const int* first_port;  // of each round in `hops`; one entry more than there are rounds
  const hop* hops;
  const int* sent_in;  // the round that sends displacement h
};

/// Works out a plan. Cost: O(size * rounds), for a logarithmic number of rounds O(size * log size).
template <generator_list G>
class greedy_work {
 public:
  using group_type = typename route_group<G>::type;

  constexpr greedy_work() = default;
  constexpr explicit greedy_work(int size) { make(size); }
  constexpr int size() const { return size_; }
  constexpr int hops() const { return hops_.size(); }
  constexpr greedy_plan plan() { return {rounds_, first_port_.begin(), hops_.begin(), sent_in_.begin()}; }

  constexpr void make(int size) {
    size_ = size;
    rounds_ = G::rounds(size);
    looks_ = 0;
    const group_type g{size};
    by_.clear();
    for (int k = 0; k < rounds_; ++k) by_.push(modulo(G::generator(size, k), size));
    sent_in_.clear();
    seen_.clear();
    for (int h = 0; h < size; ++h) {
      sent_in_.push(h == 0 ? rounds_ : -1);
      seen_.push(0);
    }
    // From the last round back: it sends what its generator reaches from where later rounds end, if they do not.
    reached_.clear();
    reached_.push(0);
    known_after_.clear();
    for (int k = rounds_ - 1; k >= 0; --k) {
      const int known = reached_.size();
      known_after_.push(known);
      for (int i = 0; i < known; ++i) {
        const int h = g.multiply(by_[k], reached_[i]);
        if (sent_in_[h] >= 0) continue;
        sent_in_[h] = k;
        reached_.push(h);
      }
    }
    known_after_.push(reached_.size());
    hops_.clear();
    first_port_.clear();
    for (int k = 0; k < rounds_; ++k) {
      first_port_.push(hops_.size());
      add_hops(g, k);
    }
    first_port_.push(hops_.size());
  }

 private:
  /// In as few progressions as one stride gives: powers of two and generators are tried.
  constexpr void add_hops(const group_type& g, int k) {
    int best = 1;
    int fewest = size_;
    const auto consider = [&](int stride) {
      int sets = 0;
      each_set(g, k, stride, [&](block_set) { ++sets; });
      if (sets < fewest) fewest = sets, best = stride;
    };
    for (int stride = 1; stride <= size_ / 2 && fewest > 1; stride *= 2) consider(stride);
    for (int i = 0; i < rounds_ && fewest > 1; ++i) {
      if (by_[i] != 0) consider(by_[i]);
    }
    each_set(g, k, best, [&](block_set what) { hops_.push({by_[k], what}); });
  }

  /// The displacements of round k as maximal progressions, or single ones where the group does not move those.
  template <class Visit>
  constexpr void each_set(const group_type& g, int k, int stride, Visit visit) {
    ++looks_;
    const int end = known_after_[rounds_ - k];
    for (int n = known_after_[rounds_ - 1 - k]; n < end; ++n) {
      const int h = reached_[n];
      if (seen_[h] == looks_) continue;
      int first = h;
      for (int before = wrapped(h - stride, size_); before != h && sent_in_[before] == k;) {
        first = before;
        before = wrapped(first - stride, size_);
      }
      block_set set{first, stride, 0};
      for (int i = first; sent_in_[i] == k && seen_[i] != looks_; i = wrapped(i + stride, size_)) {
        seen_[i] = looks_;
        ++set.count;
      }
      if (g.translatable(set)) {
        visit(set);
      } else {
        for (int i = 0; i < set.count; ++i) visit(one_block(set.at(i, size_)));
      }
    }
  }

  int size_ = 0;
  int rounds_ = 0;
  proof_buffer<int> by_;
  proof_buffer<int> sent_in_;
  proof_buffer<int> reached_;      // displacements, those of the last round first
  proof_buffer<int> known_after_;  // how many of them later rounds reach, of each round, the last first
  proof_buffer<int> seen_;         // by which look
  int looks_ = 0;
  proof_buffer<int> first_port_;
  proof_buffer<hop> hops_;
};

/// The plan among `Size` ranks as constants.
template <class G, int Size>
struct greedy_constants {
  static constexpr int rounds = G::rounds(Size);
  template <int Hops>
  struct arrays {
    int first_port[rounds + 1] = {};
    hop hops[Hops] = {};
    int sent_in[Size] = {};
    constexpr arrays(const greedy_plan& from, int hop_count) {
      for (int k = 0; k <= rounds; ++k) first_port[k] = from.first_port[k];
      for (int i = 0; i < hop_count; ++i) hops[i] = from.hops[i];
      for (int h = 0; h < Size; ++h) sent_in[h] = from.sent_in[h];
    }
  };
  // With room for all that could be needed, then with as much as is.
  static constexpr arrays<Size> roomy = [] {
    greedy_work<G> work{Size};
    return arrays<Size>{work.plan(), work.hops()};
  }();
  static constexpr int hops = roomy.first_port[rounds];
  static constexpr arrays<hops + 1> made{greedy_plan{rounds, roomy.first_port, roomy.hops, roomy.sent_in}, hops};
  static constexpr greedy_plan plan{rounds, made.first_port, made.hops, made.sent_in};
};

inline constexpr int greedy_constant_sizes = 64;

template <class G, int Size>
constexpr greedy_plan greedy_constant_plan() {
  if constexpr (supports<G>(Size)) {
    return greedy_constants<G, Size>::plan;
  } else {
    return {};
  }
}

template <class G>
inline constexpr auto greedy_constant_plans = []<int... I>(std::integer_sequence<int, I...>) {
  return std::array<greedy_plan, sizeof...(I) + 1>{greedy_plan{}, greedy_constant_plan<G, I + 1>()...};
}
(std::make_integer_sequence<int, greedy_constant_sizes>{});

/// What a thread has worked out last, for more ranks than there are constants for.
template <class G>
greedy_plan greedy_remembered_plan(int size) {
  thread_local greedy_work<G> last;
  if (last.size() != size) last.make(size);
  return last.plan();
}

template <class G, class Use>
constexpr auto with_greedy_plan(int size, Use use) {
  if (size <= greedy_constant_sizes) return use(greedy_constant_plans<G>[static_cast<unsigned>(size)]);
  if (std::is_constant_evaluated()) return use(greedy_work<G>{size}.plan());
  return use(greedy_remembered_plan<G>(size));
}

}  // namespace detail

/// The route along a list of generators that sends every displacement as late as it can: round k sends what its
/// generator reaches from where the later rounds end, unless they reach it themselves. It is correct, for any group,
/// where the generators reach all ranks: ask `proved`. n(p-1)/p bytes per rank in the rounds of the list; a message is
/// as many sets as it takes progressions. Does not keep rank order.
///
/// Up to 64 ranks its hops are constants; beyond, each thread works them out once for the number of ranks it last used
/// them for, which takes O(p log p) time and O(p) memory.
template <generator_list Generators>
struct greedy_route {
  static constexpr std::string_view name = Generators::name;
  using group_type = typename detail::route_group<Generators>::type;
  static constexpr bool supports(int size) { return tutti::supports<Generators>(size); }
  static constexpr int rounds(int size) { return Generators::rounds(size); }
  static constexpr int ports(int size, int k) {
    return detail::with_greedy_plan<Generators>(
        size, [&](const detail::greedy_plan& plan) { return plan.first_port[k + 1] - plan.first_port[k]; });
  }
  static constexpr hop entry(int size, int k, int port) {
    return detail::with_greedy_plan<Generators>(
        size, [&](const detail::greedy_plan& plan) { return plan.hops[plan.first_port[k] + port]; });
  }
};

namespace detail {
template <class G>
struct remaining_way<greedy_route<G>> {
  static constexpr int before(int size, int k, int h) {
    return with_greedy_plan<G>(size, [&](const greedy_plan& plan) {
      const typename route_group<G>::type g{size};
      while (h != 0 && plan.sent_in[h] < k) {
        h = g.multiply(g.inverse(plan.hops[plan.first_port[plan.sent_in[h]]].by), h);
      }
      return h;
    });
  }
};
}  // namespace detail

}  // namespace tutti
