// SPDX-License-Identifier: BSL-1.0
#include "survey_each.hpp"

namespace planning {

std::vector<answer> survey_broadcast(const question& asked, const limits& most,
                                     const std::vector<std::string_view>& only) {
  return survey_each<tutti::collective::broadcast>(asked, most, only);
}

std::vector<answer> survey_scatter(const question& asked, const limits& most,
                                   const std::vector<std::string_view>& only) {
  return survey_each<tutti::collective::scatter>(asked, most, only);
}

std::vector<answer> survey_gather(const question& asked, const limits& most,
                                  const std::vector<std::string_view>& only) {
  return survey_each<tutti::collective::gather>(asked, most, only);
}

std::vector<answer> survey_reduce(const question& asked, const limits& most,
                                  const std::vector<std::string_view>& only) {
  return survey_each<tutti::collective::reduce>(asked, most, only);
}

}  // namespace planning
