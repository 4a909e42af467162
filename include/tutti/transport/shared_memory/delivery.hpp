// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/transport/shared_memory/channel.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace tutti::detail {

/// How a message goes to a peer that cannot read it where the sender has it.
enum class delivery : unsigned char {
  cached,    // as a copy, written as memory is written usually
  streamed,  // as a copy, written past the caches
  read,      // the peer has the kernel read it in the memory of the sender's process
};

/// Which delivery to one peer takes the least time, for messages of each size. That depends on where the two processors
/// are: a line that the other has in its cache takes 2 or 30 ns to write, and the kernel may move a rank, or a host the
/// processor under it, at any time. So it is measured as the program runs: the sender times its copy, the receiver what
/// it does from seeing the message to giving it back, and the least sum is chosen. Now and then some messages go
/// another way and tell whether that is better by now, so rarely that it costs about one part in a hundred.
class delivery_choice {
 public:
  using clock = std::chrono::steady_clock;
  struct decision {
    delivery way;
    bool timed;
  };

  delivery_choice() {
    for (int i = size_classes; i < size_classes + result_classes; ++i) {
      sizes_[i].copy_lead = lead_of_results;
      sizes_[i].due_of(delivery::streamed) = 2 * sizes_[i].due_of(delivery::cached);
    }
  }

  static constexpr std::size_t least_bytes = 1024;
  /// Fewer are not worth a call of the kernel.
  static constexpr std::size_t least_read = 32768;
  /// Smaller ones are computed in the caches.
  static constexpr std::size_t least_result = 65536;
  /// For tests and measurements: what this process sends goes that way where it can, else by `cached`.
  static inline std::optional<delivery> forced;

  /// For the next message. `readable`: the peer may have the kernel read it; `report`: what it has told last.
  decision next(std::size_t bytes, bool readable, const std::atomic<std::uint64_t>& report) {
    readable = readable && bytes >= least_read;
    if (forced) [[unlikely]]
      return {*forced == delivery::read && !readable ? delivery::cached : *forced, false};
    if (bytes < least_bytes) return {delivery::cached, false};
    return next(index_of(bytes), readable, report);
  }
  /// The same for a result of at least `least_result` bytes, which is not copied but computed where the peer reads it,
  /// or for a piece of one.
  decision next_result(std::size_t bytes, const std::atomic<std::uint64_t>& report) {
    if (forced) [[unlikely]]
      return {*forced == delivery::read ? delivery::cached : *forced, false};
    return next(index_of_result(bytes), false, report);
  }
  /// Calls `write(streamed)`, which writes the message of such a decision; whether the receiver is to tell its time.
  template <class Write>
  bool write(decision how, std::size_t bytes, Write&& write) {
    const auto begin = how.timed ? clock::now() : clock::time_point();
    write(how.way == delivery::streamed);
    if (how.timed) sent(how.way, bytes, clock::now() - begin);
    return how.timed;
  }
  /// The message of the last decision, which is to be timed and took the sender that long, is on its way; or it is not.
  void sent(delivery way, std::size_t bytes, clock::duration time) {
    awaited_ = true;
    ++trials_;
    way_ = way;
    bytes_ = bytes;
    time_ = time;
    sizes_awaited_ = last_;
  }
  void not_sent() {
    awaited_ = false;
    --trials_;
  }

  /// What a receiver tells of the last of so many messages that are to be timed.
  static std::uint64_t report(std::uint32_t trials, clock::duration time) {
    return std::uint64_t{trials} << 32 | static_cast<std::uint32_t>(std::min(nanoseconds(time), longest));
  }

 private:
  static constexpr int ways = 3;
  static constexpr int size_classes = 9;
  static constexpr int result_classes = 4;  // each four times as large as the one before
  static constexpr std::int64_t longest = INT32_MAX;
  // A way is tried with so many messages, of which the last are timed; the others bring the memory of copies into the
  // state in which this way leaves it. The least time counts: a rank can be interrupted.
  static constexpr std::uint8_t lead = 2 * channel::capacity;
  static constexpr std::uint8_t samples = 3;
  // Results lie where they lay before.
  static constexpr std::uint8_t lead_of_results = 2;
  // After how many messages it is tried again: the best one often, another such that it takes one part in a hundred.
  static constexpr float often = 203;
  static constexpr float rarely = 601;
  static constexpr float most_rarely = 200'003;
  static constexpr float price = 0.01F;
  // By how much a way that is not the usual one must be better, to be chosen and to stay so. Two ranks that exchange
  // messages in different ways wait for each other's slower half: to differ by chance costs more than it can gain.
  static constexpr float enough = 1.4F;
  static constexpr float still = 1.2F;

  struct size_class {
    float cost[ways] = {};                    // in nanoseconds for each KiB; 0: not known yet
    std::uint32_t due[ways] = {5, 211, 401};  // when to try it; the first messages find memory that nobody has touched
    std::uint32_t next_trial = 5;
    std::uint8_t copy_lead = lead;
    std::uint32_t messages = 0;  // their number may wrap
    delivery best = delivery::cached;
    delivery best_copy = delivery::cached;
    // The trial under way, if samples are missing.
    delivery tried = delivery::cached;
    std::uint8_t to_lead = 0;
    std::uint8_t to_sample = 0;
    float least = 0;

    std::uint8_t lead_of(delivery way) const { return way == delivery::read ? 0 : copy_lead; }
    float of(delivery way) const { return cost[static_cast<int>(way)]; }
    std::uint32_t& due_of(delivery way) { return due[static_cast<int>(way)]; }
    delivery chosen(bool readable) const { return readable ? best : best_copy; }
    bool later(std::uint32_t number) const { return static_cast<std::int32_t>(number - messages) > 0; }

    delivery first_due() {
      delivery first = delivery::cached;
      for (const delivery other : {delivery::streamed, delivery::read})
        if (static_cast<std::int32_t>(due_of(other) - due_of(first)) < 0) first = other;
      next_trial = due_of(first);
      return first;
    }
    decision trial(bool readable, bool may_time) {
      // Who sends nothing any more that can be read tries that no longer.
      if (tried == delivery::read && !readable && !later(due_of(delivery::read) + number(often))) to_sample = 0;
      if (to_sample == 0) {
        if (!readable && !later(due_of(delivery::read))) due_of(delivery::read) = messages + number(often);
        const delivery first = first_due();
        if (later(next_trial)) return {chosen(readable), false};
        tried = first;
        to_lead = first == chosen(readable) ? 0 : lead_of(first);
        to_sample = samples;
        least = std::numeric_limits<float>::max();
      }
      if (tried == delivery::read && !readable) return {best_copy, false};
      if (to_lead == 0) return {tried, may_time};
      --to_lead;
      return {tried, false};
    }
    void learn(delivery way, float time) {
      if (to_sample == 0 || way != tried) return;
      least = std::min(least, time);
      if (--to_sample > 0) return;
      cost[static_cast<int>(way)] = least;
      best_copy = better(delivery::cached, delivery::streamed, best_copy);
      best = better(best_copy, delivery::read, best);
      const float wait = (of(way) / of(best) - 1) * static_cast<float>(lead_of(way) + samples) / price;
      due_of(way) = messages + number(way == best ? often : std::clamp(wait, rarely, most_rarely));
      first_due();
    }
    delivery better(delivery usual, delivery other, delivery now) const {
      if (of(other) == 0) return usual;
      return of(usual) == 0 || of(other) * (other == now ? still : enough) < of(usual) ? other : usual;
    }
    static std::uint32_t number(float of_messages) { return static_cast<std::uint32_t>(of_messages); }
  };
  static int index_of(std::size_t bytes) {
    return std::min(static_cast<int>(std::bit_width(bytes / least_bytes)) - 1, size_classes - 1);
  }
  static int index_of_result(std::size_t bytes) {
    return size_classes +
           std::min((static_cast<int>(std::bit_width(bytes / least_result)) - 1) / 2, result_classes - 1);
  }
  static std::int64_t nanoseconds(clock::duration time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  }

  decision next(int sizes_of, bool readable, const std::atomic<std::uint64_t>& report) {
    if (awaited_) [[unlikely]]
      take(report.load(std::memory_order_relaxed));
    size_class& sizes = sizes_[sizes_of];
    ++sizes.messages;
    if (sizes.later(sizes.next_trial)) [[likely]]
      return {sizes.chosen(readable), false};
    last_ = static_cast<std::uint8_t>(sizes_of);
    return sizes.trial(readable, !awaited_);
  }
  void take(std::uint64_t report) {
    if (report >> 32 != trials_) return;
    awaited_ = false;
    const auto all = static_cast<float>(nanoseconds(time_) + static_cast<std::int64_t>(report & UINT32_MAX));
    sizes_[sizes_awaited_].learn(way_, (all + 1) * 1024 / static_cast<float>(bytes_));
  }

  size_class sizes_[size_classes + result_classes];
  std::uint8_t last_ = 0;  // of which there was a trial
  // The message whose time the receiver is to tell.
  bool awaited_ = false;
  delivery way_ = delivery::cached;
  std::uint8_t sizes_awaited_ = 0;
  std::uint32_t trials_ = 0;
  std::size_t bytes_ = 0;
  clock::duration time_{};
};

/// A receiver's part: it tells how long it took.
class delivery_timer {
 public:
  void begin() { begin_ = delivery_choice::clock::now(); }
  void report_to(std::atomic<std::uint64_t>& sender) {
    sender.store(delivery_choice::report(++messages_, delivery_choice::clock::now() - begin_),
                 std::memory_order_relaxed);
  }

 private:
  delivery_choice::clock::time_point begin_;
  std::uint32_t messages_ = 0;
};

}  // namespace tutti::detail
