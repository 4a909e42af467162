// SPDX-License-Identifier: BSL-1.0
#include "survey.hpp"

namespace planning {

std::vector<answer> survey(const question& asked, const limits& most, const std::vector<std::string_view>& only) {
  switch (asked.collective) {
    case tutti::collective::broadcast:
      return survey_broadcast(asked, most, only);
    case tutti::collective::scatter:
      return survey_scatter(asked, most, only);
    case tutti::collective::gather:
      return survey_gather(asked, most, only);
    case tutti::collective::reduce:
      return survey_reduce(asked, most, only);
    case tutti::collective::reduce_scatter:
      return survey_reduce_scatter(asked, most, only);
    case tutti::collective::allgather:
      return survey_allgather(asked, most, only);
    case tutti::collective::alltoall:
      return survey_alltoall(asked, most, only);
    case tutti::collective::barrier:
      return survey_barrier(asked, most, only);
    case tutti::collective::scan:
      return survey_scan(asked, most, only);
    case tutti::collective::exscan:
      return survey_exscan(asked, most, only);
    case tutti::collective::allreduce:
      break;
  }
  return survey_allreduce(asked, most, only);
}

}  // namespace planning
