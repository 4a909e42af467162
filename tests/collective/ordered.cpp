// SPDX-License-Identifier: BSL-1.0

// What `ordered` promises: bitwise the same result whatever the length, the collective and the algorithm.

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"
#include "deadline.hpp"

namespace {

using namespace conformance;
using tutti::collective;

float rough(int rank, std::size_t i) {
  return static_cast<float>(noise(static_cast<std::size_t>(rank), i) % 100003) / 977.0F - 51.0F;
}

/// Neighbouring aligned groups of 2^level ranks meet, as far as there are any.
float canonical_sum(int first, int level, int ranks, std::size_t i) {
  if (level == 0) return rough(first, i);
  const int middle = first + (1 << (level - 1));
  const float lower = canonical_sum(first, level - 1, ranks, i);
  return middle >= ranks ? lower : lower + canonical_sum(middle, level - 1, ranks, i);
}

template <class A>
void check_allreduce(auto& comm, findings& found, const std::vector<float>& mine, std::span<const float> expected) {
  found.about("allreduce<", tutti::name_of<A>(), "> of ", mine.size());
  std::vector<float> out(mine.size());
  tutti::allreduce<A>(comm, mine, out, std::plus<>{});
  found.same("the canonical sum", std::span<const float>(out), expected);
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("ordered reductions are folded along the canonical tree at every length", Launcher, lengths) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    constexpr std::size_t most = 30000;
    std::vector<float> sums;
    for (std::size_t i = 0; i < most; ++i) sums.push_back(canonical_sum(0, 5, ranks, i));
    on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
      for (const std::size_t n : {std::size_t{1}, std::size_t{37}, std::size_t{1003}, most}) {
        std::vector<float> mine;
        for (std::size_t i = 0; i < n; ++i) mine.push_back(rough(comm.rank(), i));
        const std::span<const float> expected = std::span<const float>(sums).first(n);
        check_allreduce<tutti::ordered>(comm, found, mine, expected);
        // And by each algorithm that says that it folds so.
        for_each_algorithm_for<collective::allreduce, float, std::plus<>>(
            unless_sanitized<algorithms>{}, ranks, [&]<class A>() {
              if constexpr (!std::is_same_v<A, tutti::automatic>) {
                if (tutti::canonical<tutti::schedule_for<collective::allreduce, A>>(ranks))
                  check_allreduce<A>(comm, found, mine, expected);
              }
            });
        found.about("reduce<ordered> of ", n);
        const int root = ranks / 2;
        std::vector<float> reduced = mine;
        tutti::reduce<tutti::ordered>(comm, reduced, std::plus<>{}, root);
        if (comm.rank() == root) found.same("the canonical sum", std::span<const float>(reduced), expected);
        found.about("reduce_scatter<ordered> of ", n);
        const tutti::layout blocks(n, ranks);
        std::vector<float> block(blocks.size(comm.rank()));
        tutti::reduce_scatter<tutti::ordered>(comm, mine, block, std::plus<>{});
        found.same("the block of the canonical sum", std::span<const float>(block),
                   expected.subspan(blocks.offset(comm.rank()), block.size()));
      }
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(lengths, launchers);

TEST_CASE_TEMPLATE_DEFINE("ordered keeps rank order where the operation does not commute", Launcher, order) {
  for (const int ranks : {2, 3, 6, 8, 13}) {
    const contributions<matrix, std::multiplies<>> data(ranks, 5000, {});
    on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
      for (const std::size_t n : {std::size_t{1}, std::size_t{5000}}) {
        found.about("allreduce<ordered> of ", n, " matrices");
        std::vector<matrix> out(n);
        tutti::allreduce<tutti::ordered>(comm, data.of(comm.rank(), n), out, std::multiplies<>{});
        found.same("the product", std::span<const matrix>(out), data.fold(n));
      }
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(order, launchers);
