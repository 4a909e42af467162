// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/call_log.hpp>
#include <tutti/transport/message_log.hpp>
#include <tutti/transport/rank_list.hpp>
#include <tutti/transport/simulated/lane_end.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tutti::detail {

class simulated_group;

/// A rank's way through a part of the run: it leaves when its end goes; while an exception passes it is only about to.
enum class presence_in_part : unsigned char { absent, present, unwinding, left };

/// A group of ranks of one run: all of them, or those of a subgroup.
class simulated_part {
 public:
  /// The whole.
  simulated_part(simulated_group& g, int size) : group(&g), size_(size), of_(static_cast<std::size_t>(size)) {}
  /// `members` are ranks of `parent`.
  simulated_part(simulated_part& parent, int group_number, std::span<const int> members)
      : group(parent.group),
        number(group_number),
        size_(static_cast<int>(members.size())),
        of_(members.size()),
        members_(members.size()) {
    for (std::size_t i = 0; i < members.size(); ++i) members_[i] = parent.whole_rank(members[i]);
  }
  simulated_part(const simulated_part&) = delete;
  simulated_part& operator=(const simulated_part&) = delete;
  ~simulated_part() {
    for (member& m : of_)
      for (lane_end* const lane : m.lanes) delete lane;
  }

  int size() const { return size_; }
  bool is_whole() const { return number == 0; }
  int whole_rank(int r) const { return is_whole() ? r : members_[static_cast<std::size_t>(r)]; }
  /// Which rank of this part that of the whole is; -1: none.
  int number_of(int whole) const {
    for (int r = 0; r < size_; ++r)
      if (whole_rank(r) == whole) return r;
    return -1;
  }
  /// What is added to texts in which ranks are those of this part.
  std::string described() const { return is_whole() ? std::string() : of_members({members_.begin(), members_.size()}); }

  call_log& log(int r) { return at(r).log; }
  message_log& messages(int r) { return at(r).messages; }
  presence_in_part& presence(int r) { return at(r).presence; }
  array_list<lane_end*>& lanes(int r) { return at(r).lanes; }
  /// That rank's end of a lane; made by whoever asks first.
  lane_end& end(int r, int lane) {
    auto& lanes = at(r).lanes;
    const auto index = static_cast<std::size_t>(lane);
    while (lanes.size() <= index) lanes.push_back(nullptr);
    if (lanes[index] == nullptr)
      lanes[index] = allocating(sizeof(lane_end), "a lane of the simulated network",
                                [&] { return new lane_end(*this, r, lane, size_); });
    return *lanes[index];
  }
  template <class Condition>
  bool all(Condition&& condition) {
    for (member& m : of_)
      if (!condition(m.presence)) return false;
    return true;
  }

  simulated_group* group;  // null when it has ended
  int number = 0;
  bool failed = false;
  failure why;
  std::uint64_t under_way = 0;  // messages
  simulated_part* next = nullptr;
  // Another thread may ask for its end.
  bool abort_asked = false;
  int aborting = -1;  // which rank
  std::string abort_text;

 private:
  struct member {
    call_log log;
    message_log messages;
    array_list<lane_end*> lanes;
    presence_in_part presence = presence_in_part::absent;
  };
  member& at(int r) { return of_[static_cast<std::size_t>(r)]; }

  int size_;
  owned_array<member> of_;
  owned_array<int> members_;  // as ranks of the whole
};

inline int lane_end::awaited_in_whole() const { return awaited < 0 ? -1 : part->whole_rank(awaited); }

}  // namespace tutti::detail
