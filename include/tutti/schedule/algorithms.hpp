// SPDX-License-Identifier: BSL-1.0
#pragma once

// Every algorithm of the library, one family a file.

#include <tutti/schedule/algorithm.hpp>
#include <tutti/schedule/bidirectional_ring.hpp>
#include <tutti/schedule/bine.hpp>
#include <tutti/schedule/binomial.hpp>
#include <tutti/schedule/bruck.hpp>
#include <tutti/schedule/canonical_halving.hpp>
#include <tutti/schedule/census.hpp>
#include <tutti/schedule/chain.hpp>
#include <tutti/schedule/circulant.hpp>
#include <tutti/schedule/circulant_pipelined.hpp>
#include <tutti/schedule/dissemination.hpp>
#include <tutti/schedule/flat.hpp>
#include <tutti/schedule/greedy.hpp>
#include <tutti/schedule/halving_doubling.hpp>
#include <tutti/schedule/hypercube.hpp>
#include <tutti/schedule/k_ary.hpp>
#include <tutti/schedule/k_nomial.hpp>
#include <tutti/schedule/naive.hpp>
#include <tutti/schedule/neighbour_exchange.hpp>
#include <tutti/schedule/pat.hpp>
#include <tutti/schedule/plus_one.hpp>
#include <tutti/schedule/product.hpp>
#include <tutti/schedule/recursive_doubling.hpp>
#include <tutti/schedule/recursive_multiplying.hpp>
#include <tutti/schedule/reduce_scatter_gather.hpp>
#include <tutti/schedule/ring.hpp>
#include <tutti/schedule/scatter_allgather.hpp>
#include <tutti/schedule/single_master.hpp>
#include <tutti/schedule/swing.hpp>
#include <tutti/schedule/torus.hpp>
#include <tutti/schedule/two_level.hpp>
#include <tutti/schedule/two_tree.hpp>

namespace tutti {

/// Calls `f.template operator()<A>()` for every algorithm A of the library, in the order of the README's table. Tables,
/// charts and tests that go over all algorithms go over this list. Without `two_level`, which is another algorithm only
/// where hosts are known.
template <class F>
constexpr void for_each_algorithm(F&& f) {
  const auto each = [&]<class... A>() { (f.template operator()<A>(), ...); };
  each.template
  operator()<flat, ring, bidirectional_ring, neighbour_exchange, torus<>, product<flat, circulant>, circulant, k_ary<3>,
             pat, bruck, bine, swing, hypercube_halving, hypercube_doubling, halving_doubling, recursive_doubling,
             recursive_multiplying<4>, census, canonical_halving, binomial, k_nomial<4>, chain, two_tree,
             circulant_pipelined, single_master, naive, scatter_allgather, reduce_scatter_gather, dissemination>();
}

}  // namespace tutti
