// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/logarithm.hpp>
#include <tutti/schedule/schedule.hpp>

namespace tutti {

/// An allreduce for a power of two ranks made one for any number: with P the power of two below p, each even rank below
/// 2(p-P) gives its vector to the next rank, the P others run `S`, and the result goes back. Survivors keep their
/// order, so rank order is kept where `S` keeps it. Two more rounds and n more bytes unless p is a power of two.
/// Source: Rabenseifner 2004; Thakur, Rabenseifner, Gropp 2005, section 4.5.
template <schedule S>
struct folded {
  static constexpr bool rank_ordered = S::rank_ordered;
  static constexpr bool overlapping = S::overlapping;
  static constexpr bool whole_vector = tutti::whole_vector<S>;

  static constexpr bool canonical(int size) { return detail::is_power_of_two(size) && tutti::canonical<S>(size); }

  constexpr int rounds(place at) const {
    const int power = survivors(at.size);
    return S{}.rounds({0, power}) + (power == at.size ? 0 : 2);
  }
  constexpr int blocks(int size) const { return S{}.blocks(survivors(size)); }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    const int power = survivors(at.size);
    const int extra = at.size - power;
    if (extra == 0) {
      S{}.round(at, k, emit);
      return;
    }
    const bool paired = at.rank < 2 * extra;
    const bool survives = !paired || at.rank % 2 == 1;
    const block_set everything = all_blocks(blocks(at.size));
    const int last = rounds(at) - 1;
    if (k == 0) {
      if (!paired) return;
      if (survives) {
        emit(combine{at.rank - 1, everything, side::left});
      } else {
        emit(send_to{at.rank + 1, everything});
      }
    } else if (k == last) {
      if (!paired) return;
      if (survives) {
        emit(send_to{at.rank - 1, everything});
      } else {
        emit(recv_from{at.rank + 1, everything});
      }
    } else if (survives) {
      const int virtual_rank = paired ? at.rank / 2 : at.rank - extra;
      S{}.round({virtual_rank, power}, k - 1, [&](auto step) {
        step.peer = step.peer < extra ? 2 * step.peer + 1 : step.peer + extra;
        emit(step);
      });
    }
  }

 private:
  static constexpr int survivors(int size) { return 1 << detail::floor_log2(size); }
};

}  // namespace tutti
