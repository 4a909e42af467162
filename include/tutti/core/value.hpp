// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace tutti {

/// What can be copied and assigned, as schedules, groups and topologies are: a few numbers. std::copyable asks for more
/// (to be swapped, a common type of references) that follows for all of these; to be asked it for every schedule of the
/// library takes a tenth of the time in which a program of one call compiles.
template <class T>
concept value = requires(T* to, const T& from) {
  T(from);
  *to = from;
};

}  // namespace tutti
