// SPDX-License-Identifier: BSL-1.0
#include "survey_each.hpp"

namespace planning {

std::vector<answer> survey_reduce_scatter(const question& asked, const limits& most,
                                          const std::vector<std::string_view>& only) {
  return survey_each<tutti::collective::reduce_scatter>(asked, most, only);
}

std::vector<answer> survey_allgather(const question& asked, const limits& most,
                                     const std::vector<std::string_view>& only) {
  return survey_each<tutti::collective::allgather>(asked, most, only);
}

std::vector<answer> survey_alltoall(const question& asked, const limits& most,
                                    const std::vector<std::string_view>& only) {
  return survey_each<tutti::collective::alltoall>(asked, most, only);
}

std::vector<answer> survey_barrier(const question& asked, const limits& most,
                                   const std::vector<std::string_view>& only) {
  return survey_each<tutti::collective::barrier>(asked, most, only);
}

std::vector<answer> survey_scan(const question& asked, const limits& most, const std::vector<std::string_view>& only) {
  return survey_each<tutti::collective::scan>(asked, most, only);
}

std::vector<answer> survey_exscan(const question& asked, const limits& most,
                                  const std::vector<std::string_view>& only) {
  return survey_each<tutti::collective::exscan>(asked, most, only);
}

}  // namespace planning
