// SPDX-License-Identifier: BSL-1.0
#include <tutti/collective/exscan.hpp>
#include <tutti/collective/scan.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"
#include "deadline.hpp"

namespace {

using namespace conformance;
using enum tutti::collective;

template <class A, class T, class Op>
void check_inclusive(auto& comm, findings& found, const contributions<T, Op>& data, const prefixes<T, Op>& expected,
                     std::size_t n) {
  const std::span<const T> mine = data.of(comm.rank(), n);
  found.about("scan<", tutti::name_of<A>(), "> of ", n, " x ", tutti::type_name<T>());
  {
    const guarded<T> in(mine);
    guarded<T> out(n, 2);
    tutti::scan<A>(comm, in.values(), out.span(), data.operation());
    check_output(found, out, expected.up_to(comm.rank(), n));
    check_input(found, in, mine);
  }
  guarded<T> inout(mine, 3);
  tutti::scan<A>(comm, inout.span(), data.operation());
  check_output(found, inout, expected.up_to(comm.rank(), n));
}

template <class A, class T, class Op>
void check_exclusive(auto& comm, findings& found, const contributions<T, Op>& data, const prefixes<T, Op>& expected,
                     std::size_t n) {
  const std::span<const T> mine = data.of(comm.rank(), n);
  found.about("exscan<", tutti::name_of<A>(), "> of ", n, " x ", tutti::type_name<T>());
  const auto check = [&](const guarded<T>& out, bool in_place) {
    if (comm.rank() > 0) {
      check_output(found, out, expected.up_to(comm.rank() - 1, n));
    } else if constexpr (tutti::identity<Op, T>::known) {
      const std::vector<T> nothing(n, tutti::identity<Op, T>::value);
      check_output(found, out, std::span<const T>(nothing));
    } else if (in_place) {
      check_input(found, out, mine);
    } else {
      found.check(out.untouched(), "rank 0's output was written, though the operation has no identity");
    }
  };
  {
    const guarded<T> in(mine);
    guarded<T> out(n, 2);
    tutti::exscan<A>(comm, in.values(), out.span(), data.operation());
    check(out, false);
    check_input(found, in, mine);
  }
  guarded<T> inout(mine, 3);
  tutti::exscan<A>(comm, inout.span(), data.operation());
  check(inout, true);
}

template <class Launcher, class T, class Op>
void check_all(kind<T, Op> what) {
  for (const int ranks : rank_counts) {
    const std::vector<std::size_t> lengths = vector_lengths<T>(ranks);
    const contributions<T, Op> data(ranks, lengths.back(), what.op);
    const prefixes<T, Op> expected(data, ranks, lengths.back());
    for_each_algorithm_for<scan, T, Op>(algorithms{}, ranks, [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        for (const std::size_t n : lengths) check_inclusive<A>(comm, found, data, expected, n);
      });
    });
    for_each_algorithm_for<exscan, T, Op>(algorithms{}, ranks, [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        for (const std::size_t n : lengths) check_exclusive<A>(comm, found, data, expected, n);
      });
    });
  }
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("scan and exscan by every algorithm", Launcher, every_algorithm) {
  check_all<Launcher>(kind<float, std::plus<>>{});
}
TEST_CASE_TEMPLATE_APPLY(every_algorithm, launchers);

TEST_CASE_TEMPLATE_DEFINE("scan and exscan in rank order where the operation does not commute", Launcher, every_order) {
  check_all<Launcher>(kind<matrix, std::multiplies<>>{});
}
TEST_CASE_TEMPLATE_APPLY(every_order, launchers);

TEST_CASE("scan and exscan of buffers that do not fit together are refused") {
  tutti::run(2, [](auto& comm) {
    const std::vector<int> in(3);
    std::vector<int> out(2);
    CHECK_THROWS_WITH_AS(tutti::scan(comm, in, out, std::plus{}),
                         doctest::Contains("the output holds 2 elements, needs 3"), tutti::usage_error);
    std::vector<int> both(4);
    CHECK_THROWS_WITH_AS(tutti::exscan(comm, std::span(both).first(3), std::span(both).last(3), std::plus{}),
                         doctest::Contains("input and output overlap"), tutti::usage_error);
  });
}
