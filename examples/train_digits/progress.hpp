// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "loss_chart.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>

namespace digits {

/// A line for each epoch: redrawn in place on a terminal, one below the other in a log.
class progress {
 public:
  progress(std::FILE* out, int epochs)
      : out_(out), epochs_(epochs), terminal_(isatty(fileno(out)) != 0), begin_(clock::now()) {}

  void epoch_done(int epoch, const epoch_result& result) {
    const double seconds = std::chrono::duration<double>(clock::now() - begin_).count();
    char text[200];
    std::snprintf(text, sizeof text, "epoch %*d/%d  loss %.4f  held-out loss %.4f  accuracy %.3f  %.1f s",
                  static_cast<int>(std::to_string(epochs_).size()), epoch, epochs_, result.training_loss,
                  result.held_out_loss, result.accuracy, seconds);
    if (terminal_) {
      std::string line = "[..........] ";
      std::fill_n(line.begin() + 1, epoch * 10LL / epochs_, '#');
      line += text;
      // A line that wraps cannot be redrawn.
      std::fprintf(out_, "\r\033[K%s", line.substr(0, columns() - 1).c_str());
      unfinished_ = true;
    } else {
      std::fprintf(out_, "%s\n", text);
    }
    std::fflush(out_);
  }

  /// Ends the line that was being redrawn.
  void finish() {
    if (unfinished_) std::fputc('\n', out_);
    unfinished_ = false;
  }

  ~progress() { finish(); }
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

 private:
  using clock = std::chrono::steady_clock;

  std::size_t columns() const {
    winsize size{};
    return ioctl(fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
  }

  std::FILE* out_;
  int epochs_;
  bool terminal_;
  bool unfinished_ = false;
  clock::time_point begin_;
};

}  // namespace digits
