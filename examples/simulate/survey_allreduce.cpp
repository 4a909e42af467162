// SPDX-License-Identifier: BSL-1.0
#include "survey_each.hpp"

namespace planning {

std::vector<answer> survey_allreduce(const question& asked, const limits& most,
                                     const std::vector<std::string_view>& only) {
  return survey_each<tutti::collective::allreduce>(asked, most, only);
}

}  // namespace planning
