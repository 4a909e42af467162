// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/logarithm.hpp>
#include <tutti/schedule/schedule.hpp>

#include <string_view>

namespace tutti {

/// Census: every rank keeps the sum of a window of ranks just below it, without and with its own value, and each round
/// doubles the window. q = ceil(log2 p) rounds for any p, n bytes per rank in each, 3n of memory. For the shortest
/// vectors. Scan and exscan, whose windows end at rank 0, keep rank order; the allreduce folds on each rank in another
/// rotation, so its operation must be one that rounds nothing. Source: Bar-Noy, Kipnis, Schieber 1993.
struct census {
  static constexpr std::string_view name = "census";

 private:
  template <collective C>
  struct windows {
    static constexpr bool cut = C != collective::allreduce;  // at rank 0
    static constexpr bool rank_ordered = cut;
    static constexpr bool uniform = false;
    static constexpr bool overlapping = true;
    // The window with the rank's own value, the one without, and what arrives.
    static constexpr int inclusive = 0;
    static constexpr int exclusive = 1;
    static constexpr int arriving = 2;
    static constexpr int vectors = 3;
    static constexpr int result = C == collective::exscan ? exclusive : inclusive;

    constexpr int rounds(place at) const { return detail::ceil_log2(at.size); }
    constexpr int blocks(int) const { return 1; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      const int left = rounds(at) - 1 - k;
      const int width = (at.size - 1) >> (left + 1);
      const bool grows = ((at.size - 1) >> left) % 2 == 1;  // by one besides being doubled
      const int distance = grows ? width + 1 : width;
      const int to = at.rank + distance;
      const int from = at.rank - distance;
      if (!cut || (to < at.size && (grows || at.rank > 0))) {
        emit(send_to{modulo(to, at.size), one_block(0), grows ? inclusive : exclusive});
      }
      if (cut && (grows ? from < 0 : from <= 0)) return;
      // Which windows the later rounds, or the caller, have a use for.
      const int later = (at.size - 1) & ((1 << left) - 1);
      const bool keep_inclusive = result == inclusive || later != 0;
      const bool keep_exclusive = result == exclusive || later != (1 << left) - 1;
      const int peer = modulo(from, at.size);
      if (!keep_exclusive) {
        emit(combine{peer, one_block(0), side::left, inclusive});
      } else if (width == 0) {
        emit(recv_from{peer, one_block(0), exclusive});
        if (keep_inclusive) emit(reduce_local{one_block(0), side::left, exclusive, inclusive});
      } else if (!keep_inclusive) {
        emit(combine{peer, one_block(0), side::left, exclusive});
      } else {
        emit(recv_from{peer, one_block(0), arriving});
        emit(reduce_local{one_block(0), side::left, arriving, inclusive});
        emit(reduce_local{one_block(0), side::left, arriving, exclusive});
      }
    }
  };

 public:
  using allreduce = windows<collective::allreduce>;
  using scan = windows<collective::scan>;
  using exscan = windows<collective::exscan>;
};

}  // namespace tutti
