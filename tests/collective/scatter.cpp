// SPDX-License-Identifier: BSL-1.0
#include <tutti/collective/scatter.hpp>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <span>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"
#include "deadline.hpp"

namespace {

using namespace conformance;
constexpr auto verb = tutti::collective::scatter;

template <class A, class T>
void check(auto& comm, findings& found, const values<T>& data, std::size_t m, int root) {
  const auto p = static_cast<std::size_t>(comm.size());
  const auto rank = static_cast<std::size_t>(comm.rank());
  const std::span<const T> all = data.of(root, m * p);
  const std::span<const T> expected = all.subspan(rank * m, m);
  const bool is_root = comm.rank() == root;
  found.about("scatter<", tutti::name_of<A>(), "> of ", m, " x ", tutti::type_name<T>(), " to each from ", root);
  {
    // Elsewhere than at the root the input may be anything.
    const guarded<T> in = is_root ? guarded<T>(all) : guarded<T>(comm.rank() % 2 == 0 ? m * p : 0);
    guarded<T> out(m, 2);
    tutti::scatter<A>(comm, in.values(), out.span(), root);
    check_output(found, out, expected);
    if (is_root) {
      check_input(found, in, all);
    } else {
      found.check(in.untouched(), "the input of a rank that is not the root was written");
    }
  }
  guarded<T> inout = is_root ? guarded<T>(all, 3) : guarded<T>(data.of(comm.rank(), m * p), 3);
  std::vector<T> after(inout.values().begin(), inout.values().end());
  std::copy(expected.begin(), expected.end(), after.begin() + static_cast<std::ptrdiff_t>(rank * m));
  const std::span<T> own = tutti::scatter<A>(comm, inout.span(), root);
  check_output(found, inout, std::span<const T>(after));
  found.check(own.data() == inout.span().data() + rank * m && own.size() == m, "the block returned lies elsewhere");
}

template <class Launcher, class T, class Algorithms>
void check_all(Algorithms chosen) {
  for (const int ranks : rank_counts) {
    const std::vector<std::size_t> lengths = block_lengths<T>();
    const values<T> data(ranks, lengths.back() * static_cast<std::size_t>(ranks));
    for_each_algorithm<verb>(chosen, ranks, [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        for (const int root : roots(ranks)) {
          for (const std::size_t m : lengths) check<A>(comm, found, data, m, root);
        }
      });
    });
  }
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("scatter by every algorithm", Launcher, every_algorithm) {
  check_all<Launcher, float>(algorithms{});
  check_all<Launcher, triple>(algorithms{});
}
TEST_CASE_TEMPLATE_APPLY(every_algorithm, launchers);

TEST_CASE_TEMPLATE_DEFINE("scatter of every type", Launcher, every_type) {
  constexpr list<tutti::automatic, tutti::circulant, tutti::binomial> few;
  check_all<Launcher, char>(few);
  check_all<Launcher, line>(few);
  if constexpr (!test::sanitized) {
    check_all<Launcher, int>(few);
    check_all<Launcher, double>(few);
    check_all<Launcher, std::complex<float>>(few);
  }
}
TEST_CASE_TEMPLATE_APPLY(every_type, launchers);

TEST_CASE_TEMPLATE_DEFINE("scatter of vectors that are written past the caches", Launcher, every_long) {
  for (const int ranks : {2, 3}) {
    const values<float> data(ranks, streaming_length<float> * static_cast<std::size_t>(ranks));
    for_each_algorithm<verb>(algorithms{}, ranks, [&]<class A>() {
      on_ranks<Launcher>(
          ranks, [&](auto& comm, findings& found) { check<A>(comm, found, data, streaming_length<float>, ranks - 1); });
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(every_long, launchers);
