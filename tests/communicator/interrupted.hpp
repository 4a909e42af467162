// SPDX-License-Identifier: BSL-1.0
#pragma once

// A transport on which a test interferes at the end of a collective.

#include <tutti/communicator/communicator.hpp>

#include <functional>
#include <span>
#include <utility>

namespace test {

/// What this thread does once, where it has sent and received all of a collective and is about to end it.
inline thread_local std::function<void()> before_the_end;

template <class Base>
class interrupted : public Base {
 public:
  class lane_type : public Base::lane_type {
   public:
    explicit lane_type(typename Base::lane_type lane) : Base::lane_type(std::move(lane)) {}
    bool settled() {
      if (before_the_end) std::exchange(before_the_end, nullptr)();
      return Base::lane_type::settled();
    }
  };

  /// What `Base` is made of.
  template <class... Rank>
  explicit interrupted(typename Base::group_type& group, Rank... rank) : Base(group, rank...) {}
  lane_type make_lane(int index) { return lane_type(Base::make_lane(index)); }
  interrupted subgroup(int number, std::span<const int> members) {
    return interrupted(Base::subgroup(number, members));
  }

 private:
  explicit interrupted(Base base) : Base(std::move(base)) {}
};

}  // namespace test
