// SPDX-License-Identifier: BSL-1.0

// What the arbiter of a group decides, without a socket: the test plays the ranks.

#include <tutti/transport/tcp/arbiter.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace tutti::detail;
using tutti::call;
using tutti::call_signature;
using tutti::errc;
using tutti::failure;

const call_signature barrier("barrier", "dissemination", "", "", 0);
const call_signature allreduce("allreduce", "ring", "int", "std::plus<void>", 4);

call call_of(const call_signature& signature, std::uint64_t number) {
  return {&signature, number, 0, 10, -1, {"main.cpp", 12}};
}
std::shared_ptr<const recorded_calls> log_of(const call& c) {
  const auto calls = std::make_shared<recorded_calls>();
  calls->add(recorded_call(c));
  return calls;
}
std::shared_ptr<const recorded_calls> log_of(const call_signature& signature, std::uint64_t count) {
  const auto calls = std::make_shared<recorded_calls>();
  for (std::uint64_t number = 1; number <= count; ++number) calls->add(recorded_call(call_of(signature, number)));
  return calls;
}

/// That rank has waited for the peer, which is late.
control_message late(int peer, std::uint64_t during) {
  return {.kind = control_kind::late,
          .peer = peer,
          .round = 2,
          .milliseconds = 50,
          .calls = log_of(call_of(barrier, during))};
}

/// The ranks, as the arbiter has them.
struct table {
  explicit table(int size) : told(static_cast<std::size_t>(size)), arbiter(size, *this) {}

  void tell(int rank, const control_message& m) { told[static_cast<std::size_t>(rank)].push_back(m); }
  void expire(std::uint64_t ticket, int milliseconds) { timers.emplace_back(ticket, milliseconds); }

  bool says(int rank, control_message m) { return arbiter.receive(rank, m); }
  bool fails(int rank, const failure& f) { return says(rank, control_message::of(control_kind::failed, f)); }
  bool says(int rank, control_kind kind, int peer) {
    return says(rank, {.kind = kind, .peer = peer, .text = "the text of rank " + std::to_string(rank)});
  }
  bool leaves(int rank, const call_signature& signature, std::uint64_t last) {
    const std::uint64_t fingerprint = last == 0 ? 0 : call_of(signature, last).fingerprint();
    return says(rank, {.kind = control_kind::goodbye, .number = last, .fingerprint = fingerprint});
  }
  bool is_late(int rank, int awaited, std::uint64_t during) { return says(rank, late(awaited, during)); }
  /// Whether that rank is asked something that it has not answered, and answers that.
  bool answers(int rank, std::uint64_t last, std::shared_ptr<const recorded_calls> calls = nullptr,
               const std::string& trouble = {}) {
    for (control_message& m : told[static_cast<std::size_t>(rank)]) {
      if (m.kind != control_kind::asks) continue;
      m.kind = control_kind::ping;
      says(rank, {.kind = control_kind::answers,
                  .ticket = m.ticket,
                  .number = last,
                  .text = trouble,
                  .calls = m.number == 0 ? nullptr : std::move(calls)});
      return true;
    }
    return false;
  }
  std::vector<control_message> told_of(int rank, control_kind kind) const {
    std::vector<control_message> result;
    for (const control_message& m : told[static_cast<std::size_t>(rank)])
      if (m.kind == kind) result.push_back(m);
    return result;
  }
  /// What that rank has been told once.
  control_message told_once(int rank, control_kind kind) const {
    const auto messages = told_of(rank, kind);
    REQUIRE(messages.size() == 1);
    return messages[0];
  }
  /// What all ranks have been told, once: the same.
  std::optional<failure> verdict() const {
    std::optional<failure> result;
    for (std::size_t rank = 0; rank < told.size(); ++rank) {
      const auto verdicts = told_of(static_cast<int>(rank), control_kind::verdict);
      CHECK(verdicts.size() == (arbiter.decided() ? 1 : 0));
      if (verdicts.empty()) continue;
      const failure f = verdicts[0].reason();
      if (result) CHECK((result->kind == f.kind && result->peer == f.peer && result->text == f.text));
      result = f;
    }
    return result;
  }
  /// The text of the verdict, which is of that kind.
  std::string verdict_of(errc kind) const {
    const auto f = verdict();
    REQUIRE(f);
    CHECK(f->kind == kind);
    return f->text;
  }
  void check_verdict(errc kind, int peer, const std::string& text) const {
    CHECK(verdict_of(kind) == text);
    CHECK(verdict()->peer == peer);
  }
  bool all_are_told_farewell() const {
    for (std::size_t rank = 0; rank < told.size(); ++rank)
      if (told_of(static_cast<int>(rank), control_kind::farewell).size() != 1) return false;
    return true;
  }

  std::vector<std::vector<control_message>> told;
  std::vector<std::pair<std::uint64_t, int>> timers;
  tcp_arbiter<table> arbiter;
};

}  // namespace

TEST_CASE("the first failure counts, for all ranks") {
  table t(4);
  CHECK_FALSE(t.verdict());
  CHECK(t.fails(2, {errc::resource, -1, "no shoes"}));
  CHECK(t.fails(1, {errc::peer_failed, 3, "no coat"}));
  t.arbiter.gone(3, ended_early(3));
  t.check_verdict(errc::resource, -1, "no shoes");
}

TEST_CASE("A1 a rank whose connection ends without a goodbye has failed, one that has left has not") {
  table t(4);
  CHECK(t.leaves(2, barrier, 3));
  t.arbiter.gone(2, ended_early(2));
  CHECK_FALSE(t.verdict());
  t.arbiter.gone(1, ended_early(1));
  t.check_verdict(errc::peer_failed, 1, "rank 1 has ended without a word");
}

TEST_CASE("C14 all leave in any order: the others hear of it, and in the end all are told farewell") {
  std::mt19937 random(3);
  for (int repetition = 0; repetition < 50; ++repetition) {
    const int size = 2 + repetition % 5;
    table t(size);
    std::vector<int> order;
    for (int rank = 0; rank < size; ++rank) order.push_back(rank);
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i = 0; i < order.size(); ++i) {
      CHECK_FALSE(t.arbiter.ended());
      CHECK(t.leaves(order[i], barrier, 7));
      for (std::size_t j = i + 1; j < order.size(); ++j) {
        const auto news = t.told_of(order[j], control_kind::has_left);
        REQUIRE(news.size() == i + 1);
        CHECK(news[i].peer == order[i]);
        CHECK(news[i].number == 7);
      }
    }
    CHECK(t.arbiter.ended());
    CHECK(t.all_are_told_farewell());
    CHECK_FALSE(t.verdict());
    // What comes later changes nothing: connections end, and so do ranks.
    t.arbiter.gone(size - 1, ended_early(size - 1));
    CHECK(t.fails(0, {errc::peer_failed, 1, "too late"}));
    CHECK_FALSE(t.verdict());
  }
}

TEST_CASE("C14 one that was silent after it left, being stopped, is told farewell like the others") {
  table t(3);
  CHECK(t.leaves(2, barrier, 3));
  t.arbiter.gone(2, silent_too_long(2, 5'000));
  CHECK(t.leaves(0, barrier, 3));
  CHECK(t.leaves(1, barrier, 3));
  CHECK(t.arbiter.ended());
  CHECK(t.all_are_told_farewell());
  CHECK_FALSE(t.verdict());
}

TEST_CASE("E what a rank misses, and what the other has written, is told to the other one of the two") {
  table t(4);
  CHECK(t.says(1, {.kind = control_kind::misses, .peer = 2, .number = 77}));
  const control_message missed = t.told_once(2, control_kind::missed);
  CHECK(missed.peer == 1);
  CHECK(missed.number == 77);
  CHECK(t.says(2, {.kind = control_kind::wrote, .peer = 1, .number = 78}));
  const control_message written = t.told_once(1, control_kind::written);
  CHECK(written.peer == 2);
  CHECK(written.number == 78);
  CHECK(t.told[0].empty());
  CHECK(t.told[3].empty());
  for (const int nobody : {-1, 4, 1})
    CHECK_FALSE(t.says(1, {.kind = control_kind::wrote, .peer = nobody, .number = 78}));
}

TEST_CASE("D4 whatever numbers a rank gives its calls, the comparison ends") {
  for (const std::uint64_t last :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 3, std::uint64_t{1} << 63, std::uint64_t{0}}) {
    CAPTURE(last);
    for (const bool alike : {true, false}) {
      table t(3);
      CHECK(t.says(1, control_kind::differs, 2));
      for (const int rank : {1, 2})
        CHECK(t.answers(rank, last, log_of(call_of(alike || rank == 1 ? barrier : allreduce, last))));
      const bool seen = !alike && last != 0;
      CHECK(t.verdict_of(errc::mismatch)
                .starts_with(seen ? "rank 1 called barrier" : "rank 1 and rank 2 called different things some time"));
    }
  }
}

TEST_CASE("ranks that have not made the same calls are told so in the end") {
  for (const std::uint64_t others : {std::uint64_t{3}, std::uint64_t{2}, std::uint64_t{0}}) {
    CAPTURE(others);
    table t(3);
    CHECK(t.leaves(1, barrier, 3));
    CHECK(t.leaves(0, barrier, 3));
    CHECK(t.leaves(2, allreduce, others));
    CHECK_FALSE(t.arbiter.ended());
    CHECK(t.answers(2, others, others == 0 ? nullptr : log_of(allreduce, others)));
    CHECK_FALSE(t.verdict());
    CHECK(t.answers(0, 3, log_of(barrier, 3)));
    const std::string text = t.verdict_of(errc::mismatch);
    CHECK(text.starts_with("rank 0 called barrier"));
    CHECK(text.find(others == 0 ? "rank 2 called nothing that fits" : "rank 2 called allreduce") != std::string::npos);
    CHECK_FALSE(t.all_are_told_farewell());
  }
}

TEST_CASE("F1 who sees a mismatch makes both ranks tell what they called, and the text does not depend on who saw it") {
  for (const auto& [sees, other] : {std::pair{3, 1}, std::pair{1, 3}}) {
    table t(4);
    CHECK(t.says(sees, control_kind::differs, other));
    CHECK_FALSE(t.answers(0, 0));
    CHECK_FALSE(t.answers(2, 0));
    CHECK(t.answers(1, 2, log_of(barrier, 2)));
    CHECK(t.answers(3, 1, log_of(allreduce, 1)));
    CHECK(t.verdict_of(errc::mismatch) ==
          "rank 1 called barrier by dissemination, call 1 at main.cpp:12; rank 3 called allreduce of 10 x int "
          "(4 bytes each) with std::plus<void> by ring, call 1 at main.cpp:12");
  }
}

TEST_CASE("what a rank receives is not what another has sent: that one tells what it was") {
  const call_signature sends = tutti::message_signature("send", call::outgoing, "int", 4);
  const call_signature receives = tutti::message_signature("recv", call::incoming, "float", 4);
  const call received{&receives, call::between(3, 1), 7, 10, -1, {"here.cpp", 2}};
  control_message m{.kind = control_kind::differs, .peer = 3, .calls = log_of(received)};
  for (const std::uint64_t number : {7U, 8U}) {
    table t(4);
    CHECK(t.says(1, m));
    CHECK_FALSE(t.answers(1, 0));
    CHECK(t.told_of(3, control_kind::asks)[0].number == control_message::all_messages);
    CHECK(t.answers(3, 9, log_of({&sends, call::between(3, 1), number, 20, -1, {"there.cpp", 1}})));
    const std::string sent = number == 7 ? "send of 20 x int (4 bytes each) to rank 1, message 7 at there.cpp:1"
                                         : "a send to rank 1 that does not fit, message 7, too many messages ago to "
                                           "say more";
    t.check_verdict(errc::mismatch, 1,
                    "rank 1 called recv of 10 x float (4 bytes each) from rank 3, message 7 at here.cpp:2; rank 3 "
                    "called " +
                        sent);
  }
  // Not its own, not of that rank, or no message.
  table t(4);
  CHECK_FALSE(t.says(2, m));
  m.peer = 0;
  CHECK_FALSE(t.says(1, m));
  m.calls = log_of(barrier, 1);
  CHECK_FALSE(t.says(1, m));
}

TEST_CASE("a rank that dies before it says what it called is to blame") {
  table t(3);
  CHECK(t.says(0, control_kind::differs, 2));
  CHECK(t.answers(0, 1, log_of(barrier, 1)));
  t.arbiter.gone(2, silent_too_long(2, 300));
  t.check_verdict(errc::peer_failed, 2, "rank 2 has been silent for 300 ms: it is stopped or cannot be reached");
  t.answers(2, 1, log_of(allreduce, 1));
  t.check_verdict(errc::peer_failed, 2, "rank 2 has been silent for 300 ms: it is stopped or cannot be reached");
}

TEST_CASE("who looks around makes the awaited rank compare") {
  table t(3);
  CHECK(t.says(1, {.kind = control_kind::looks, .peer = 2, .number = 9, .fingerprint = 1234}));
  const control_message watches = t.told_once(2, control_kind::watches);
  CHECK(watches.peer == 1);
  CHECK(watches.number == 9);
  CHECK(watches.fingerprint == 1234);
  CHECK(t.told_of(0, control_kind::watches).empty());
}

TEST_CASE("a data connection that ends: a dead rank is blamed, one that has left is not, a living one is") {
  SUBCASE("it is dead") {
    table t(3);
    CHECK(t.says(0, control_kind::suspects, 2));
    CHECK_FALSE(t.verdict());
    t.arbiter.gone(2, ended_early(2));
    t.check_verdict(errc::peer_failed, 2, "rank 2 has ended without a word");
  }
  SUBCASE("it has left, and the goodbye is known") {
    table t(3);
    CHECK(t.leaves(2, barrier, 1));
    CHECK(t.says(0, control_kind::suspects, 2));
    CHECK_FALSE(t.answers(2, 1));
    CHECK_FALSE(t.verdict());
  }
  SUBCASE("it has left, and the goodbye is still on its way") {
    table t(3);
    CHECK(t.says(0, control_kind::suspects, 2));
    CHECK(t.leaves(2, barrier, 1));
    CHECK(t.answers(2, 1));
    CHECK_FALSE(t.verdict());
  }
  SUBCASE("it lives") {
    table t(3);
    CHECK(t.says(1, control_kind::suspects, 2));
    CHECK(t.answers(2, 1));
    t.check_verdict(errc::peer_failed, 2, "the text of rank 1");
  }
  SUBCASE("it lives, but has no descriptors for more connections") {
    table t(3);
    CHECK(t.says(1, control_kind::suspects, 2));
    CHECK(t.answers(2, 1, nullptr, "the limit of 7 is reached"));
    t.check_verdict(errc::resource, 2, "rank 2 can make no more connections: the limit of 7 is reached");
  }
  SUBCASE("the other one fails meanwhile") {
    table t(3);
    CHECK(t.says(1, control_kind::suspects, 2));
    CHECK(t.fails(2, {errc::peer_failed, 2, "no coat"}));
    t.check_verdict(errc::peer_failed, 2, "no coat");
  }
}

TEST_CASE("A11 who waited for a rank that has left is believed, unless it waited in another call") {
  SUBCASE("in the same call, or a later one") {
    table t(3);
    CHECK(t.leaves(2, barrier, 4));
    CHECK(t.fails(1, {errc::peer_failed, 2, "rank 2 left"}));
    CHECK(t.answers(1, 5, log_of(barrier, 5)));
    CHECK(t.answers(2, 4, log_of(barrier, 4)));
    t.check_verdict(errc::peer_failed, 2, "rank 2 left");
  }
  SUBCASE("in another") {
    table t(3);
    CHECK(t.leaves(2, allreduce, 4));
    CHECK(t.fails(1, {errc::peer_failed, 2, "rank 2 left"}));
    CHECK(t.answers(1, 4, log_of(barrier, 4)));
    CHECK(t.answers(2, 4, log_of(allreduce, 4)));
    t.verdict_of(errc::mismatch);
  }
  SUBCASE("and it is gone by then") {
    table t(3);
    CHECK(t.leaves(2, barrier, 4));
    CHECK(t.fails(1, {errc::peer_failed, 2, "rank 2 left"}));
    CHECK(t.answers(1, 5, log_of(barrier, 5)));
    t.arbiter.gone(2, ended_early(2));
    t.check_verdict(errc::peer_failed, 2, "rank 2 left");
  }
}

TEST_CASE("who is late: the last to come, or the awaited one, or who does not even answer") {
  const std::string waited =
      ": rank 1 waited 50 ms for rank 2 in round 2 of barrier by dissemination, call 5 at main.cpp:12";
  SUBCASE("another has not come so far") {
    table t(4);
    CHECK(t.is_late(1, 2, 5));
    REQUIRE(t.timers.size() == 1);
    CHECK(t.timers[0].second == tcp_arbiter<table>::patience_ms);
    for (const auto& [rank, last] : {std::pair{0, 5}, std::pair{1, 5}, std::pair{3, 3}, std::pair{2, 5}})
      CHECK(t.answers(rank, static_cast<std::uint64_t>(last)));
    t.check_verdict(errc::timed_out, 3, "rank 3 was late" + waited + ", which that rank has not called");
    t.arbiter.expired(t.timers[0].first);
  }
  SUBCASE("all are there") {
    table t(3);
    CHECK(t.is_late(1, 2, 5));
    CHECK(t.is_late(0, 1, 5));  // asked already
    CHECK(t.timers.size() == 1);
    for (int rank = 0; rank < 3; ++rank) CHECK(t.answers(rank, 5));
    t.check_verdict(errc::timed_out, 2, "rank 2 was late" + waited);
  }
  SUBCASE("one does not answer") {
    table t(4);
    CHECK(t.is_late(1, 2, 5));
    for (const int rank : {0, 1, 2}) CHECK(t.answers(rank, 5));
    CHECK_FALSE(t.verdict());
    t.arbiter.expired(t.timers[0].first);
    t.check_verdict(errc::timed_out, 3, "rank 3 was late" + waited + "; rank 3 does not answer");
  }
  SUBCASE("one has left and is gone") {
    table t(3);
    CHECK(t.leaves(0, barrier, 4));
    t.arbiter.gone(0, ended_early(0));
    CHECK(t.is_late(1, 2, 5));
    CHECK(t.answers(1, 5));
    CHECK(t.answers(2, 5));
    t.check_verdict(errc::timed_out, 0, "rank 0 was late" + waited + ", which that rank has not called");
  }
}

TEST_CASE("what no rank may say is refused") {
  table t(3);
  for (const control_kind kind : {control_kind::suspects, control_kind::differs, control_kind::looks})
    for (const int peer : {-1, 1, 3, 1'000'000}) CHECK_FALSE(t.says(1, kind, peer));
  for (const control_kind kind : {control_kind::asks, control_kind::watches, control_kind::has_left,
                                  control_kind::verdict, control_kind::farewell})
    CHECK_FALSE(t.says(1, kind, 2));
  CHECK_FALSE(t.says(1, control_kind::late, 2));  // in no call
  CHECK_FALSE(t.fails(1, {errc::peer_failed, 3, ""}));
  CHECK_FALSE(t.fails(1, {errc::peer_failed, -2, ""}));
  CHECK(t.says(1, {.kind = control_kind::answers, .ticket = 99}));  // too late, or to nothing
  CHECK_FALSE(t.verdict());
}

TEST_CASE("whatever the ranks say, in any order, there is one verdict or a farewell at most") {
  std::mt19937 random(11);
  int verdicts = 0;
  int farewells = 0;
  for (int repetition = 0; repetition < 2000; ++repetition) {
    const int size = 2 + static_cast<int>(random() % 4);
    table t(size);
    for (int step = 0; step < 40; ++step) {
      const int rank = static_cast<int>(random() % static_cast<unsigned>(size));
      const int other = (rank + 1) % size;
      switch (random() % 14) {
        case 0:
          if (random() % 8 == 0) t.arbiter.gone(rank, ended_early(rank));
          break;
        case 1:
          if (random() % 8 == 0) t.fails(rank, {errc::peer_failed, other, "text"});
          break;
        case 2:
          if (random() % 8 == 0) t.says(rank, control_kind::differs, other);
          break;
        case 3:
          t.says(rank, control_kind::suspects, other);
          break;
        case 4:
          if (random() % 8 == 0) t.is_late(rank, other, 3);
          break;
        case 5:
          if (!t.timers.empty()) t.arbiter.expired(t.timers[random() % t.timers.size()].first);
          break;
        case 6:
        case 7:
        case 8:
          t.leaves(rank, random() % 16 == 0 ? allreduce : barrier, 2);
          break;
        default:
          t.answers(rank, 2, log_of(barrier, 2));
      }
    }
    const bool failed = t.verdict().has_value();
    CHECK_FALSE((failed && t.arbiter.ended()));
    verdicts += failed ? 1 : 0;
    farewells += t.arbiter.ended() ? 1 : 0;
  }
  CHECK(verdicts > 100);
  CHECK(farewells > 100);
}

namespace {

/// Says it of a communicator of these ranks.
control_message about(std::uint32_t group, const std::vector<int>& members, control_message m) {
  m.group = group;
  m.members = std::make_shared<const std::vector<std::int32_t>>(members.begin(), members.end());
  return m;
}
control_message about(std::uint32_t group, const std::vector<int>& members, control_kind kind, int peer) {
  return about(group, members, control_message{.kind = kind, .peer = peer});
}
/// What those ranks have been told last of that communicator, and no other rank has: the same.
void check_part_verdict(const table& t, std::uint32_t group, const std::vector<int>& members, const failure& expected) {
  for (int rank = 0; rank < t.arbiter.size(); ++rank) {
    CAPTURE(rank);
    const auto verdicts = t.told_of(rank, control_kind::verdict);
    if (std::find(members.begin(), members.end(), rank) == members.end()) {
      CHECK(verdicts.empty());
      continue;
    }
    REQUIRE(verdicts.size() == 1);
    CHECK(verdicts[0].group == group);
    CHECK(verdicts[0].fingerprint == hash_of_ranks(members));
    CHECK(verdicts[0].members == nullptr);
    CHECK(verdicts[0].code == expected.kind);
    CHECK(verdicts[0].peer == expected.peer);
    CHECK(verdicts[0].text == expected.text);
  }
  CHECK_FALSE(t.arbiter.decided());
}

}  // namespace

TEST_CASE("what concerns a communicator of some ranks is decided for them, and in their numbers") {
  table t(6);
  const std::vector<int> members{5, 3, 1};
  SUBCASE("a failure") {
    control_message m = about(9, members, control_kind::failed, 2);
    m.text = "no shoes";
    CHECK(t.says(1, m));  // of itself
    check_part_verdict(t, 9, members, {errc::peer_failed, 2, "no shoes"});
  }
  SUBCASE("a rank that left it, and had called the same") {
    control_message m = about(9, members, control_kind::failed, 0);
    m.text = "it left";
    CHECK(t.says(1, m));
    CHECK(t.answers(5, 2, log_of(barrier, 2)));
    CHECK(t.answers(1, 3, log_of(barrier, 3)));
    check_part_verdict(t, 9, members, {errc::peer_failed, 0, "it left"});
  }
  SUBCASE("a rank that left it, and had called something else") {
    CHECK(t.says(1, about(9, members, control_kind::failed, 0)));
    CHECK(t.answers(5, 1, log_of(allreduce, 1)));
    CHECK(t.answers(1, 1, log_of(barrier, 1)));
    check_part_verdict(t, 9, members,
                       {errc::mismatch, 0,
                        "rank 0 called allreduce of 10 x int (4 bytes each) with std::plus<void> by ring, call 1 at "
                        "main.cpp:12; rank 2 called barrier by dissemination, call 1 at main.cpp:12 (ranks of a "
                        "communicator of ranks 5, 3, 1)"});
  }
  SUBCASE("calls that differ") {
    CHECK(t.says(3, about(9, members, control_kind::differs, 1)));
    CHECK(t.told_of(3, control_kind::asks)[0].group == 9);
    CHECK(t.answers(3, 1, log_of(barrier, 1)));
    CHECK(t.answers(1, 0));
    check_part_verdict(
        t, 9, members,
        {errc::mismatch, 1,
         "rank 1 called barrier by dissemination, call 1 at main.cpp:12; rank 2 called nothing that fits "
         "(ranks of a communicator of ranks 5, 3, 1)"});
  }
  SUBCASE("a rank that is late, in two communicators of one number") {
    CHECK(t.says(1, about(9, members, late(5, 4))));
    CHECK(t.says(3, about(9, members, late(5, 4))));  // asked already
    CHECK(t.says(0, about(9, {0, 2}, late(2, 4))));   // another
    REQUIRE(t.timers.size() == 2);
    for (const int rank : members) CHECK(t.told_of(rank, control_kind::asks).size() == 1);
    CHECK(t.answers(1, 4));
    CHECK(t.answers(5, 4));
    CHECK(t.answers(3, 3));
    check_part_verdict(
        t, 9, members,
        {errc::timed_out, 1,
         "rank 1 was late: rank 2 waited 50 ms for rank 0 in round 2 of barrier by dissemination, call 4 "
         "at main.cpp:12, which that rank has not called (ranks of a communicator of ranks 5, 3, 1)"});
    t.arbiter.expired(t.timers[1].first);
    CHECK(
        t.told_of(0, control_kind::verdict)[0].text.ends_with("rank 0 does not answer (ranks of a communicator of "
                                                              "ranks 0, 2)"));
  }
  // The group goes on, and may fail.
  CHECK(t.fails(0, {errc::resource, -1, "no coat"}));
  CHECK(t.arbiter.decided());
  const auto verdicts = t.told_of(4, control_kind::verdict);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].group == 0);
}

TEST_CASE("who looks for a rank that has left a communicator is told so, and nobody else") {
  table t(3);
  control_message m = about(4, {2, 0}, control_kind::looks, 2);
  m.members = nullptr;
  m.number = 7;
  CHECK(t.says(0, m));
  REQUIRE(t.told_of(2, control_kind::watches).size() == 1);
  CHECK(t.told_of(2, control_kind::watches)[0].group == 4);
  CHECK(t.told_of(2, control_kind::watches)[0].peer == 0);
  m.kind = control_kind::is_gone;
  m.peer = 0;
  m.number = 6;
  m.ticket = 900;  // bytes
  CHECK(t.says(2, m));
  REQUIRE(t.told_of(0, control_kind::has_left).size() == 1);
  const control_message told = t.told_of(0, control_kind::has_left)[0];
  CHECK((told.group == 4 && told.peer == 2 && told.number == 6 && told.ticket == 900));
  CHECK(t.told_of(1, control_kind::has_left).empty());
}

TEST_CASE("ranks that leave with a communicator must have called the same there") {
  const std::vector<int> one{2, 0};
  const std::vector<int> other{1, 3};
  for (const bool same : {true, false}) {
    table t(4);
    for (int rank = 0; rank < 4; ++rank) {
      control_message m = about(3, rank % 2 == 0 ? one : other, control_kind::keeps, -1);
      m.number = rank % 2 == 0 || same || rank == 1 ? 5 : 6;
      m.fingerprint = m.number + static_cast<unsigned>(rank % 2);
      CHECK(t.says(rank, m));
      CHECK(t.leaves(rank, barrier, 2));
    }
    CHECK(t.all_are_told_farewell() == same);
    if (same) continue;
    CHECK(t.answers(3, 6, log_of(barrier, 6)));
    CHECK(t.answers(1, 5, log_of(barrier, 5)));
    t.check_verdict(errc::mismatch, 0,
                    "rank 0 called nothing that fits; rank 1 called barrier by dissemination, call 6 at main.cpp:12 "
                    "(ranks of a communicator of ranks 1, 3)");
  }
}

TEST_CASE("ranks that leave with two communicators of one number, which begin with a rank that missed one, agree") {
  table t(4);
  const std::vector<int> one{0, 1, 3};
  const std::vector<int> other{0, 2};
  for (int rank = 0; rank < 4; ++rank) {
    control_message m = about(3, rank % 2 == 1 ? one : other, control_kind::keeps, -1);
    m.fingerprint = m.number = rank % 2 == 1 ? 5 : 6;
    CHECK(t.says(rank, m));
    CHECK(t.leaves(rank, barrier, 2));
  }
  CHECK(t.all_are_told_farewell());
}

TEST_CASE("members that cannot be are nonsense") {
  const auto refused = [](int from, control_message m) {
    table t(4);
    if (m.kind == control_kind::late) m.calls = log_of(barrier, 1);
    return !t.says(from, m);
  };
  for (const auto kind : {control_kind::failed, control_kind::differs, control_kind::late, control_kind::keeps}) {
    CHECK_FALSE(refused(1, about(2, {0, 1}, kind, 0)));
    CHECK(refused(2, about(2, {0, 1}, kind, 0)));
    CHECK(refused(1, about(2, {0, 1, 4}, kind, 0)));
    CHECK(refused(1, about(2, {0, 1, -1}, kind, 0)));
    CHECK(refused(1, about(2, {0, 1, 0}, kind, 0)));
    CHECK(refused(1, about(2, {0, 1, 2, 3, 0}, kind, 0)));
    CHECK(refused(1, about(0, {0, 1}, kind, 0)));
    control_message none = about(2, {}, kind, 0);
    CHECK(refused(1, none));
    none.members = nullptr;
    CHECK(refused(1, none));
  }
  CHECK(refused(1, about(2, {0, 1}, control_kind::differs, 2)));
  CHECK(refused(1, about(2, {0, 1}, control_kind::late, 3)));
  CHECK(refused(1, about(2, {0, 1}, control_kind::failed, 2)));
  CHECK(refused(1, about(2, {0, 1}, control_kind::looks, 0)));
  CHECK(refused(1, about(0, {}, control_kind::keeps, 0)));
  table t(2);
  const int most = tcp_arbiter<table>::most_kept;
  for (int i = 0; i < most; ++i) CHECK(t.says(1, about(7, {1}, control_kind::keeps, -1)));
  CHECK_FALSE(t.says(1, about(7, {1}, control_kind::keeps, -1)));
}
