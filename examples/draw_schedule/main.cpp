// SPDX-License-Identifier: BSL-1.0

// Draws who sends what to whom and when: the space-time diagram of an algorithm as an SVG picture.

#include <tutti/core/host_table.hpp>
#include <tutti/schedule/algorithms.hpp>

#include <charconv>
#include <cstddef>
#include <fstream>
#include <iostream>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "diagram.hpp"
#include "recording.hpp"

namespace {

constexpr std::string_view usage =
    "usage: draw_schedule ALGORITHM COLLECTIVE RANKS [--root R] [--segments K] [--hosts H,H,...] -o FILE.svg\n"
    "  RANKS is from 1 to 64; --root where the collective has one (default 0); --segments where the algorithm "
    "pipelines\n"
    "  (default 4); --hosts: the number of each rank's host, for two_level (default: all on one); -o - writes to\n"
    "  standard output. Templates are named with their arguments, as 'k_ary<3>'; a wrong "
    "name\n"
    "  lists all. For example: draw_schedule circulant allreduce 8 -o circulant.svg\n";

/// What the user got wrong.
struct wrong : std::runtime_error {
  using runtime_error::runtime_error;
};

struct options {
  std::string algorithm;
  std::string collective;
  int ranks = 0;
  std::optional<int> root;
  std::optional<int> segments;
  std::optional<tutti::host_table> hosts;
  std::string file;
  bool help = false;
};

int number(const std::string& what, std::string_view text, int least, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw wrong(what + " must be a number from " + std::to_string(least) + " to " + std::to_string(most) + ", not '" +
                std::string(text) + "'");
  }
  return value;
}

/// The numbers of a list as 0,0,1.
std::vector<int> numbers(const std::string& what, std::string_view list, int most) {
  std::vector<int> result;
  for (;;) {
    const std::size_t end = list.find(',');
    result.push_back(number(what, list.substr(0, end), 0, most));
    if (end == std::string_view::npos) return result;
    list.remove_prefix(end + 1);
  }
}

void parse(options& chosen, int count, char** words) {
  constexpr int most_ranks = 64;
  int positional = 0;
  std::vector<int> hosts;
  std::optional<std::string> root;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= count) throw wrong(word + " needs a value");
      return words[++i];
    };
    if (word == "--help" || word == "-h") {
      chosen.help = true;
      return;
    }
    if (word == "-o") {
      chosen.file = value();
    } else if (word == "--root") {
      root = value();
    } else if (word == "--hosts") {
      hosts = numbers(word, value(), most_ranks - 1);
    } else if (word == "--segments") {
      chosen.segments = number(word, value(), 1, 64);
    } else if (word.starts_with('-')) {
      throw wrong("no such flag: " + word);
    } else if (positional == 0) {
      chosen.algorithm = word;
      ++positional;
    } else if (positional == 1) {
      chosen.collective = word;
      ++positional;
    } else if (positional == 2) {
      chosen.ranks = number("RANKS", word, 1, most_ranks);
      ++positional;
    } else {
      throw wrong("one argument too many: " + word);
    }
  }
  if (positional < 3) throw wrong("an algorithm, a collective and a number of ranks are needed; --help tells how");
  if (chosen.file.empty()) throw wrong("-o FILE.svg is needed");
  if (root) chosen.root = number("--root", *root, 0, chosen.ranks - 1);
  if (hosts.empty()) return;
  if (hosts.size() != static_cast<std::size_t>(chosen.ranks))
    throw wrong("--hosts tells the hosts of " + std::to_string(hosts.size()) + " ranks, not of " +
                std::to_string(chosen.ranks));
  chosen.hosts.emplace(std::span<const int>(hosts));
}

const tutti::host_map* map_of(const options& chosen) { return chosen.hosts ? &chosen.hosts->map() : nullptr; }

template <tutti::collective C, class A>
drawing::recording record(const options& chosen) {
  using S = tutti::schedule_for<C, A>;
  const std::string name = std::string(tutti::name_of(C)) + " by " + std::string(tutti::name_of<A>());
  if (chosen.root && !tutti::rooted<S>) throw wrong("--root: " + name + " has no root");
  if (chosen.segments && !tutti::segmented<S>) throw wrong("--segments: " + name + " has no segments");
  const int root = chosen.root.value_or(0);
  const int segments = chosen.segments.value_or(4);
  const S schedule = tutti::detail::make_schedule<S>(root, segments);
  drawing::recording result = drawing::record(schedule, chosen.ranks, map_of(chosen));
  result.algorithm = tutti::name_of<A>();
  if (chosen.hosts) result.algorithm += " on " + std::to_string(map_of(chosen)->hosts()) + " hosts";
  result.collective = tutti::name_of(C);
  if (tutti::rooted<S>) result.root = root;
  if (tutti::segmented<S>) result.segments = segments;
  return result;
}

/// Looks for the algorithm and the collective by name.
class finder {
 public:
  explicit finder(const options& chosen) : chosen_(chosen) {}

  template <class A>
  void operator()() {
    names_ += (names_.empty() ? "" : ", ") + std::string(tutti::name_of<A>());
    if (chosen_.algorithm != tutti::name_of<A>()) return;
    known_ = true;
    using enum tutti::collective;
    const auto each = [&]<tutti::collective... C>() { (try_one<C, A>(), ...); };
    each.template operator()<broadcast, scatter, gather, reduce, reduce_scatter, allgather, allreduce, alltoall,
                             barrier, scan, exscan>();
  }

  drawing::recording result() const {
    if (!known_) throw wrong("no such algorithm: " + chosen_.algorithm + " (there are " + names_ + ")");
    if (unsupported_) {
      throw wrong(chosen_.algorithm + " does not support " + std::to_string(chosen_.ranks) + " ranks");
    }
    if (!found_)
      throw wrong(chosen_.algorithm + " has no collective " + chosen_.collective + " (it has " + offers_ + ")");
    return *found_;
  }

 private:
  template <tutti::collective C, class A>
  void try_one() {
    if constexpr (tutti::implements<A, C>) {
      offers_ += (offers_.empty() ? "" : ", ") + std::string(tutti::name_of(C));
      if (chosen_.collective != tutti::name_of(C)) return;
      unsupported_ = !tutti::supports<A>(tutti::place{0, chosen_.ranks, map_of(chosen_)});
      if (!unsupported_) found_ = record<C, A>(chosen_);
    }
  }

  const options& chosen_;
  std::string names_;
  std::string offers_;
  bool known_ = false;
  bool unsupported_ = false;
  std::optional<drawing::recording> found_;
};

}  // namespace

int main(int count, char** words) {
  try {
    options chosen;
    parse(chosen, count, words);
    if (chosen.help) {
      std::cout << usage << std::flush;
      if (!std::cout) throw wrong("cannot write to standard output");
      return 0;
    }
    finder find(chosen);
    tutti::for_each_algorithm(find);
    find.operator()<tutti::two_level<>>();
    const drawing::recording schedule = find.result();
    if (chosen.file == "-") {
      std::cout << drawing::diagram(schedule) << std::flush;
      if (!std::cout) throw wrong("cannot write to standard output");
      return 0;
    }
    std::ofstream file(chosen.file);
    file << drawing::diagram(schedule) << std::flush;
    if (!file) throw wrong("cannot write " + chosen.file);
    std::cout << chosen.file << ": " << schedule.rounds << " rounds, " << schedule.arrows.size() << " messages\n";
    return 0;
  } catch (const wrong& e) {
    std::cerr << "draw_schedule: " << e.what() << '\n';
    return 2;
  }
}
