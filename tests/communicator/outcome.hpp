// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/tutti.hpp>

#include <doctest/doctest.h>

#include <deque>
#include <exception>
#include <ostream>
#include <string>
#include <vector>

namespace test {

/// How a piece of work ended.
struct outcome {
  std::string kind = "none";  ///< of the exception: "mismatch", "peer_failed", ..., "other"; or "none"
  std::string text;
  int peer = -1;  ///< the rank that the exception names, where it names one
  friend bool operator==(const outcome&, const outcome&) = default;
  friend std::ostream& operator<<(std::ostream& out, const outcome& o) {
    return out << o.kind << " of " << o.peer << ": " << o.text;
  }
};

template <class F>
outcome outcome_of(F&& work) {
  try {
    work();
    return {};
  } catch (const tutti::mismatch& e) {
    return {"mismatch", e.what(), -1};
  } catch (const tutti::peer_failed& e) {
    return {"peer_failed", e.what(), e.peer()};
  } catch (const tutti::timed_out& e) {
    return {"timed_out", e.what(), e.peer()};
  } catch (const tutti::usage_error& e) {
    return {"usage_error", e.what(), -1};
  } catch (const tutti::resource_error& e) {
    return {"resource_error", e.what(), -1};
  } catch (const std::exception& e) {
    return {"other", e.what(), -1};
  } catch (...) {
    return {"other", "", -1};
  }
}

/// How `tutti::run(ranks, work)` ended, on each rank and as a whole.
struct outcomes {
  std::vector<outcome> of;
  outcome run;
};

template <class F>
outcomes outcomes_of_run(int ranks, F&& work) {
  outcomes result{std::vector<outcome>(static_cast<std::size_t>(ranks)), {}};
  result.run = outcome_of([&] {
    tutti::run(ranks, [&](auto& comm) {
      std::exception_ptr thrown;
      result.of[static_cast<std::size_t>(comm.rank())] = outcome_of([&] {
        try {
          work(comm);
        } catch (...) {
          thrown = std::current_exception();
          throw;
        }
      });
      if (thrown) std::rethrow_exception(thrown);
    });
  });
  return result;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// All ended with the same, which is of that kind, of that peer, and contains those texts.
inline void check_all_failed(const std::deque<outcome>& ended, const std::string& kind, int peer,
                             const std::vector<std::string>& texts) {
  REQUIRE_FALSE(ended.empty());
  for (const outcome& o : ended) {
    CHECK(o == ended.front());
    CHECK(o.kind == kind);
    CHECK(o.peer == peer);
    CAPTURE(o.text);
    for (const std::string& text : texts) CHECK_MESSAGE(contains(o.text, text), text);
  }
}

}  // namespace test
