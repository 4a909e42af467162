// SPDX-License-Identifier: BSL-1.0
#pragma once

// This room answers: how do ranks that learn from different samples keep one set of parameters?

#include <tutti/core/call_site.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/place.hpp>
#include <tutti/training/synchronisation.hpp>
#include <tutti/training/update_rule.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <string>

namespace tutti {

/// Data-parallel stochastic gradient descent: in each step every rank brings the gradient of its own samples, and all
/// ranks leave with the same new parameters. `Rule` says how parameters follow a gradient (`plain`, `momentum`,
/// `nesterov`), `Sync` how the ranks agree (`all_reduce<Algorithm>`, `parameter_server<Algorithm>`).
///
/// ```
/// tutti::sgd optimizer(comm, weights, tutti::momentum{.rate = 0.1}, tutti::all_reduce<tutti::ring>{});
/// optimizer.step(gradient, samples);
/// ```
///
/// Gradients are sums over samples, so that a step is `w -= rate / B * sum of gradients` for the B samples of all
/// ranks, however unevenly they are spread. A rank may have no samples; it takes part all the same. Everything is
/// allocated in the constructor. Policies whose algorithms add in the same order give bitwise the same parameters.
///
/// The parameters stay the caller's: the span must outlive the object and have the same size on every rank. The
/// communicator must outlive it too. Every collective error passes through, naming the caller's line.
template <class Rule, class Sync, class Communicator, class T>
requires update_rule<Rule, T> && synchronisation<Sync, Communicator, T>
class sgd {
 public:
  /// Collective: all ranks begin with the same parameters, those that the policy names.
  template <std::ranges::contiguous_range Parameters>
  sgd(Communicator& comm, Parameters&& parameters, Rule rule, Sync sync, call_site where = call_site::current())
      : comm_(comm),
        parameters_(std::ranges::data(parameters), std::ranges::size(parameters)),
        rule_(rule),
        sync_(sync),
        updates_(sync_.updates(place{comm.rank(), comm.size()}, parameters_.size())),
        state_(updates_.count) {
    sync_.start(comm_, parameters_, where);
  }

  /// Collective: one step. `gradient`: the sum over this rank's `samples` samples of the loss's gradient, as many
  /// elements as there are parameters; with no samples its values do not matter. It serves as workspace: see the policy
  /// for what is left in it. Without a sample on any rank the step changes nothing. Throws `usage_error` when the sizes
  /// differ.
  void step(std::span<T> gradient, std::size_t samples, call_site where = call_site::current()) {
    if (gradient.size() != parameters_.size()) {
      throw usage_error("sgd::step on rank " + std::to_string(comm_.rank()) + " of " + std::to_string(comm_.size()) +
                        ": gradient has " + std::to_string(gradient.size()) + " elements, parameters " +
                        std::to_string(parameters_.size()) + ", at " + where.file + ":" + std::to_string(where.line));
    }
    if (samples == 0) std::ranges::fill(gradient, T{0});  // not a number times no samples must be nothing
    sync_.step(
        comm_, parameters_, gradient, static_cast<std::uint64_t>(samples),
        [this](std::span<const T> mean) {
          rule_.update(state_, parameters_.subspan(updates_.first, updates_.count), mean);
        },
        where);
  }

  /// The parameters, the same on every rank after each step.
  std::span<const T> parameters() const { return parameters_; }

  /// The rule's settings, to change between steps, on every rank alike.
  Rule& rule() { return rule_; }

 private:
  Communicator& comm_;
  std::span<T> parameters_;
  Rule rule_;
  Sync sync_;
  parameter_range updates_;
  typename Rule::template state<T> state_;
};

template <class Communicator, std::ranges::contiguous_range Parameters, class Rule, class Sync>
sgd(Communicator&, Parameters&&, Rule, Sync) -> sgd<Rule, Sync, Communicator, std::ranges::range_value_t<Parameters>>;
template <class Communicator, std::ranges::contiguous_range Parameters, class Rule, class Sync>
sgd(Communicator&, Parameters&&, Rule, Sync, call_site)
    -> sgd<Rule, Sync, Communicator, std::ranges::range_value_t<Parameters>>;

}  // namespace tutti
