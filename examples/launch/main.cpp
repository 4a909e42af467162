// SPDX-License-Identifier: BSL-1.0
// Starts the ranks of a program on this host: launch -n 4 ./my_program

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "lines.hpp"
#include "options.hpp"
#include "rank_process.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

/// The job, from its first process to the last one that is left of it.
class job {
 public:
  explicit job(const options& asked) : grace_(asked.grace) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // whoever loses its parent becomes a child of launch
    sigset_t awaited;
    sigemptyset(&awaited);
    for (const int each : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&awaited, each);
    sigprocmask(SIG_BLOCK, &awaited, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    signals_ = descriptor(signalfd(-1, &awaited, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_.open()) throw std::system_error(errno, std::generic_category(), "a descriptor for signals");
  }

  void start_all(const options& asked) {
    const job_environment environment;
    for (int rank = 0; rank < asked.ranks(); ++rank) {
      if (asked.hosts > 1 && rank % asked.per_host == 0) enter_new_host();
      rank_process started = start(asked, rank, environment);
      sources_.emplace_back(std::move(started.out), rank, out_);
      sources_.emplace_back(std::move(started.err), rank, errors());
      ranks_.push_back(std::move(started));
    }
  }

  /// Returns the exit code, when nothing is left.
  int finish() {
    while (!over()) {
      wait_for_something();
      if (!ending_ && (out_.broken() || err_.broken())) fail(128 + SIGPIPE, "nobody reads what it writes");
      if (killing_at_ && clock_type::now() >= *killing_at_) end_all(SIGKILL);
    }
    for (const rank_process& rank : ranks_) waitpid(rank.pid, nullptr, 0);
    return code_;
  }

  /// Something went wrong besides the ranks: they end.
  void fail(int code, const std::string& why) {
    say(why);
    if (code_ == 0) code_ = code;
    end_all(SIGTERM);
  }

 private:
  /// What goes where standard output goes is not torn either.
  line_sink& errors() { return one_sink_ ? out_ : err_; }
  void say(const std::string& what) { errors().add("launch: " + what); }

  bool over() {
    if (!std::all_of(ranks_.begin(), ranks_.end(), [](const rank_process& r) { return r.ended; })) return false;
    const std::vector<pid_t> left = left_behind(ranks_);
    for (const pid_t pid : left) {
      if (std::find(asked_.begin(), asked_.end(), pid) != asked_.end()) continue;
      asked_.push_back(pid);
      kill(pid, SIGTERM);
      if (!killing_at_) killing_at_ = clock_type::now() + grace_;
    }
    if (!left.empty()) return false;
    if (hurried_) return true;
    return out_.empty() && err_.empty() &&
           std::none_of(sources_.begin(), sources_.end(), [](const line_source& s) { return s.open(); });
  }

  void wait_for_something() {
    std::vector<pollfd> polled{{signals_.get(), POLLIN, 0}, out_.wants(), err_.wants()};
    for (const line_source& source : sources_) polled.push_back(source.wants());
    int limit = -1;
    if (killing_at_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*killing_at_ - clock_type::now());
      limit = static_cast<int>(std::max(left, std::chrono::milliseconds(0)).count());
    }
    if (poll(polled.data(), polled.size(), limit) < 0) return;
    for (std::size_t i = 0; i < sources_.size(); ++i)
      if (polled[3 + i].revents != 0) sources_[i].read_some();
    if (polled[1].revents != 0) out_.write_some();
    if (polled[2].revents != 0) err_.write_some();
    if (polled[0].revents != 0) take_signals();
  }

  void take_signals() {
    signalfd_siginfo taken;
    while (read(signals_.get(), &taken, sizeof taken) == sizeof taken) {
      const auto number = static_cast<int>(taken.ssi_signo);
      if (number == SIGCHLD) continue;
      // Whoever asks a second time means it.
      hurried_ = ending_;
      end_all(hurried_ ? SIGKILL : number);
    }
    look_at_ranks();
    for (const pid_t pid : left_behind(ranks_)) waitpid(pid, nullptr, WNOHANG);
  }

  void look_at_ranks() {
    const rank_process* first = nullptr;
    for (rank_process& rank : ranks_) {
      if (rank.ended) continue;
      look(rank);
      // One that was killed is likely to be why another gave up at the same time.
      if (rank.failed() && (first == nullptr || (first->signal == 0 && rank.signal != 0))) first = &rank;
    }
    if (first == nullptr || code_ != 0) return;
    code_ = first->signal != 0 ? 128 + first->signal : first->code;
    if (ending_) return;  // as it was asked to
    const std::string rank = "rank " + std::to_string(first - ranks_.data());
    say(first->signal != 0
            ? rank + " was killed by signal " + std::to_string(first->signal) + " (" + strsignal(first->signal) + ")"
            : rank + " ended with exit code " + std::to_string(first->code));
    end_all(SIGTERM);
  }

  /// Signals every process of the job that it knows: the groups of the ranks, and what they left behind. The first time
  /// the grace begins.
  void end_all(int signal) {
    const bool first = !std::exchange(ending_, true);
    if (!first && signal != SIGKILL) return;
    for (const rank_process& rank : ranks_) kill(-rank.pid, signal);
    for (const pid_t pid : left_behind(ranks_)) kill(pid, signal);
    // What these leave behind in turn becomes a child of launch soon: again until nothing is left.
    killing_at_ = clock_type::now() + (signal == SIGKILL ? std::chrono::milliseconds(20) : grace_);
  }

  std::chrono::milliseconds grace_;
  bool one_sink_ = same_file(STDOUT_FILENO, STDERR_FILENO);
  descriptor signals_;
  line_sink out_{STDOUT_FILENO};
  line_sink err_{STDERR_FILENO};
  std::vector<rank_process> ranks_;
  std::vector<line_source> sources_;
  bool ending_ = false;   // the processes have been asked to end
  bool hurried_ = false;  // twice
  std::optional<clock_type::time_point> killing_at_;
  std::vector<pid_t> asked_;  // of those that were left behind
  int code_ = 0;
};

int run(const options& asked) {
  job all(asked);
  try {
    all.start_all(asked);
  } catch (const cannot_run& e) {
    all.fail(e.code(), "cannot run '" + asked.command[0] + "': " + std::strerror(e.error));
  } catch (const std::system_error& e) {
    all.fail(1, std::string("the system refuses ") + e.what());
  }
  return all.finish();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const options asked = parse(argc, argv);
    if (!asked.help) return run(asked);
    std::fputs(usage, stdout);
    return 0;
  } catch (const std::invalid_argument& e) {
    std::fprintf(stderr, "launch: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "launch: %s\n", e.what());
    return 1;
  }
}
