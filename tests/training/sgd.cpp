// SPDX-License-Identifier: BSL-1.0
#include "trainer.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace {

/// What a later rule may look like: it counts its steps.
struct warming_up {
  double rate;
  template <class T>
  struct state {
    explicit state(std::size_t) {}
    int steps = 0;
  };
  template <class T>
  void update(state<T>& memory, std::span<T> parameters, std::span<const T> gradient) const {
    const T eta = static_cast<T>(rate * std::min(1.0, ++memory.steps / 4.0));
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= eta * gradient[i];
  }
};

/// What a later policy may look like: everyone learns alone, every second step the parameters are averaged.
struct every_second {
  int steps = 0;
  tutti::parameter_range updates(tutti::place, std::size_t count) const { return {0, count}; }
  template <class Communicator, class T>
  void start(Communicator& comm, std::span<T> parameters, tutti::call_site where) const {
    tutti::broadcast(comm, parameters, 0, where);
  }
  template <class Communicator, class T, class Update>
  void step(Communicator& comm, std::span<T> parameters, std::span<T> gradient, std::uint64_t samples, Update&& update,
            tutti::call_site where) {
    if (samples != 0) {
      tutti::detail::make_mean(gradient, samples);
      update(std::span<const T>(gradient));
    }
    if (++steps % 2 == 0) tutti::allreduce(comm, parameters, tutti::average{}, where);
  }
};

/// What a later policy may look like: each rank updates its own block and keeps the state of no other.
struct sharded {
  tutti::parameter_range updates(tutti::place at, std::size_t count) const {
    const tutti::layout blocks(count, at.size);
    return {blocks.offset(at.rank), blocks.size(at.rank)};
  }
  template <class Communicator, class T>
  void start(Communicator& comm, std::span<T> parameters, tutti::call_site where) const {
    tutti::broadcast(comm, parameters, 0, where);
  }
  template <class Communicator, class T, class Update>
  void step(Communicator& comm, std::span<T> parameters, std::span<T> gradient, std::uint64_t samples, Update&& update,
            tutti::call_site where) const {
    tutti::allreduce(comm, std::span(&samples, 1), std::plus<>{}, where);
    const std::span<T> own = tutti::reduce_scatter<tutti::flat>(comm, gradient, std::plus<>{}, where);
    if (samples != 0) {
      tutti::detail::make_mean(own, samples);
      update(std::span<const T>(own));
    }
    tutti::allgather(comm, parameters, where);
  }
};

template <class Error, class Body>
std::string message_of(int ranks, Body body) {
  try {
    tutti::run(ranks, body);
  } catch (const Error& thrown) {
    return thrown.what();
  }
  return "nothing was thrown";
}

void check_contains(const std::string& text, std::initializer_list<const char*> parts) {
  CAPTURE(text);
  for (const char* part : parts) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

using comm_type = tutti::communicator<tutti::threads>;
static_assert(tutti::synchronisation<tutti::all_reduce<>, comm_type, float>);
static_assert(tutti::synchronisation<tutti::parameter_server<tutti::binomial>, comm_type, double>);
static_assert(tutti::synchronisation<every_second, comm_type, float>);
static_assert(tutti::synchronisation<sharded, comm_type, float>);
static_assert(!tutti::synchronisation<int, comm_type, float>);
static_assert(!tutti::synchronisation<tutti::plain, comm_type, float>);

}  // namespace

TEST_CASE("a gradient of the wrong size is refused, naming sizes, rank and call, before anything is sent") {
  for (const std::size_t size : {0U, 3U, 5U}) {
    const std::string text = message_of<tutti::usage_error>(3, [&](auto& comm) {
      std::vector<float> weights(4);
      std::vector<float> gradient(comm.rank() == 1 ? size : 4);
      tutti::sgd optimizer(comm, weights, tutti::plain{.rate = 1}, tutti::all_reduce<>{});
      optimizer.step(gradient, 1);
    });
    check_contains(text, {"sgd::step", "rank 1 of 3", "sgd.cpp"});
    check_contains(text, {("gradient has " + std::to_string(size) + " elements").c_str(), "parameters 4"});
  }
}

TEST_CASE("after a refused gradient the communicator still works") {
  tutti::run(2, [](auto& comm) {
    std::vector<float> weights(4, 1.0F);
    std::vector<float> gradient(4, 1.0F);
    tutti::sgd optimizer(comm, weights, tutti::plain{.rate = 1}, tutti::all_reduce<>{});
    bool refused = false;
    try {
      optimizer.step(std::span(gradient).first(3), 1);
    } catch (const tutti::usage_error&) {
      refused = true;
    }
    optimizer.step(gradient, 1);
    if (!refused || weights != std::vector<float>(4, 0.0F)) throw std::runtime_error("step after refusal went wrong");
  });
}

TEST_CASE("a server that is not there is refused") {
  for (const int server : {-1, 2, 100}) {
    const std::string text = message_of<tutti::usage_error>(2, [&](auto& comm) {
      std::vector<float> weights(4);
      tutti::sgd optimizer(comm, weights, tutti::plain{.rate = 1}, tutti::parameter_server<>{server});
    });
    check_contains(text, {std::to_string(server).c_str()});
  }
}

TEST_CASE("ranks with different numbers of parameters are told so, with their own line") {
  const std::string text = message_of<tutti::mismatch>(2, [&](auto& comm) {
    std::vector<float> weights(comm.rank() == 0 ? 4 : 6);
    tutti::sgd optimizer(comm, weights, tutti::plain{.rate = 1}, tutti::all_reduce<>{});
    std::vector<float> gradient(weights.size());
    optimizer.step(gradient, 1);
  });
  check_contains(text, {"4", "6", "sgd.cpp"});
}

TEST_CASE("all ranks begin with the teacher's parameters") {
  tutti::run(4, [](auto& comm) {
    const auto begun = [&](auto sync) {
      std::vector<float> weights(10, static_cast<float>(comm.rank()));
      tutti::sgd optimizer(comm, weights, tutti::plain{.rate = 1}, sync);
      return weights;
    };
    const bool right = begun(tutti::all_reduce<>{}) == std::vector<float>(10, 0.0F) &&
                       begun(tutti::parameter_server<>{2}) == std::vector<float>(10, 2.0F);
    if (!right) throw std::runtime_error("ranks begin with different parameters");
  });
}

TEST_CASE("parameters may be any contiguous range, the rate may change between steps") {
  tutti::run(2, [](auto& comm) {
    std::array<double, 2> weights{1.0, 2.0};
    tutti::sgd optimizer(comm, std::span(weights), tutti::plain{.rate = 1}, tutti::all_reduce<tutti::ring>{});
    std::array<double, 2> gradient{1.0, 1.0};
    optimizer.step(gradient, 1);
    optimizer.rule().rate = 0.5;
    gradient = {1.0, 1.0};
    optimizer.step(gradient, 1);
    const auto now = optimizer.parameters();
    if (now[0] != -0.5 || now[1] != 0.5 || now.data() != weights.data()) throw std::runtime_error("wrong parameters");
  });
}

TEST_CASE("no parameters at all is no special case") {
  CHECK_NOTHROW(tutti::run(3, [](auto& comm) {
    std::vector<float> nothing;
    tutti::sgd optimizer(comm, nothing, tutti::momentum{.rate = 1}, tutti::parameter_server<>{});
    optimizer.step(nothing, 1);
  }));
}

TEST_CASE("rules and policies of the user's own need nothing from sgd") {
  const int steps = 10;
  const auto shards = trained<double>(tutti::momentum{0.2, 0.8}, sharded{}, 100, 4, steps);
  const auto expected = problem::reference<double>(problem::rule::momentum, 0.2, 0.8, 100, 4, steps);
  for (const auto& result : shards) CHECK(result == expected);

  const auto local = trained<double>(tutti::plain{0.2}, every_second{}, 101, 3, steps);
  CHECK(local[1] == local[0]);
  CHECK(local[2] == local[0]);

  const auto warm = trained<double>(warming_up{0.2}, tutti::all_reduce<tutti::flat>{}, 101, 3, steps);
  CHECK(warm == trained<double>(warming_up{0.2}, tutti::parameter_server<tutti::flat>{}, 101, 3, steps));
}

TEST_CASE("a line through points: every rule and policy finds it") {
  // y = 3 x - 2 at 40 points, shared out unevenly: rank r takes every point i with i * i mod ranks == r.
  const auto fit = [](auto& comm, auto rule, auto sync) {
    std::vector<double> weights{0.0, 0.0};
    tutti::sgd optimizer(comm, weights, rule, sync);
    for (int step = 0; step < 400; ++step) {
      std::vector<double> gradient(2);
      std::size_t samples = 0;
      for (int i = 0; i < 40; ++i) {
        if (i * i % comm.size() != comm.rank()) continue;
        const double x = i / 20.0 - 1;
        const double slope = weights[0] * x + weights[1] - (3 * x - 2);
        gradient[0] += slope * x;
        gradient[1] += slope;
        ++samples;
      }
      optimizer.step(gradient, samples);
    }
    if (std::abs(weights[0] - 3) > 1e-6 || std::abs(weights[1] + 2) > 1e-6) {
      throw std::runtime_error("found " + std::to_string(weights[0]) + " x + " + std::to_string(weights[1]));
    }
  };
  for (const int ranks : {1, 2, 3, 4, 7}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(tutti::run(ranks, [&](auto& comm) {
      fit(comm, tutti::plain{.rate = 0.5}, tutti::all_reduce<>{});
      fit(comm, tutti::plain{.rate = 0.5}, tutti::parameter_server<>{});
      fit(comm, tutti::momentum{.rate = 0.1}, tutti::all_reduce<tutti::circulant>{});
      fit(comm, tutti::nesterov{.rate = 0.1}, tutti::parameter_server<tutti::binomial>{comm.size() - 1});
    }));
  }
}
