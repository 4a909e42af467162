// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/exchange_of_all.hpp>
#include <tutti/collective/exchange_of_two.hpp>
#include <tutti/collective/native.hpp>
#include <tutti/collective/select.hpp>
#include <tutti/collective/storage.hpp>
#include <tutti/core/fold.hpp>
#include <tutti/core/inline.hpp>

#include <cstddef>
#include <span>
#include <type_traits>

namespace tutti {

namespace detail {
/// An alltoall of two ranks.
template <class Algorithm, class T, class Comm>
TUTTI_ALWAYS_INLINE inline void exchange_slots(Comm& comm, const T* in, std::span<T> out, std::size_t each,
                                               call_site where) {
  constexpr auto verb = collective::alltoall;
  using A = algorithm_of_two_t<verb, Algorithm, Comm>;
  const std::size_t own = each * static_cast<std::size_t>(comm.rank());
  const std::size_t other = each - own;
  exchange_of_two(comm, make_call<verb, A, T, no_operation>(comm, out.size(), -1, where), in + other, each, each,
                  in == out.data(), [&](const T* arrived) TUTTI_ALWAYS_INLINE {
                    copy_elements(out.data() + own, in + own, each, false);
                    copy_elements(out.data() + other, arrived, each, false);
                  });
}

/// The same among all, or of more elements.
template <class A, class T, class Comm>
TUTTI_ALWAYS_INLINE inline void take_shown_slots(Comm& comm, const T* in, std::span<T> out, std::size_t each,
                                                 call_site where) {
  constexpr auto verb = collective::alltoall;
  const int rank = comm.rank();
  const auto place_of = [=](int of) { return each * static_cast<std::size_t>(of); };
  run_exchanges(comm, make_call<verb, A, T, no_operation>(comm, out.size(), -1, where),
                [&](auto& exchange) TUTTI_ALWAYS_INLINE {
                  exchange.round(
                      in, out.size(), 0, in == out.data(), [=](int) { return place_of(rank); },
                      [&](const T** source) TUTTI_ALWAYS_INLINE {
                        source[rank] = in + place_of(rank);
                        copy_one_after_the_other(out.data(), source, each, comm.size());
                      });
                });
}

template <class Algorithm, class T, class Comm>
TUTTI_ALWAYS_INLINE inline void alltoall(Comm& comm, const T* in, std::span<T> out, std::size_t each, call_site where) {
  constexpr auto verb = collective::alltoall;
  if constexpr (std::is_same_v<Algorithm, native>) {
    const auto exchange = [=](auto& own, no_operation&)
                              TUTTI_ALWAYS_INLINE { own.alltoall(in == out.data() ? nullptr : in, out.data(), each); };
    run_native<verb, T>(comm, out.size(), -1, no_operation{}, where, exchange);
  } else {
    if constexpr (may_exchange<verb, Algorithm, T, Comm>())
      if (comm.size() == 2 && out.size_bytes() <= most_exchanged_bytes)
        return exchange_slots<Algorithm>(comm, in, out, each, where);
    choose<verb, Algorithm, true>(comm, out.size_bytes(), [&]<class A>() TUTTI_ALWAYS_INLINE {
      using S = schedule_for<verb, A>;
      if constexpr (exchanges_among_all<verb, A, T, Comm>() > 0)
        if (are_shown<verb, A>(comm, out.size_bytes(), in == out.data()))
          return take_shown_slots<A>(comm, in, out, each, where);
      const S schedule{};
      if (in == out.data()) {
        // Every block has another one's place to go to: work from a copy.
        T* const copy = comm.scratch().template take_for<T>(out.size());
        copy_elements(copy, out.data(), out.size(), false);
        in = copy;
      }
      run_schedule(comm, make_call<verb, A, T, no_operation>(comm, out.size(), -1, where), schedule,
                   slot_storage<T, S>(in, out.data(), each, schedule, comm.place(), comm.scratch()), no_operation{},
                   streams<T>(out.size(), comm.size()));
    });
  }
}
}  // namespace detail

/// Block s of rank r's `out` becomes block r of rank s's `in` (both p * m elements).
///
/// Throws `usage_error` if the sizes differ, are not a multiple of p, or the buffers overlap; `mismatch` if the ranks'
/// calls differ. Cost: m(p-1) elements sent by each rank in 1 round (flat), or (m p / 2) ceil(log2 p) in ceil(log2 p)
/// (bruck).
template <class Algorithm = automatic, class Comm, class In, class Out>
void alltoall(Comm& comm, const In& in, Out&& out, call_site where = call_site::current()) {
  detail::require_same_element<In, Out>();
  using T = detail::element_t<In>;
  constexpr auto verb = collective::alltoall;
  const std::span<const T> from = detail::readable(in);
  const std::span<T> to = detail::writable(out);
  const std::size_t each = detail::check_divisible(comm.place(), verb, "input", from.size());
  detail::check_elements(comm.place(), verb, "output", to.size(), from.size());
  detail::check_overlap(comm.place(), verb, from, to);
  detail::alltoall<Algorithm, T>(comm, from.data(), to, each, where);
}

/// In place: `data` (p * m elements) is input and output. Needs p * m elements of scratch.
template <class Algorithm = automatic, class Comm, class Data>
void alltoall(Comm& comm, Data&& data, call_site where = call_site::current()) {
  using T = detail::element_t<Data>;
  const std::span<T> buffer = detail::writable(data);
  const std::size_t each = detail::check_divisible(comm.place(), collective::alltoall, "buffer", buffer.size());
  detail::alltoall<Algorithm, T>(comm, buffer.data(), buffer, each, where);
}

}  // namespace tutti
