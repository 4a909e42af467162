// SPDX-License-Identifier: BSL-1.0

// The smallest types that model the concepts of transports, and near-misses: each lacks or spoils one thing.

#include <tutti/core/transport.hpp>

#include <doctest/doctest.h>
#include <tutti/communicator/communicator.hpp>
#include <tutti/transport/simulated.hpp>
#include <tutti/transport/threads.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace {

/// Says yes or no, and is nothing else.
struct answer {
  operator bool() const { return true; }  // NOLINT(google-explicit-constructor): that is what it is for
};

/// A lane that lacks what `Missing` says; with 0 the smallest lane.
template <int Missing = 0>
struct archetype_lane {
  void open(const tutti::call&) requires(Missing != 1) {}
  void begin_round() requires(Missing != 2) {}
  bool send(int, const std::byte*, std::size_t, bool) requires(Missing != 3) { return true; }
  answer try_recv(int, std::byte*, std::size_t) requires(Missing != 4) { return {}; }
  answer settled() requires(Missing != 5) { return {}; }
  void idle() requires(Missing != 6) {}
  void glance() requires(Missing != 7) {}
  void awake() requires(Missing != 8) {}
  void abandon(const std::string&) requires(Missing != 9) {}
  void withdraw() requires(Missing != 10) {}
};
static_assert(tutti::lane<archetype_lane<>>);
static_assert(!tutti::lane<archetype_lane<1>>);
static_assert(!tutti::lane<archetype_lane<2>>);
static_assert(!tutti::lane<archetype_lane<3>>);
static_assert(!tutti::lane<archetype_lane<4>>);
static_assert(!tutti::lane<archetype_lane<5>>);
static_assert(!tutti::lane<archetype_lane<6>>);
static_assert(!tutti::lane<archetype_lane<7>>);
static_assert(!tutti::lane<archetype_lane<8>>);
static_assert(!tutti::lane<archetype_lane<9>>);
static_assert(!tutti::lane<archetype_lane<10>>);
static_assert(!tutti::viewing_lane<archetype_lane<>> && !tutti::sharing_lane<archetype_lane<>>);

struct receives_without_an_answer : archetype_lane<> {
  void try_recv(int, std::byte*, std::size_t) {}
};
static_assert(!tutti::lane<receives_without_an_answer>);

struct writes_what_it_sends : archetype_lane<> {
  bool send(int, std::byte*, std::size_t, bool) { return true; }
};
static_assert(!tutti::lane<writes_what_it_sends>);

struct sends_without_knowing_whether_to_copy : archetype_lane<> {
  bool send(int, const std::byte*, std::size_t) { return true; }
};
static_assert(!tutti::lane<sends_without_knowing_whether_to_copy>);

struct changes_the_call : archetype_lane<> {
  void open(tutti::call&) {}
};
static_assert(!tutti::lane<changes_the_call>);

template <int Missing = 0>
struct archetype_viewing_lane : archetype_lane<> {
  const std::byte* view(int, std::size_t) requires(Missing != 1) { return nullptr; }
  void claim(int) requires(Missing != 2) {}
  void release(int) requires(Missing != 3) {}
};
static_assert(tutti::viewing_lane<archetype_viewing_lane<>>);
static_assert(!tutti::viewing_lane<archetype_viewing_lane<1>>);
static_assert(!tutti::viewing_lane<archetype_viewing_lane<2>>);
static_assert(!tutti::viewing_lane<archetype_viewing_lane<3>>);

struct shows_what_may_be_written : archetype_viewing_lane<> {
  std::byte* view(int, std::size_t) { return nullptr; }
};
static_assert(!tutti::viewing_lane<shows_what_may_be_written>);

template <int Missing = 0>
struct archetype_landing_lane : archetype_lane<> {
  static constexpr bool lands = Missing != 1;
  const std::byte* view(int, std::size_t) requires(Missing != 2) { return nullptr; }
  const std::byte* view(int, std::size_t, std::byte*) requires(Missing != 3) { return nullptr; }
  void claim(int) {}
  void release(int) {}
};
static_assert(tutti::landing_lane<archetype_landing_lane<>>);
static_assert(!tutti::landing_lane<archetype_landing_lane<1>> && tutti::viewing_lane<archetype_landing_lane<1>>);
static_assert(!tutti::landing_lane<archetype_landing_lane<2>>);
static_assert(!tutti::landing_lane<archetype_landing_lane<3>>);
static_assert(!tutti::landing_lane<archetype_viewing_lane<>>);

/// Views are no use without the lane.
struct views_alone {
  const std::byte* view(int, std::size_t) { return nullptr; }
  void claim(int) {}
  void release(int) {}
};
static_assert(!tutti::viewing_lane<views_alone>);

template <int Missing = 0>
struct archetype_shown_bytes {
  static constexpr std::size_t shown_bytes = 0;
};
template <>
struct archetype_shown_bytes<8> {};
template <int Missing = 0>
struct archetype_sharing_lane : archetype_lane<>, archetype_shown_bytes<Missing> {
  bool shows(const std::byte*, std::size_t) requires(Missing != 9) { return true; }
  bool publish(int, const std::byte*, std::size_t, std::size_t, bool) requires(Missing != 1) { return true; }
  void publish_to(int, bool) requires(Missing != 2) {}
  void expect(int, std::size_t) requires(Missing != 3) {}
  const std::byte* look(int, std::size_t) requires(Missing != 4) { return nullptr; }
  void claim_shared() requires(Missing != 5) {}
  void release_shared() requires(Missing != 6) {}
  void end_shared(bool) requires(Missing != 7) {}
  bool crowded() requires(Missing != 10) { return false; }
};
static_assert(tutti::sharing_lane<archetype_sharing_lane<>> && !tutti::viewing_lane<archetype_sharing_lane<>>);
static_assert(!tutti::sharing_lane<archetype_sharing_lane<1>>);
static_assert(!tutti::sharing_lane<archetype_sharing_lane<2>>);
static_assert(!tutti::sharing_lane<archetype_sharing_lane<3>>);
static_assert(!tutti::sharing_lane<archetype_sharing_lane<4>>);
static_assert(!tutti::sharing_lane<archetype_sharing_lane<5>>);
static_assert(!tutti::sharing_lane<archetype_sharing_lane<6>>);
static_assert(!tutti::sharing_lane<archetype_sharing_lane<7>>);
static_assert(!tutti::sharing_lane<archetype_sharing_lane<8>>);
static_assert(!tutti::sharing_lane<archetype_sharing_lane<9>>);
static_assert(!tutti::sharing_lane<archetype_sharing_lane<10>>);

template <int Missing = 0, bool Opens = true>
struct archetype_opening_lane : archetype_sharing_lane<Missing> {
  static constexpr bool opens = Opens;
};
static_assert(tutti::opening_lane<archetype_opening_lane<>>);
static_assert(!tutti::opening_lane<archetype_opening_lane<0, false>>);
static_assert(!tutti::opening_lane<archetype_opening_lane<4>>);
static_assert(!tutti::opening_lane<archetype_sharing_lane<>>);

struct always_has_room : archetype_sharing_lane<> {
  void publish(int, const std::byte*, std::size_t, std::size_t, bool) {}
};
static_assert(!tutti::sharing_lane<always_has_room>);

struct archetype_timed_lane : archetype_lane<> {
  void folded(std::size_t) {}
};
static_assert(tutti::timed_lane<archetype_timed_lane> && !tutti::timed_lane<archetype_lane<>>);

/// Time is no use without the lane.
struct folds_alone {
  void folded(std::size_t) {}
};
static_assert(!tutti::timed_lane<folds_alone>);

template <bool Has>
struct archetype_pack_bytes {
  static constexpr std::size_t pack_bytes = 0;
};
template <bool Has>
struct archetype_copy_bytes {
  static constexpr std::size_t copy_bytes = 0;
};
template <bool Has>
struct archetype_exchange_copy_bytes {
  static constexpr std::size_t exchange_copy_bytes = 0;
};
template <>
struct archetype_pack_bytes<false> {};
template <>
struct archetype_copy_bytes<false> {};
template <>
struct archetype_exchange_copy_bytes<false> {};

template <int Missing = 0, class Lane = archetype_lane<>>
struct archetype_transport : archetype_pack_bytes<Missing != 1>,
                             archetype_copy_bytes<Missing != 2>,
                             archetype_exchange_copy_bytes<Missing != 3> {
  using lane_type = Lane;
  int rank() const requires(Missing != 4) { return 0; }
  int size() const requires(Missing != 5) { return 1; }
  Lane make_lane(int) requires(Missing != 6) { return {}; }
  tutti::cost_parameters costs() const requires(Missing != 7) { return {}; }
  void timeout(std::chrono::nanoseconds) requires(Missing != 8) {}
  void check() requires(Missing != 9) {}
  void abort(std::string_view) requires(Missing != 10) {}
};
static_assert(tutti::transport<archetype_transport<>>);
static_assert(!tutti::transport<archetype_transport<1>>);
static_assert(!tutti::transport<archetype_transport<2>>);
static_assert(!tutti::transport<archetype_transport<3>>);
static_assert(!tutti::transport<archetype_transport<4>>);
static_assert(!tutti::transport<archetype_transport<5>>);
static_assert(!tutti::transport<archetype_transport<6>>);
static_assert(!tutti::transport<archetype_transport<7>>);
static_assert(!tutti::transport<archetype_transport<8>>);
static_assert(!tutti::transport<archetype_transport<9>>);
static_assert(!tutti::transport<archetype_transport<10>>);
static_assert(!tutti::transport<archetype_transport<0, archetype_lane<3>>>);
static_assert(tutti::transport<archetype_transport<0, archetype_viewing_lane<>>>);
static_assert(tutti::transport<archetype_transport<0, archetype_sharing_lane<>>>);

struct counts_ranks_in_long : archetype_transport<> {
  long size() const { return 1; }
};
static_assert(!tutti::transport<counts_ranks_in_long>);

struct makes_another_lane : archetype_transport<> {
  archetype_viewing_lane<> make_lane(int) { return {}; }
};
static_assert(!tutti::transport<makes_another_lane>);

struct knows_its_rank_only_while_it_changes : archetype_transport<> {
  int rank() { return 0; }
};
static_assert(!tutti::transport<knows_its_rank_only_while_it_changes>);

static_assert(tutti::transport<tutti::threads>);
static_assert(tutti::viewing_lane<tutti::threads::lane_type> && tutti::sharing_lane<tutti::threads::lane_type>);
static_assert(!tutti::timed_lane<tutti::threads::lane_type>);
static_assert(tutti::transport<tutti::simulated> && tutti::timed_lane<tutti::simulated::lane_type>);
static_assert(!tutti::viewing_lane<tutti::simulated::lane_type> && !tutti::sharing_lane<tutti::simulated::lane_type>);
static_assert(!tutti::transport<int> && !tutti::lane<int>);

template <class T>
concept has_communicator = requires {
  typename tutti::communicator<T>;
};
static_assert(has_communicator<archetype_transport<>>);
static_assert(!has_communicator<archetype_transport<4>> && !has_communicator<int>);

}  // namespace

TEST_CASE("the archetypes do what is asked of them, which is nothing") {
  archetype_lane<> lane;
  lane.open({});
  lane.begin_round();
  lane.send(0, nullptr, 0, true);
  CHECK(bool(lane.try_recv(0, nullptr, 0)));
  CHECK(bool(lane.settled()));
  lane.idle();
  lane.glance();
  lane.awake();
  lane.abandon("");
  lane.withdraw();
  archetype_viewing_lane<> viewing;
  CHECK(viewing.view(0, 0) == nullptr);
  viewing.claim(0);
  viewing.release(0);
  archetype_sharing_lane<> sharing;
  CHECK(sharing.publish(-1, nullptr, 0, 0, true));
  sharing.publish_to(0, true);
  sharing.expect(0, 0);
  CHECK(sharing.look(0, 0) == nullptr);
  sharing.claim_shared();
  sharing.release_shared();
  sharing.end_shared(true);
  CHECK_FALSE(sharing.crowded());
  archetype_timed_lane{}.folded(0);
  archetype_transport<> transport;
  CHECK(transport.rank() == 0);
  CHECK(transport.size() == 1);
  static_cast<void>(transport.make_lane(0));
  CHECK(transport.costs().round == 0.0);
  transport.timeout({});
  transport.check();
  transport.abort("");
  const tutti::communicator<archetype_transport<>> comm{archetype_transport<>{}};
  CHECK(comm.size() == 1);
}
