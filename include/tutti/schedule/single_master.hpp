// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/star.hpp>

namespace tutti {

/// Single master, the plain parameter server: rank 0 folds all vectors in rank order and sends the result back.
/// Allreduce in 2 rounds, but (p-1)n bytes in and out of rank 0. Keeps rank order. Rooted collectives are stars around
/// their root.
struct single_master {
  static constexpr std::string_view name = "single_master";

  using reduce = star::reduce;
  using broadcast = star::broadcast;
  using gather = star::gather;
  using scatter = star::scatter;
  using allreduce = then<rooted_at<reduce, 0>, rooted_at<broadcast, 0>>;
};

}  // namespace tutti
