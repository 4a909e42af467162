// SPDX-License-Identifier: BSL-1.0
#pragma once

// How a communicator is divided: who goes with whom, and in which order.

#include <tutti/collective/call.hpp>
#include <tutti/collective/select.hpp>
#include <tutti/collective/storage.hpp>
#include <tutti/communicator/communicator.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/schedule/bruck.hpp>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

namespace tutti {

namespace detail {

/// What a rank says when its communicator is divided.
struct division_choice {
  int color;  // -1: none
  int key;
  int next_group;
};

/// The group that a rank becomes part of: none if it has no members.
struct division {
  int number = 0;
  std::span<const int> members;
};

// Not those of allgather: a rank that splits does not fit to one that gathers.
inline constexpr call_signature split_signature{"split", name_of<bruck>(), {}, {}, sizeof(division_choice)};
inline constexpr call_signature dup_signature{"dup", name_of<bruck>(), {}, {}, sizeof(division_choice)};

/// Those of one colour by key, those of one key by rank. The list lies in the communicator's scratch memory, which is
/// taken before anything is sent: once ranks may have agreed, none of them fails here alone.
template <class Comm>
division divide(Comm& comm, const call_signature& signature, int color, int key, call_site where) {
  using schedule_type = schedule_for<collective::allgather, bruck>;
  const auto ranks = static_cast<std::size_t>(comm.size());
  auto* const choices = scratch_for<division_choice>(comm.scratch(), ranks);
  int* const list = scratch_for<int>(comm.scratch(), ranks);
  choices[comm.rank()] = {color, key, comm.transport().next_group()};
  const buffers<division_choice> memory{.in = choices, .out = choices};
  const schedule_type schedule = make_schedule<schedule_type>(-1);
  try {
    run_schedule(comm, comm.next_call(signature, 1, -1, where), schedule,
                 storage_for<division_choice, schedule_type>(memory, ranks, schedule.blocks(comm.size()), comm.rank(),
                                                             comm.scratch()),
                 no_operation{}, false);
  } catch (...) {
    if constexpr (requires { comm.transport().miss_groups(); }) comm.transport().miss_groups();
    throw;
  }
  division made;
  for (std::size_t rank = 0; rank < ranks; ++rank) made.number = std::max(made.number, choices[rank].next_group);
  if (made.number == INT_MAX)
    throw resource_error(message() << signature.collective << " on rank " << comm.rank() << " of " << comm.size()
                                   << ": its ranks have been in " << INT_MAX
                                   << " communicators, and no number is left");
  if (color < 0) return made;
  int* end = list;
  for (int rank = 0; rank < comm.size(); ++rank)
    if (choices[rank].color == color) *end++ = rank;
  std::sort(list, end, [choices](int a, int b) {
    return choices[a].key != choices[b].key ? choices[a].key < choices[b].key : a < b;
  });
  made.members = {list, end};
  return made;
}

template <class Comm>
void check_color(const Comm& comm, int color) {
  if (color < 0) [[unlikely]]
    throw usage_error(message() << "split on rank " << comm.rank() << " of " << comm.size() << ": the colour is "
                                << color << ", must be at least 0, or tutti::undefined");
}

template <class Transport>
constexpr void require_splitting() {
  static_assert(splitting_transport<Transport>, "tutti: this transport cannot make groups of some of its ranks");
}

}  // namespace detail

template <transport Transport>
communicator<Transport> communicator<Transport>::split(int color, int key, call_site where) {
  detail::require_splitting<Transport>();
  detail::check_color(*this, color);
  share_progress();
  const detail::scratch_scope scope{scratch_};
  const detail::division made = detail::divide(*this, detail::split_signature, color, key, where);
  return communicator(transport_.subgroup(made.number, made.members), *this);
}

template <transport Transport>
std::optional<communicator<Transport>> communicator<Transport>::split(std::optional<int> color, int key,
                                                                      call_site where) {
  detail::require_splitting<Transport>();
  if (color) detail::check_color(*this, *color);
  share_progress();
  const detail::scratch_scope scope{scratch_};
  const detail::division made = detail::divide(*this, detail::split_signature, color ? *color : -1, key, where);
  if (!color) return std::optional<communicator>();
  return std::optional<communicator>(std::in_place, transport_.subgroup(made.number, made.members), *this);
}

template <transport Transport>
communicator<Transport> communicator<Transport>::dup(call_site where) {
  detail::require_splitting<Transport>();
  share_progress();
  const detail::scratch_scope scope{scratch_};
  const detail::division made = detail::divide(*this, detail::dup_signature, 0, 0, where);
  return communicator(transport_.subgroup(made.number, made.members), *this);
}

}  // namespace tutti
