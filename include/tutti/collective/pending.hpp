// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/progress.hpp>

#include <exception>
#include <utility>

namespace tutti {

namespace detail {

/// A nonblocking collective on its lane.
template <class Comm>
struct pending_operation : in_progress {
  pending_operation(advance_function f, Comm& c, typename Comm::pending_lane& l) : in_progress(f), comm(&c), on(&l) {
    on->user = this;
    join(c.pending());
  }
  ~pending_operation() {
    if (on->user == this) on->user = nullptr;
  }

  Comm* comm;
  typename Comm::pending_lane* on;
  int exceptions = std::uncaught_exceptions();  // under way when it began
  bool finished = false;
  std::exception_ptr failed;

  void close() {
    finished = true;
    on->lane.awake();
    on->user = nullptr;
    leave();
  }
  /// It is destroyed before it has finished. Where an exception passes, that may be what ends the rank, and the others
  /// shall hear of it rather than of this.
  void give_up() {
    if (std::uncaught_exceptions() > exceptions) {
      on->lane.withdraw();
      on->join(comm->given_up());
    } else {
      Comm::pending_lane::fail(*on);
    }
    close();
  }
};

}  // namespace detail

/// A nonblocking collective that has begun. It goes on while this rank tests or waits in this or any other collective,
/// or for a message, on the same communicator or on one that has to do with it by `split` and `dup`: it was divided
/// from it, it from that, or both from a third. It does not while the rank waits on any other communicator or in one of
/// MPI's own collectives. Movable. The buffers and the communicator must stay until it has finished.
///
/// Destroying one that has not finished is an error that fails its communicator, and no other (it neither blocks nor
/// throws): the other ranks throw `peer_failed` there. Where an exception passes it, the buffers are this rank's again
/// at once, and the others hear of that exception if it leaves the function that was given `comm`; else the
/// communicator fails when it ends, when the rank next waits in a collective of any of its communicators, or when its
/// function returns.
template <class Comm>
class pending {
  using operation = detail::pending_operation<Comm>;
  using destroy_function = void (*)(operation*);

 public:
  pending(operation* o, destroy_function destroy) : operation_(o), destroy_(destroy) {}
  pending(pending&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)), destroy_(other.destroy_) {}
  pending& operator=(pending&& other) noexcept {
    if (this != &other) {
      drop();
      operation_ = std::exchange(other.operation_, nullptr);
      destroy_ = other.destroy_;
    }
    return *this;
  }
  ~pending() { drop(); }

  /// Does what can be done without waiting; true if the collective has finished on this rank. Throws what the blocking
  /// form throws.
  bool test() {
    if (operation_ == nullptr) return true;
    operation& o = *operation_;
    o.comm->go_on();
    if (!o.advance(o)) {
      guarded([&] { o.on->lane.glance(); });
      // Others may wait for this rank in another of its collectives before they come to this one.
      o.comm->progress();
    }
    if (!o.finished) return false;
    conclude();
    return true;
  }

  /// Waits until the collective has finished on this rank. Throws what the blocking form throws.
  void wait() {
    if (operation_ == nullptr) return;
    operation& o = *operation_;
    o.comm->go_on();
    while (!o.advance(o)) {
      guarded([&] { o.on->lane.idle(); });
      o.comm->progress();
    }
    conclude();
  }

 private:
  template <class F>
  void guarded(F&& f) {
    try {
      f();
    } catch (const std::exception& e) {
      if (!operation_->finished) {
        operation_->on->lane.abandon(e.what());
        operation_->close();
      }
      operation_->failed = std::current_exception();
    }
  }
  void conclude() {
    const std::exception_ptr failed = operation_->failed;
    destroy_(std::exchange(operation_, nullptr));
    if (failed) std::rethrow_exception(failed);
  }
  void drop() noexcept {
    if (operation_ == nullptr) return;
    if (!operation_->finished) operation_->give_up();
    destroy_(std::exchange(operation_, nullptr));
  }

  operation* operation_;
  destroy_function destroy_;
};

}  // namespace tutti
