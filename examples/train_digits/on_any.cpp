// SPDX-License-Identifier: BSL-1.0
#include "rank.hpp"
#include "ranks.hpp"

#include <tutti/run_auto.hpp>

namespace digits {

void train_on_any(const task& work, const options& wanted, std::ofstream& chart) {
  tutti::run_auto([&](auto& comm) { train_rank(comm, work, wanted, chart); });
}

}  // namespace digits
