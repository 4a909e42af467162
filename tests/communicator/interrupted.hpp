// SPDX-License-Identifier: BSL-1.0
#pragma once

// A transport on which a test interferes at the end of a collective.

#include <tutti/communicator/communicator.hpp>
#include <tutti/core/call.hpp>

#include <functional>
#include <span>
#include <utility>

namespace test {

/// What this thread does once, where it has sent all of a collective, and received it or is about to. If the collective
/// has several rounds, it is for the test to say which is the last.
inline thread_local std::function<void()> before_the_end;
inline thread_local int last_round = 0;

template <class Base>
class interrupted : public Base {
 public:
  class lane_type : public Base::lane_type {
   public:
    explicit lane_type(typename Base::lane_type lane) : Base::lane_type(std::move(lane)) {}
    void open(const tutti::call& c) {
      round_ = -1;
      Base::lane_type::open(c);
    }
    void begin_round() {
      ++round_;
      Base::lane_type::begin_round();
    }
    bool settled() {
      if (before_the_end && round_ >= last_round) std::exchange(before_the_end, nullptr)();
      return Base::lane_type::settled();
    }

   private:
    int round_ = -1;
  };

  /// What `Base` is made of.
  template <class... Rank>
  explicit interrupted(typename Base::group_type& group, Rank... rank) : Base(group, rank...) {}
  explicit interrupted(Base made) : Base(std::move(made)) {}
  lane_type make_lane(int index) { return lane_type(Base::make_lane(index)); }
  interrupted subgroup(int number, std::span<const int> members) {
    return interrupted(Base::subgroup(number, members));
  }
};

}  // namespace test
