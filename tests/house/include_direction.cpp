// SPDX-License-Identifier: BSL-1.0

// The rooms of the library may include each other in one direction only.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "house/source_tree.hpp"

namespace {

const std::map<std::string, std::set<std::string>> may_include{
    {"core", {"core"}},
    {"schedule", {"core", "schedule"}},
    {"transport", {"core", "transport"}},
    {"communicator", {"core", "communicator"}},
    {"simulation", {"core", "schedule", "simulation"}},
    {"collective", {"core", "schedule", "communicator", "collective"}},
    {"training", {"core", "schedule", "communicator", "collective", "training"}},
};

const std::set<std::string> transports{"threads", "processes", "tcp", "mpi", "hierarchical", "simulated"};

/// The parts of `tutti/room/name/...` without the extension: {"room", "name", ...}.
std::vector<std::string> parts(const std::string& header) {
  std::vector<std::string> result;
  std::string part;
  for (const char c : header.substr(std::string("tutti/").size()) + '/') {
    if (c != '/') {
      part += c;
      continue;
    }
    result.push_back(part.substr(0, part.find('.')));
    part.clear();
  }
  return result;
}

/// The transport that a header belongs to, empty for one that belongs to none: `tutti/transport/tcp.hpp`,
/// `tutti/transport/tcp_socket.hpp` and `tutti/transport/tcp/socket.hpp` belong to tcp.
std::string transport_of(const std::string& header) {
  const std::vector<std::string> path = parts(header);
  if (path.size() < 2 || path[0] != "transport") return {};
  const std::string name = path[1].substr(0, path[1].find('_'));
  return transports.contains(name) ? name : std::string{};
}

/// What is wrong with `header` including `included`, if anything.
std::optional<std::string> objection(const std::string& header, const std::string& included) {
  const std::vector<std::string> from = parts(header);
  const std::vector<std::string> to = parts(included);
  if (from.size() == 1) return {};  // tutti.hpp, the door of the house, includes every room.
  if (to.size() == 1) return "a room includes the whole house";
  if (!may_include.contains(from[0])) return "no such room: " + from[0];
  if (!may_include.at(from[0]).contains(to[0])) return from[0] + " may not include " + to[0];
  const std::string transport = transport_of(included);
  if (!transport.empty() && transport != transport_of(header)) return "only " + transport + " may include itself";
  return {};
}

std::vector<std::string> includes_of(const std::string& header) {
  static const std::regex include("^\\s*#\\s*include\\s*[<\"]([^>\"]+)[>\"]");
  std::vector<std::string> result;
  for (const std::string& line : house::lines(house::read("include/" + header))) {
    if (std::smatch match; std::regex_search(line, match, include)) result.push_back(match[1]);
  }
  return result;
}

bool is_ours(const std::string& included) { return included.starts_with("tutti/"); }

}  // namespace

TEST_CASE("the check of include directions objects to what it should") {
  CHECK_FALSE(objection("tutti/schedule/ring.hpp", "tutti/core/place.hpp"));
  CHECK_FALSE(objection("tutti/collective/allreduce.hpp", "tutti/schedule/ring.hpp"));
  CHECK_FALSE(objection("tutti/simulation/simulate.hpp", "tutti/schedule/ring.hpp"));
  CHECK_FALSE(objection("tutti/training/sgd.hpp", "tutti/collective/allreduce.hpp"));
  CHECK_FALSE(objection("tutti/transport/threads.hpp", "tutti/core/transport.hpp"));
  CHECK_FALSE(objection("tutti/transport/threads/lane.hpp", "tutti/transport/threads/group.hpp"));
  CHECK_FALSE(objection("tutti/transport/threads.hpp", "tutti/transport/wait.hpp"));
  CHECK_FALSE(objection("tutti/tutti.hpp", "tutti/transport/threads.hpp"));

  CHECK(objection("tutti/core/place.hpp", "tutti/schedule/ring.hpp"));
  CHECK(objection("tutti/schedule/ring.hpp", "tutti/collective/allreduce.hpp"));
  CHECK(objection("tutti/transport/threads.hpp", "tutti/schedule/ring.hpp"));
  CHECK(objection("tutti/transport/threads.hpp", "tutti/collective/allreduce.hpp"));
  CHECK(objection("tutti/schedule/cost.hpp", "tutti/simulation/simulate.hpp"));
  CHECK(objection("tutti/simulation/simulate.hpp", "tutti/collective/allreduce.hpp"));
  CHECK(objection("tutti/simulation/simulate.hpp", "tutti/transport/threads.hpp"));
  CHECK(objection("tutti/communicator/communicator.hpp", "tutti/training/sgd.hpp"));
  CHECK(objection("tutti/collective/allreduce.hpp", "tutti/training/sgd.hpp"));
  CHECK(objection("tutti/collective/allreduce.hpp", "tutti/transport/threads.hpp"));
  CHECK(objection("tutti/transport/threads.hpp", "tutti/transport/tcp.hpp"));
  CHECK(objection("tutti/transport/threads/lane.hpp", "tutti/transport/tcp_socket.hpp"));
  CHECK(objection("tutti/core/place.hpp", "tutti/tutti.hpp"));
  CHECK(objection("tutti/cellar/wine.hpp", "tutti/core/place.hpp"));
}

TEST_CASE("every header includes only what its room may") {
  REQUIRE_FALSE(house::headers().empty());
  for (const std::string& header : house::headers()) {
    for (const std::string& included : includes_of(header)) {
      CAPTURE(header);
      CAPTURE(included);
      if (!is_ours(included)) continue;
      CHECK(std::filesystem::exists(house::root / "include" / included));
      const std::optional<std::string> wrong = objection(header, included);
      CHECK_MESSAGE(!wrong, wrong.value_or(""));
    }
  }
}

TEST_CASE("no headers include each other in a circle") {
  std::map<std::string, std::vector<std::string>> graph;
  for (const std::string& header : house::headers()) {
    for (const std::string& included : includes_of(header)) {
      if (is_ours(included)) graph[header].push_back(included);
    }
  }
  std::set<std::string> done;
  std::vector<std::string> path;
  const std::function<void(const std::string&)> visit = [&](const std::string& header) {
    CAPTURE(header);
    CHECK_MESSAGE(std::find(path.begin(), path.end(), header) == path.end(), "includes itself through ", path.back());
    if (!done.insert(header).second) return;
    path.push_back(header);
    for (const std::string& included : graph[header]) visit(included);
    path.pop_back();
  };
  for (const std::string& header : house::headers()) visit(header);
}
