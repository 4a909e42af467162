// SPDX-License-Identifier: BSL-1.0

// Schedules that say how they fold fold so: what rides on it, that elements are accumulated once, would be wrong else.

#include <tutti/schedule/algorithms.hpp>
#include <tutti/schedule/folding.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace {

using tutti::collective;
using tutti::folding;
using tutti::folds;
template <collective C, class A>
using schedule_of = tutti::schedule_for<C, A>;

// ---- Which say what -------------------------------------------------------------------------------------------------
static_assert(folding<schedule_of<collective::allreduce, tutti::naive>> == folds::at_once);
static_assert(folding<schedule_of<collective::allreduce, tutti::flat>> == folds::at_once);
static_assert(folding<schedule_of<collective::allreduce, tutti::single_master>> == folds::at_once);
static_assert(folding<schedule_of<collective::reduce_scatter, tutti::flat>> == folds::at_once);
static_assert(folding<schedule_of<collective::reduce, tutti::flat>> == folds::at_once);
static_assert(folding<schedule_of<collective::reduce, tutti::reduce_scatter_gather>> == folds::at_once);
static_assert(folding<schedule_of<collective::broadcast, tutti::flat>> == folds::nothing);
static_assert(folding<schedule_of<collective::allgather, tutti::ring>> == folds::nothing);
static_assert(folding<schedule_of<collective::allreduce, tutti::ring>> == folds::repeatedly);
static_assert(folding<schedule_of<collective::allreduce, tutti::recursive_doubling>> == folds::repeatedly);
static_assert(folding<tutti::then<tutti::star::broadcast, tutti::star::reduce>> == folds::repeatedly);
static_assert(folding<tutti::then<tutti::star::reduce, tutti::star::reduce>> == folds::repeatedly);

/// Says of any schedule that it folds at once.
template <class S>
struct boasting : S {
  static constexpr auto folding = folds::at_once;
};
template <class S>
struct boasting_of_nothing : S {
  static constexpr auto folding = folds::nothing;
};

template <collective C, class A>
void check() {
  if constexpr (tutti::implements<A, C>) {
    using S = schedule_of<C, A>;
    for (int size = 1; size <= 24; ++size) {
      if (!tutti::supports<A>(size)) continue;
      const std::string which = std::string(tutti::name_of(C)) + " by " + std::string(tutti::name_of<A>());
      CAPTURE(which);
      CAPTURE(size);
      if constexpr (tutti::rooted<S>) {
        for (int root = 0; root < size; ++root) CHECK(tutti::folds_as_it_says(S{root}, size));
      } else {
        CHECK(tutti::folds_as_it_says(S{}, size));
      }
    }
  }
}
template <class... A>
void check_all() {
  const auto one = []<class B>() {
    check<collective::reduce, B>();
    check<collective::reduce_scatter, B>();
    check<collective::allreduce, B>();
    check<collective::broadcast, B>();
    check<collective::allgather, B>();
    check<collective::gather, B>();
    check<collective::scatter, B>();
  };
  (one.template operator()<A>(), ...);
}

}  // namespace

TEST_CASE("every algorithm folds as often as it says") {
  check_all<tutti::flat, tutti::ring, tutti::circulant, tutti::pat, tutti::bruck, tutti::hypercube_halving,
            tutti::hypercube_doubling, tutti::halving_doubling, tutti::recursive_doubling,
            tutti::recursive_multiplying<4>, tutti::binomial, tutti::star, tutti::single_master, tutti::naive,
            tutti::scatter_allgather, tutti::reduce_scatter_gather>();
}

TEST_CASE("who says so and does not is found out") {
  using reduce_by_tree = schedule_of<collective::reduce, tutti::binomial>;
  using by_ring = schedule_of<collective::reduce_scatter, tutti::ring>;
  using by_circulant = schedule_of<collective::allreduce, tutti::circulant>;
  using by_doubling = schedule_of<collective::allreduce, tutti::recursive_doubling>;
  CHECK(tutti::folds_as_it_says(boasting<by_ring>{}, 2));  // two ranks fold once
  CHECK_FALSE(tutti::folds_as_it_says(boasting<by_ring>{}, 3));
  CHECK_FALSE(tutti::folds_as_it_says(boasting<by_circulant>{}, 8));
  CHECK_FALSE(tutti::folds_as_it_says(boasting<by_doubling>{}, 4));
  CHECK_FALSE(tutti::folds_as_it_says(boasting<reduce_by_tree>{{0}}, 4));
  CHECK_FALSE(tutti::folds_as_it_says(boasting_of_nothing<by_ring>{}, 2));
  CHECK_FALSE(tutti::folds_as_it_says(boasting_of_nothing<tutti::star::reduce>{{1}}, 3));
}
