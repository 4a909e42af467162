// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace tutti {

/// A collective that has begun and not ended, in a list that a rank looks through while it waits for something else.
/// The function pointer is off the path of blocking collectives that do not wait.
struct in_progress {
  using advance_function = bool (*)(in_progress&);

  explicit in_progress(advance_function f) : advance(f) {}
  in_progress(const in_progress&) = delete;
  in_progress& operator=(const in_progress&) = delete;
  ~in_progress() { leave(); }

  /// Does what can be done now; true when finished.
  advance_function advance;

  void join(in_progress& head) {
    next_ = head.next_;
    previous_ = &head;
    if (next_ != nullptr) next_->previous_ = this;
    head.next_ = this;
  }
  void leave() {
    if (previous_ == nullptr) return;
    previous_->next_ = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
    next_ = previous_ = nullptr;
  }
  in_progress* next() const { return next_; }
  bool in_list() const { return previous_ != nullptr; }

 private:
  in_progress* next_ = nullptr;
  in_progress* previous_ = nullptr;
};

/// What one rank has under way, on one communicator or on several that have this in common.
struct rank_progress {
  in_progress head{nullptr};      // the collectives in progress: a rank that waits in one advances them all
  in_progress given_up{nullptr};  // those that an exception has passed: if the rank goes on, their groups fail
  int users = 1;                  // communicators
};

}  // namespace tutti
