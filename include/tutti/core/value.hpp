// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace tutti::detail {

/// What can be copied and assigned, as schedules, groups and topologies can, which are a few numbers. std::copyable
/// asks for more, that they can be swapped and that references to them have a common type, which nobody needs; to ask
/// it of every schedule of the library takes a tenth of the time in which a program of one call compiles.
template <class T>
concept value = requires(T* to, const T& from) {
  T(from);
  *to = from;
};

}  // namespace tutti::detail
