// SPDX-License-Identifier: BSL-1.0
#include <tutti/simulation/event_queue.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <queue>
#include <random>
#include <utility>
#include <vector>

namespace {

struct event {
  double at;
  int number;
  friend bool operator==(const event&, const event&) = default;
};

}  // namespace

TEST_CASE("events come in the order of time, those of one time as they were pushed") {
  tutti::detail::event_queue<event> queue;
  for (const event& e : {event{3, 0}, event{1e-300, 1}, event{0, 2}, event{3, 3}, event{1e300, 4}, event{0, 5}}) {
    queue.push(e);
  }
  std::vector<int> order;
  while (!queue.empty()) order.push_back(queue.pop().number);
  CHECK(order == std::vector{2, 5, 1, 0, 3, 4});
}

TEST_CASE("events pushed while others are popped come as from a binary heap") {
  std::mt19937 random(3);
  const auto later = [](const event& a, const event& b) {
    return std::pair(a.at, a.number) > std::pair(b.at, b.number);
  };
  std::priority_queue<event, std::vector<event>, decltype(later)> expected(later);
  tutti::detail::event_queue<event> queue;
  int number = 0;
  const auto push = [&](double at) {
    queue.push({at, number});
    expected.push({at, number});
    ++number;
  };
  for (int i = 0; i < 100; ++i) push(0);
  int wrong = 0;
  for (int i = 0; i < 20'000; ++i) {
    const event e = queue.pop();
    wrong += e == expected.top() ? 0 : 1;
    expected.pop();
    // Some at once, some at the same later time as others, some at times of their own.
    const auto kind = random() % 3;
    push(kind == 0 ? e.at : e.at + (kind == 1 ? 1.0 : static_cast<double>(random()) * 1e-9));
  }
  CHECK(wrong == 0);
  CHECK(number == 20'100);
}

TEST_CASE("what comes next is known only for the current time") {
  tutti::detail::event_queue<event> queue;
  for (int i = 0; i < 4; ++i) queue.push({1, i});
  queue.push({2, 4});
  CHECK(queue.peek(0) == nullptr);
  CHECK(queue.pop().number == 0);
  REQUIRE(queue.peek(2) != nullptr);
  CHECK(queue.peek(2)->number == 3);
  CHECK(queue.peek(3) == nullptr);
}
