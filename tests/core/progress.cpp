// SPDX-License-Identifier: BSL-1.0
#include <tutti/core/progress.hpp>

#include <doctest/doctest.h>

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

bool finished(tutti::in_progress&) { return true; }

std::vector<const tutti::in_progress*> all(const tutti::in_progress& head) {
  std::vector<const tutti::in_progress*> result;
  for (const tutti::in_progress* p = head.next(); p != nullptr; p = p->next()) result.push_back(p);
  return result;
}

}  // namespace

static_assert(!std::is_copy_constructible_v<tutti::in_progress> && !std::is_move_constructible_v<tutti::in_progress>);

TEST_CASE("who joins is in the list until it leaves, whatever the order") {
  tutti::in_progress head(nullptr);
  tutti::in_progress a(finished), b(finished), c(finished);
  CHECK(all(head).empty());
  a.join(head);
  b.join(head);
  c.join(head);
  CHECK(all(head) == std::vector<const tutti::in_progress*>{&c, &b, &a});
  b.leave();
  CHECK(all(head) == std::vector<const tutti::in_progress*>{&c, &a});
  c.leave();
  CHECK(all(head) == std::vector<const tutti::in_progress*>{&a});
  b.join(head);
  CHECK(all(head) == std::vector<const tutti::in_progress*>{&b, &a});
  a.leave();
  b.leave();
  CHECK(all(head).empty());
  b.leave();  // Once more is nothing.
  CHECK(all(head).empty());
}

TEST_CASE("who is destroyed leaves") {
  tutti::in_progress head(nullptr);
  std::optional<tutti::in_progress> a(std::in_place, finished);
  tutti::in_progress b(finished);
  a->join(head);
  b.join(head);
  a.reset();
  CHECK(all(head) == std::vector<const tutti::in_progress*>{&b});
}
