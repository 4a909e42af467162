// SPDX-License-Identifier: BSL-1.0
#pragma once

// Which communicator a message of the control plane is about: the whole group, or some of its ranks.

#include <tutti/transport/rank_list.hpp>
#include <tutti/transport/tcp/control_message.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace tutti::detail {

/// The members are listed where they must be, are ranks of a group of that size, and who speaks is one of them.
inline bool names_communicator(const control_message& m, int from, int size) {
  const bool listed = m.kind == control_kind::failed || m.kind == control_kind::differs ||
                      m.kind == control_kind::late || m.kind == control_kind::keeps;
  if (m.group == 0 || !listed) return m.members == nullptr;
  const auto ranks = static_cast<std::size_t>(size);
  if (m.members == nullptr || m.members->size() > ranks) return false;
  std::vector<bool> seen(ranks);
  for (const int rank : *m.members) {
    if (rank < 0 || rank >= size || seen[static_cast<std::size_t>(rank)]) return false;
    seen[static_cast<std::size_t>(rank)] = true;
  }
  return seen[static_cast<std::size_t>(from)];
}

/// Of such messages:
inline int size_of(const control_message& m, int size) {
  return m.group == 0 ? size : static_cast<int>(m.members->size());
}
/// A rank of the group as one of the communicator; -1 if it is not in it.
inline int rank_in(const control_message& m, int rank) {
  if (m.group == 0) return rank;
  const auto at = std::find(m.members->begin(), m.members->end(), rank);
  return at == m.members->end() ? -1 : static_cast<int>(at - m.members->begin());
}
/// The other way round.
inline int rank_of_group(const control_message& m, int rank) {
  return m.group == 0 ? rank : (*m.members)[static_cast<std::size_t>(rank)];
}
inline std::vector<int> ranks_of(const control_message& m, int size) {
  if (m.group != 0) return *m.members;
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}
/// A rank may have missed one of a number, and be in another.
inline bool same_communicator(const control_message& one, const control_message& other) {
  return one.group == other.group && (one.group == 0 || *one.members == *other.members);
}
/// Tells those who know its number which it is; 0 where no members are listed.
inline std::uint64_t hash_of_members(const control_message& m) {
  return m.members == nullptr ? 0 : hash_of_ranks(*m.members);
}

}  // namespace tutti::detail
