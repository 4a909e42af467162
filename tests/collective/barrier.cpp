// SPDX-License-Identifier: BSL-1.0
#include <tutti/collective/barrier.hpp>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "collective/conformance.hpp"

namespace {

using namespace conformance;
constexpr auto verb = tutti::collective::barrier;

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("nobody leaves a barrier before everybody has come, by every algorithm", Launcher,
                          every_algorithm) {
  for (const int ranks : rank_counts) {
    for_each_algorithm<verb>(algorithms{}, ranks, [&]<class A>() {
      std::atomic<int> come{0};
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        for (int round = 1; round <= 20; ++round) {
          found.about("barrier<", tutti::name_of<A>(), "> number ", round);
          if (round % 8 == 0 && comm.rank() == round % comm.size()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
          }
          if constexpr (Launcher::shares_memory) come.fetch_add(1, std::memory_order_relaxed);
          tutti::barrier<A>(comm);
          if constexpr (Launcher::shares_memory) {
            const int seen = come.load(std::memory_order_relaxed);
            found.check(seen >= round * comm.size(), text("only ", seen, " had come"));
          }
        }
      });
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(every_algorithm, launchers);
