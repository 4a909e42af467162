// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/transport/mpi/api.hpp>

#include <mutex>

namespace tutti::detail {

/// Something that has to be done while MPI is being finalised, before it is gone.
class mpi_at_end {
 public:
  using function = void (*)(mpi_at_end&) noexcept;

  explicit mpi_at_end(function f) : function_(f) {}
  mpi_at_end(const mpi_at_end&) = delete;
  mpi_at_end& operator=(const mpi_at_end&) = delete;
  ~mpi_at_end() { leave(); }

  /// From now on. MPI has been initialised.
  void join() {
    list& all = everything();
    const std::lock_guard lock(all.mutex);
    if (all.key == MPI_KEYVAL_INVALID) watch(all);
    next_ = all.first;
    if (next_ != nullptr) next_->before_ = &next_;
    all.first = this;
    before_ = &all.first;
  }
  void leave() noexcept {
    const std::lock_guard lock(everything().mutex);
    take_out();
  }

 private:
  struct list {
    std::mutex mutex;
    mpi_at_end* first = nullptr;
    int key = MPI_KEYVAL_INVALID;
  };
  static list& everything() {
    static list all;
    return all;
  }
  void take_out() noexcept {
    if (before_ == nullptr) return;
    *before_ = next_;
    if (next_ != nullptr) next_->before_ = before_;
    before_ = nullptr;
    next_ = nullptr;
  }

  /// MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF.
  static void watch(list& all) {
    check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &mpi_at_end::run, &all.key, nullptr),
              "MPI_Comm_create_keyval");
    check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, all.key, &all), "MPI_Comm_set_attr");
  }
  static int run(MPI_Comm, int, void*, void*) {
    list& all = everything();
    for (;;) {
      mpi_at_end* one;
      {
        const std::lock_guard lock(all.mutex);
        one = all.first;
        if (one == nullptr) break;
        one->take_out();
      }
      one->function_(*one);
    }
    return MPI_SUCCESS;
  }

  function function_;
  mpi_at_end* next_ = nullptr;
  mpi_at_end** before_ = nullptr;  // what points to this one
};

}  // namespace tutti::detail
