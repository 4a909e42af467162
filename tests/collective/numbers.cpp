// SPDX-License-Identifier: BSL-1.0

// What collectives promise about numbers: which bits come out, on which rank, in which run.

#include <tutti/tutti.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"
#include "deadline.hpp"

namespace {

using namespace conformance;

/// Numbers of all magnitudes: nearly every addition of them rounds, so that the order of a fold shows in its bits.
template <class T>
T rough(int rank, std::size_t i) {
  const std::uint32_t bits = noise(static_cast<std::size_t>(rank), i, 77);
  const T mantissa = static_cast<T>(bits % 1'000'003) / T{1'000'003} - T{0.5};
  return std::ldexp(mantissa, static_cast<int>(bits >> 27) - 16);
}
template <class T>
std::vector<T> rough_vector(int rank, std::size_t n) {
  std::vector<T> result;
  for (std::size_t i = 0; i < n; ++i) result.push_back(rough<T>(rank, i));
  return result;
}

/// The sums of the ranks' numbers as one aligned binary tree adds them.
template <class T>
T tree(int first, int count, std::size_t i) {
  if (count == 1) return rough<T>(first, i);
  return tree<T>(first, count / 2, i) + tree<T>(first + count / 2, count / 2, i);
}
/// The same one after the other.
template <class T>
T row(int ranks, std::size_t i) {
  T sum = rough<T>(0, i);
  for (int rank = 1; rank < ranks; ++rank) sum += rough<T>(rank, i);
  return sum;
}

/// Rank 0 tells what it has, and every rank has the same bits.
template <class T>
void same_everywhere(auto& comm, findings& found, const std::vector<T>& mine) {
  std::vector<T> first = mine;
  tutti::broadcast(comm, first, 0);
  found.same("compared with rank 0 the result", std::span<const T>(mine), std::span<const T>(first));
}

template <class Launcher, class T>
void check_bits() {
  for (const int ranks : rank_counts) {
    for (const std::size_t n : {std::size_t{3}, std::size_t{1003}, std::size_t{6001}}) {
      // Any order of p - 1 additions is as near as this to any other.
      std::vector<T> sums, bounds;
      std::vector<std::vector<T>> contributed;
      for (int rank = 0; rank < ranks; ++rank) contributed.push_back(rough_vector<T>(rank, n));
      for (std::size_t i = 0; i < n; ++i) {
        T magnitude = 0;
        for (const std::vector<T>& of_rank : contributed) magnitude += std::abs(of_rank[i]);
        sums.push_back(row<T>(ranks, i));
        bounds.push_back(magnitude * static_cast<T>(ranks) * std::numeric_limits<T>::epsilon());
      }
      for_each_algorithm_for<tutti::collective::allreduce, T, std::plus<>>(
          unless_sanitized<representative_algorithms>{}, ranks, [&]<class A>() {
            std::vector<T> earlier;
            for (int run = 0; run < 2; ++run) {
              on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
                found.about("allreduce<", tutti::name_of<A>(), "> of ", n, " x ", tutti::type_name<T>());
                const std::vector<T>& mine = contributed[static_cast<std::size_t>(comm.rank())];
                std::vector<T> apart(n), in_place = mine, again = mine, pending = mine;
                tutti::allreduce<A>(comm, mine, apart, std::plus<>{});
                same_everywhere(comm, found, apart);
                tutti::allreduce<A>(comm, in_place, std::plus<>{});
                found.same("in place the result", std::span<const T>(in_place), std::span<const T>(apart));
                tutti::allreduce<A>(comm, again, std::plus<>{});
                found.same("a second time the result", std::span<const T>(again), std::span<const T>(apart));
                if constexpr (std::is_same_v<T, float>) {
                  tutti::iallreduce<A>(comm, pending, std::plus<>{}).wait();
                  found.same("not blocking the result", std::span<const T>(pending), std::span<const T>(apart));
                }
                if constexpr (Launcher::shares_memory) {
                  if (comm.rank() == 0 && run == 0) earlier = apart;
                  if (run == 1) {
                    found.same("in a second run the result", std::span<const T>(apart), std::span<const T>(earlier));
                  }
                }
                // The others have the same bits.
                for (std::size_t i = 0; comm.rank() == 0 && i < n; ++i) {
                  if (!(std::abs(apart[i] - sums[i]) <= bounds[i])) found.wrong(text("the sum is too far off at ", i));
                }
              });
            }
          });
    }
  }
}

/// The root's result of a reduction.
template <class A, class T>
std::vector<T> reduced(auto& comm, std::size_t n, int root) {
  std::vector<T> data = rough_vector<T>(comm.rank(), n);
  tutti::reduce<A>(comm, data, std::plus<>{}, root);
  tutti::broadcast(comm, data, root);
  return data;
}

template <class... A>
struct allreduces {
  template <class T>
  static void check(auto& comm, findings& found, std::span<const T> expected) {
    const auto one = [&]<class B>() {
      found.about("allreduce<", tutti::name_of<B>(), "> of ", expected.size(), " x ", tutti::type_name<T>());
      std::vector<T> data = rough_vector<T>(comm.rank(), expected.size());
      tutti::allreduce<B>(comm, data, std::plus<>{});
      found.same("the sum", std::span<const T>(data), expected);
    };
    (one.template operator()<A>(), ...);
  }
};

using floats = std::vector<float>;

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("every rank and every run has the same bits: float", Launcher, float_bits) {
  check_bits<Launcher, float>();
}
TEST_CASE_TEMPLATE_APPLY(float_bits, launchers);

TEST_CASE_TEMPLATE_DEFINE("every rank and every run has the same bits: double", Launcher, double_bits) {
  if constexpr (!test::sanitized) check_bits<Launcher, double>();
}
TEST_CASE_TEMPLATE_APPLY(double_bits, launchers);

TEST_CASE_TEMPLATE_DEFINE("who folds in one row gives the bits of a loop", Launcher, in_one_row) {
  for (const int ranks : rank_counts) {
    on_ranks<Launcher>(ranks, [ranks](auto& comm, findings& found) {
      for (const std::size_t n : {std::size_t{5}, std::size_t{9001}}) {
        floats expected;
        for (std::size_t i = 0; i < n; ++i) expected.push_back(row<float>(ranks, i));
        allreduces<tutti::naive, tutti::flat, tutti::single_master>::check<float>(comm, found, expected);
        for (const int root : roots(ranks)) {
          found.about("reduce<star> of ", n, " x float to ", root);
          const floats sum = reduced<tutti::star, float>(comm, n, root);
          found.same("the sum", std::span<const float>(sum), std::span<const float>(expected));
        }
      }
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(in_one_row, launchers);

TEST_CASE_TEMPLATE_DEFINE("who folds in one aligned tree gives its bits", Launcher, in_one_tree) {
  for (const int ranks : {2, 4, 8, 16}) {
    on_ranks<Launcher>(ranks, [ranks](auto& comm, findings& found) {
      for (const std::size_t n : {std::size_t{5}, std::size_t{9001}}) {
        floats expected;
        for (std::size_t i = 0; i < n; ++i) expected.push_back(tree<float>(0, ranks, i));
        allreduces<tutti::recursive_doubling, tutti::halving_doubling, tutti::hypercube_doubling,
                   tutti::binomial>::check<float>(comm, found, expected);
      }
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(in_one_tree, launchers);

TEST_CASE_TEMPLATE_DEFINE("a binomial reduce has the same bits for every root", Launcher, every_root) {
  for (const int ranks : rank_counts) {
    on_ranks<Launcher>(ranks, [](auto& comm, findings& found) {
      const floats at_0 = reduced<tutti::binomial, float>(comm, 1003, 0);
      for (int root = 1; root < comm.size(); ++root) {
        found.about("reduce<binomial> to ", root);
        const floats sum = reduced<tutti::binomial, float>(comm, 1003, root);
        found.same("the sum", std::span<const float>(sum), std::span<const float>(at_0));
      }
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(every_root, launchers);

// ---- NaN, zeros, infinities -----------------------------------------------------------------------------------------

namespace {

/// Element i is a NaN on rank i and an ordinary number elsewhere; the last is a number everywhere.
floats with_nans(int rank, int ranks) {
  floats result;
  for (int i = 0; i <= ranks; ++i) {
    result.push_back(i == rank ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>((rank * 7 + i) % 5));
  }
  return result;
}

/// All operations as one type, for the sake of the time that compiling takes.
using any_operation = tutti::commutative<float (*)(float, float)>;
template <class Op>
any_operation any() {
  return any_operation([](float a, float b) { return Op{}(a, b); });
}
using few = list<tutti::flat, tutti::recursive_doubling>;

template <class Op>
void check_nans(findings& found, const floats& result, int ranks, Op op) {
  for (int i = 0; i < ranks; ++i) {
    if (!std::isnan(result[static_cast<std::size_t>(i)])) found.wrong(text("the NaN of rank ", i, " is lost"));
  }
  float expected = static_cast<float>(ranks % 5);
  for (int rank = 1; rank < ranks; ++rank) expected = op(expected, static_cast<float>((rank * 7 + ranks) % 5));
  if (result.back() != expected) found.wrong(text("without a NaN: ", result.back(), ", expected ", expected));
}

template <class Launcher, class Algorithms, class Op>
void check_nans(Algorithms chosen, Op op) {
  using tutti::collective;
  for (int ranks = 2; ranks <= 9; ++ranks) {
    on_ranks<Launcher>(ranks, [ranks, chosen, op](auto& comm, findings& found) {
      const floats mine = with_nans(comm.rank(), ranks);
      for_each_algorithm_for<collective::allreduce, float, Op>(chosen, ranks, [&]<class A>() {
        found.about("allreduce<", tutti::name_of<A>(), "> with ", tutti::type_name<Op>());
        floats result(mine.size());
        tutti::allreduce<A>(comm, mine, result, op);
        check_nans(found, result, ranks, op);
        same_everywhere(comm, found, result);
      });
      for_each_algorithm_for<collective::reduce, float, Op>(chosen, ranks, [&]<class A>() {
        found.about("reduce<", tutti::name_of<A>(), "> with ", tutti::type_name<Op>());
        floats result = mine;
        tutti::reduce<A>(comm, result, op, ranks - 1);
        if (comm.rank() == ranks - 1) check_nans(found, result, ranks, op);
      });
      for_each_algorithm_for<collective::reduce_scatter, float, Op>(chosen, ranks, [&]<class A>() {
        found.about("reduce_scatter<", tutti::name_of<A>(), "> with ", tutti::type_name<Op>());
        const tutti::layout blocks(mine.size(), ranks);
        floats result(mine.size());
        floats own(blocks.size(comm.rank()));
        tutti::reduce_scatter<A>(comm, mine, own, op);
        // Together they are the whole fold: every rank tells its block in turn.
        for (int rank = 0; rank < ranks; ++rank) {
          const std::span<float> block = std::span(result).subspan(blocks.offset(rank), blocks.size(rank));
          if (rank == comm.rank()) std::copy(own.begin(), own.end(), block.begin());
          tutti::broadcast(comm, block, rank);
        }
        check_nans(found, result, ranks, op);
      });
    });
  }
}

/// `op` over -0 and +0 held by one rank each in turn, the others holding the other zero.
template <class Launcher, class Algorithms, class Op>
void check_zeros(Algorithms chosen, Op op, bool minus_wins) {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    on_ranks<Launcher>(ranks, [ranks, chosen, op, minus_wins](auto& comm, findings& found) {
      floats mine;
      for (int i = 0; i < ranks; ++i) mine.push_back(i == comm.rank() ? -0.0F : 0.0F);
      for (int i = 0; i < ranks; ++i) mine.push_back(i == comm.rank() ? 0.0F : -0.0F);
      for_each_algorithm_for<tutti::collective::allreduce, float, Op>(chosen, ranks, [&]<class A>() {
        found.about("allreduce<", tutti::name_of<A>(), "> with ", tutti::type_name<Op>());
        floats result(mine.size());
        tutti::allreduce<A>(comm, mine, result, op);
        for (const float zero : result) {
          if (zero != 0.0F || std::signbit(zero) != minus_wins) found.wrong(text("the result is ", zero));
        }
      });
    });
  }
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("F10: minimum and maximum give NaN whichever rank holds it", Launcher, nans) {
  check_nans<Launcher>(unless_sanitized<representative_algorithms>{}, any<tutti::minimum>());
  check_nans<Launcher>(unless_sanitized<representative_algorithms>{}, any<tutti::maximum>());
  check_nans<Launcher>(few{}, tutti::minimum{});
  check_nans<Launcher>(few{}, tutti::maximum{});
}
TEST_CASE_TEMPLATE_APPLY(nans, launchers);

TEST_CASE_TEMPLATE_DEFINE("F10: minus zero is less than plus zero whichever rank holds it", Launcher, zeros) {
  check_zeros<Launcher>(unless_sanitized<representative_algorithms>{}, any<tutti::minimum>(), true);
  check_zeros<Launcher>(unless_sanitized<representative_algorithms>{}, any<tutti::maximum>(), false);
  check_zeros<Launcher>(few{}, tutti::minimum{}, true);
  check_zeros<Launcher>(few{}, tutti::maximum{}, false);
}
TEST_CASE_TEMPLATE_APPLY(zeros, launchers);

TEST_CASE_TEMPLATE_DEFINE("of NaNs that differ in sign and payload one and the same wins on every rank", Launcher,
                          payloads) {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    on_ranks<Launcher>(ranks, [ranks](auto& comm, findings& found) {
      // Of several lengths, so that the loops' ends are tried as well as their vectorised middles.
      for (const std::size_t n : {std::size_t{1}, std::size_t{3}, std::size_t{200}}) {
        const auto payload = static_cast<std::uint32_t>(comm.rank() + 1);
        const floats mine(n * static_cast<std::size_t>(ranks),
                          std::bit_cast<float>(0x7FC00000U + payload + (comm.rank() % 2 == 0 ? 0x80000000U : 0U)));
        for_each_algorithm_for<tutti::collective::allreduce, float, std::plus<>>(
            unless_sanitized<representative_algorithms>{}, ranks, [&]<class A>() {
              floats result(mine.size());
              found.about("allreduce<", tutti::name_of<A>(), "> with minimum of ", mine.size(), " NaNs");
              tutti::allreduce<A>(comm, mine, result, any<tutti::minimum>());
              same_everywhere(comm, found, result);
              // Which of two NaNs an addition passes on is the compiler's choice in each loop: only that it is one is
              // sure.
              found.about("allreduce<", tutti::name_of<A>(), "> with plus of ", mine.size(), " NaNs");
              tutti::allreduce<A>(comm, mine, result, std::plus<>{});
              found.check(std::all_of(result.begin(), result.end(), [](float x) { return std::isnan(x); }),
                          "a NaN is lost");
            });
      }
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(payloads, launchers);

TEST_CASE_TEMPLATE_DEFINE("infinities of both signs sum to NaN on every rank", Launcher, infinities) {
  for (const int ranks : {2, 3, 8}) {
    on_ranks<Launcher>(ranks, [ranks](auto& comm, findings& found) {
      const float infinity = std::numeric_limits<float>::infinity();
      const float mine = comm.rank() == 0 ? infinity : comm.rank() == ranks - 1 ? -infinity : 1.0F;
      for_each_algorithm_for<tutti::collective::allreduce, float, std::plus<>>(
          unless_sanitized<representative_algorithms>{}, ranks, [&]<class A>() {
            found.about("allreduce<", tutti::name_of<A>(), "> with plus of infinities");
            floats result(20, mine);
            tutti::allreduce<A>(comm, result, std::plus<>{});
            found.check(std::isnan(result[0]) && std::isnan(result[19]), "the sum is no NaN");
            same_everywhere(comm, found, result);
          });
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(infinities, launchers);
