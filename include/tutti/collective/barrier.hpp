// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/exchange_of_all.hpp>
#include <tutti/collective/exchange_of_two.hpp>
#include <tutti/collective/native.hpp>
#include <tutti/collective/select.hpp>
#include <tutti/collective/storage.hpp>
#include <tutti/core/inline.hpp>

#include <cstddef>
#include <type_traits>

namespace tutti {

/// Returns after every rank has called it. Messages without bytes; ceil(log2 p) rounds by dissemination.
template <class Algorithm = automatic, class Comm>
void barrier(Comm& comm, call_site where = call_site::current()) {
  constexpr auto verb = collective::barrier;
  if constexpr (std::is_same_v<Algorithm, native>) {
    const auto meet = [](auto& own, detail::no_operation&) TUTTI_ALWAYS_INLINE { own.barrier(); };
    detail::run_native<verb, std::byte>(comm, 0, -1, detail::no_operation{}, where, meet);
  } else {
    if constexpr (detail::may_exchange<verb, Algorithm, std::byte, Comm>()) {
      using A = detail::algorithm_of_two_t<verb, Algorithm, Comm>;
      if (comm.size() == 2)
        return detail::exchange_of_two(comm,
                                       detail::make_call<verb, A, std::byte, detail::no_operation>(comm, 0, -1, where),
                                       static_cast<const std::byte*>(nullptr), 0, 0, false, [](const std::byte*) {});
    }
    detail::choose<verb, Algorithm, true>(comm, 0, [&]<class A>() TUTTI_ALWAYS_INLINE {
      if constexpr (detail::exchanges_among_all<verb, A, std::byte, Comm>() > 0)
        if (detail::are_shown<verb, A>(comm, 0))
          return detail::run_exchanges(comm,
                                       detail::make_call<verb, A, std::byte, detail::no_operation>(comm, 0, -1, where),
                                       [](auto& exchange) TUTTI_ALWAYS_INLINE {
                                         exchange.round(
                                             static_cast<const std::byte*>(nullptr), 0, 0, false,
                                             [](int) { return std::size_t{0}; }, [](const std::byte**) {});
                                       });
      const schedule_for<verb, A> schedule{};
      const detail::buffers<std::byte> memory{.result = detail::wanted::none};
      detail::run_schedule(
          comm, detail::make_call<verb, A, std::byte, detail::no_operation>(comm, 0, -1, where), schedule,
          detail::whole_storage<std::byte>(memory, 0, blocks_of(schedule, comm.place()), comm.rank(), comm.scratch()),
          detail::no_operation{}, false);
    });
  }
}

}  // namespace tutti
