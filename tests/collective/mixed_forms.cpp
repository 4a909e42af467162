// SPDX-License-Identifier: BSL-1.0

// Whether a rank works in place or not is its own affair: in one call some ranks do and some do not.

#include <tutti/tutti.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "collective/conformance.hpp"

namespace {

using namespace conformance;

using few = list<tutti::automatic, tutti::flat, tutti::circulant, tutti::halving_doubling>;

/// Element i of what a rank puts in.
int value(int rank, std::size_t i) { return rank * 1000 + static_cast<int>(i % 997); }

std::vector<int> input(int rank, std::size_t n, std::size_t from = 0) {
  std::vector<int> result(n);
  for (std::size_t i = 0; i < n; ++i) result[i] = value(rank, from + i);
  return result;
}

std::vector<int> sum(int ranks, std::size_t n) {
  std::vector<int> result(n);
  for (int rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < n; ++i) result[i] += value(rank, i);
  return result;
}

/// Whether every element i is `expected(i)`.
template <class Expected>
bool matches(const std::vector<int>& elements, Expected expected) {
  for (std::size_t i = 0; i < elements.size(); ++i)
    if (elements[i] != expected(i)) return false;
  return true;
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("in one call some ranks work in place and others do not", Launcher, forms) {
  for (const int ranks : {2, 3, 4, 7}) {
    on_ranks<Launcher>(ranks, [ranks](auto& comm, findings& found) {
      const auto p = static_cast<std::size_t>(ranks);
      const auto r = static_cast<std::size_t>(comm.rank());
      for (const std::size_t each : {std::size_t{1}, std::size_t{24}, std::size_t{1500}, std::size_t{20000}}) {
        for (int turn = 0; turn < 4; ++turn) {
          const bool in_place = (comm.rank() + turn) % 2 == 0;
          const int root = turn % ranks;
          const std::size_t n = each * p;
          for_each_algorithm<tutti::collective::allreduce>(few{}, ranks, [&]<class A>() {
            found.about("allreduce<", tutti::name_of<A>(), "> of ", n);
            std::vector<int> data = input(comm.rank(), n);
            std::vector<int> out(n);
            if (in_place) {
              tutti::allreduce<A>(comm, data, std::plus<>{});
            } else {
              tutti::allreduce<A>(comm, data, out, std::plus<>{});
            }
            found.check((in_place ? data : out) == sum(ranks, n), "the sum");
          });
          for_each_algorithm<tutti::collective::reduce_scatter>(few{}, ranks, [&]<class A>() {
            found.about("reduce_scatter<", tutti::name_of<A>(), "> of ", n);
            std::vector<int> data = input(comm.rank(), n);
            std::vector<int> out(each);
            std::span<int> own = out;
            if (in_place) {
              own = tutti::reduce_scatter<A>(comm, data, std::plus<>{});
            } else {
              tutti::reduce_scatter<A>(comm, data, out, std::plus<>{});
            }
            const std::vector<int> whole = sum(ranks, n);
            found.same("the block", std::span<const int>(own), std::span<const int>(whole).subspan(r * each, each));
          });
          for_each_algorithm<tutti::collective::reduce>(few{}, ranks, [&]<class A>() {
            found.about("reduce<", tutti::name_of<A>(), "> of ", n);
            std::vector<int> data = input(comm.rank(), n);
            std::vector<int> out(n);
            if (in_place) {
              tutti::reduce<A>(comm, data, std::plus<>{}, root);
            } else {
              tutti::reduce<A>(comm, data, out, std::plus<>{}, root);
            }
            if (comm.rank() == root) found.check((in_place ? data : out) == sum(ranks, n), "the sum");
          });
          for_each_algorithm<tutti::collective::allgather>(few{}, ranks, [&]<class A>() {
            found.about("allgather<", tutti::name_of<A>(), "> of ", n);
            const std::vector<int> own = input(comm.rank(), each, r * each);
            std::vector<int> all(n, -1);
            if (in_place) {
              std::copy(own.begin(), own.end(), all.begin() + static_cast<std::ptrdiff_t>(r * each));
              tutti::allgather<A>(comm, all);
            } else {
              tutti::allgather<A>(comm, own, all);
            }
            found.check(matches(all, [&](std::size_t i) { return value(static_cast<int>(i / each), i); }),
                        "an element");
          });
          for_each_algorithm<tutti::collective::gather>(few{}, ranks, [&]<class A>() {
            found.about("gather<", tutti::name_of<A>(), "> of ", n);
            const std::vector<int> own = input(comm.rank(), each, r * each);
            std::vector<int> all(n, -1);
            if (in_place) {
              std::copy(own.begin(), own.end(), all.begin() + static_cast<std::ptrdiff_t>(r * each));
              tutti::gather<A>(comm, all, root);
            } else {
              tutti::gather<A>(comm, own, all, root);
            }
            if (comm.rank() == root)
              found.check(matches(all, [&](std::size_t i) { return value(static_cast<int>(i / each), i); }),
                          "an element");
          });
          for_each_algorithm<tutti::collective::scatter>(few{}, ranks, [&]<class A>() {
            found.about("scatter<", tutti::name_of<A>(), "> of ", n);
            std::vector<int> all = comm.rank() == root ? input(root, n) : std::vector<int>(n, -1);
            std::vector<int> out(each);
            std::span<int> own = out;
            if (in_place) {
              own = tutti::scatter<A>(comm, all, root);
            } else {
              tutti::scatter<A>(comm, all, out, root);
            }
            const std::vector<int> expected = input(root, each, r * each);
            found.same("the block", std::span<const int>(own), std::span<const int>(expected));
          });
          for_each_algorithm<tutti::collective::alltoall>(few{}, ranks, [&]<class A>() {
            found.about("alltoall<", tutti::name_of<A>(), "> of ", n);
            std::vector<int> data = input(comm.rank(), n);
            std::vector<int> out(n);
            if (in_place) {
              tutti::alltoall<A>(comm, data);
            } else {
              tutti::alltoall<A>(comm, data, out);
            }
            const std::vector<int>& got = in_place ? data : out;
            found.check(
                matches(got, [&](std::size_t i) { return value(static_cast<int>(i / each), r * each + i % each); }),
                "an element");
          });
        }
      }
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(forms, launchers);
