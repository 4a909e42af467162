// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/arena.hpp>
#include <tutti/core/call.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/layout.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/mpi/api.hpp>
#include <tutti/transport/mpi/datatype.hpp>
#include <tutti/transport/mpi/group.hpp>
#include <tutti/transport/mpi/operation.hpp>

#include <climits>
#include <cstddef>
#include <cstring>
#include <exception>
#include <string>

namespace tutti::detail {

/// The most elements that one call of MPI's counts; more are several calls, or a type of more elements. Tests lower it.
inline std::size_t mpi_most_elements = INT_MAX;

/// MPI's own collectives on one communicator. A vector is n elements, a block `each`; where the input is null, or where
/// it is what it would be copied to, the call works in place.
class mpi_collectives {
 public:
  /// At the root of a reduce MPICH 4.0 may read the address MPI_IN_PLACE: what lies there is copied.
#if defined(MPICH_NUMVERSION)
  static constexpr bool reduce_takes_scratch = true;
#else
  static constexpr bool reduce_takes_scratch = false;
#endif

  explicit mpi_collectives(mpi_group& group) : group_(&group), comm_(group.comm()) {}

  bool introduced() const { return group_->introduced; }
  void introduce() {
    group_->introduced = true;
    group_->job().may_be_deaf();
  }
  /// Nothing need be done before a collective but to write it down.
  TUTTI_ALWAYS_INLINE bool calm() const { return group_->calm(); }
  TUTTI_ALWAYS_INLINE void write_down(const call& c) { group_->write_down(c); }
  void open(const call& c) {
    group_->check();
    group_->job().go_on();
    group_->write_collective(c);
    group_->calm_down();
  }
  void abandon(const std::string& reason) noexcept { abandon(*group_, reason); }

  TUTTI_ALWAYS_INLINE void barrier() { call_mpi("MPI_Barrier", MPI_Barrier, comm_); }

  template <class T>
  TUTTI_ALWAYS_INLINE void broadcast(T* data, std::size_t n, int root) {
    in_parts(n, [=, comm = comm_](std::size_t at, int count) TUTTI_ALWAYS_INLINE {
      call_mpi("MPI_Bcast", MPI_Bcast, data + at, count, mpi_type<T>(), root, comm);
    });
  }
  template <class T>
  TUTTI_ALWAYS_INLINE void scatter(const T* in, T* out, std::size_t each, int root) {
    as_blocks<T>(each, [&](MPI_Datatype type, int count) TUTTI_ALWAYS_INLINE {
      const bool stays = group_->rank() == root && out == in + own_offset(each);
      call_mpi("MPI_Scatter", MPI_Scatter, in, count, type, stays ? MPI_IN_PLACE : out, count, type, root, comm_);
    });
  }
  template <class T>
  TUTTI_ALWAYS_INLINE void gather(const T* in, T* out, std::size_t each, int root) {
    as_blocks<T>(each, [&](MPI_Datatype type, int count) TUTTI_ALWAYS_INLINE {
      const bool stays = group_->rank() == root && in == out + own_offset(each);
      call_mpi("MPI_Gather", MPI_Gather, stays ? MPI_IN_PLACE : in, count, type, out, count, type, root, comm_);
    });
  }
  template <class T>
  TUTTI_ALWAYS_INLINE void allgather(const T* in, T* out, std::size_t each) {
    as_blocks<T>(each, [&](MPI_Datatype type, int count) TUTTI_ALWAYS_INLINE {
      call_mpi("MPI_Allgather", MPI_Allgather, in == nullptr ? MPI_IN_PLACE : in, count, type, out, count, type, comm_);
    });
  }
  template <class T>
  TUTTI_ALWAYS_INLINE void alltoall(const T* in, T* out, std::size_t each) {
    as_blocks<T>(each, [&](MPI_Datatype type, int count) TUTTI_ALWAYS_INLINE {
      call_mpi("MPI_Alltoall", MPI_Alltoall, in == nullptr ? MPI_IN_PLACE : in, count, type, out, count, type, comm_);
    });
  }

  template <bool Commutes, class T, class Op>
  TUTTI_ALWAYS_INLINE void allreduce(const T* in, T* out, std::size_t n, Op& op) {
    with_mpi_operation<Commutes, T>(op, [&](MPI_Datatype type, MPI_Op fold) TUTTI_ALWAYS_INLINE {
      in_parts(n, [=, comm = comm_](std::size_t at, int count) TUTTI_ALWAYS_INLINE {
        call_mpi("MPI_Allreduce", MPI_Allreduce, in == out ? MPI_IN_PLACE : in + at, out + at, count, type, fold, comm);
      });
    });
  }
  template <bool Commutes, class T, class Op>
  TUTTI_ALWAYS_INLINE void reduce(const T* in, T* out, std::size_t n, Op& op, int root, arena& scratch) {
    in = input(in, out, n, root, scratch);
    with_mpi_operation<Commutes, T>(
        op, [&](MPI_Datatype type, MPI_Op fold) TUTTI_ALWAYS_INLINE { reduce(in, out, n, type, fold, root); });
  }
  template <bool Commutes, class T, class Op>
  TUTTI_ALWAYS_INLINE void scan(const T* in, T* out, std::size_t n, Op& op) {
    with_mpi_operation<Commutes, T>(op, [&](MPI_Datatype type, MPI_Op fold) TUTTI_ALWAYS_INLINE {
      in_parts(n, [=, comm = comm_](std::size_t at, int count) TUTTI_ALWAYS_INLINE {
        call_mpi("MPI_Scan", MPI_Scan, in == out ? MPI_IN_PLACE : in + at, out + at, count, type, fold, comm);
      });
    });
  }
  template <bool Commutes, class T, class Op>
  TUTTI_ALWAYS_INLINE void exscan(const T* in, T* out, std::size_t n, Op& op) {
    with_mpi_operation<Commutes, T>(op, [&](MPI_Datatype type, MPI_Op fold) TUTTI_ALWAYS_INLINE {
      in_parts(n, [=, comm = comm_](std::size_t at, int count) TUTTI_ALWAYS_INLINE {
        call_mpi("MPI_Exscan", MPI_Exscan, in == out ? MPI_IN_PLACE : in + at, out + at, count, type, fold, comm);
      });
    });
  }
  /// This rank's block of the folded vector comes to `to`. In place, `whole` is the vector, of which `to` is the block;
  /// else it is null.
  template <bool Commutes, class T, class Op>
  void reduce_scatter(const T* in, T* to, T* whole, const layout& blocks, Op& op, arena& scratch) {
    with_mpi_operation<Commutes, T>(op, [&](MPI_Datatype type, MPI_Op fold) TUTTI_ALWAYS_INLINE {
      const std::size_t largest = blocks.size(0);
      if (largest > mpi_most_elements) return reduce_each(in, to, blocks, type, fold, scratch);
      // In place MPI puts the block where the vector begins.
      const T* const from = whole != nullptr ? whole : in;
      if (blocks.even()) {
        call_mpi("MPI_Reduce_scatter_block", MPI_Reduce_scatter_block, whole != nullptr ? MPI_IN_PLACE : from,
                 whole != nullptr ? whole : to, static_cast<int>(largest), type, fold, comm_);
      } else {
        int* const counts = scratch.take_for<int>(static_cast<std::size_t>(blocks.blocks()));
        for (int rank = 0; rank < blocks.blocks(); ++rank) counts[rank] = static_cast<int>(blocks.size(rank));
        call_mpi("MPI_Reduce_scatter", MPI_Reduce_scatter, whole != nullptr ? MPI_IN_PLACE : from,
                 whole != nullptr ? whole : to, counts, type, fold, comm_);
      }
      const std::size_t own = blocks.size(group_->rank());
      if (whole != nullptr && whole != to && own != 0) std::memmove(static_cast<void*>(to), whole, own * sizeof(T));
    });
  }

 private:
  [[gnu::noinline, gnu::cold]] static void abandon(mpi_group& group, const std::string& reason) noexcept {
    try {
      group.fail(
          {errc::peer_failed, group.rank(),
           message() << "rank " << group.rank() << " failed in " << group.last_call().describe() << ": " << reason});
    } catch (...) {
      std::terminate();  // no memory to say what failed: others would wait for ever
    }
  }
  /// What a reduce reads.
  template <class T>
  TUTTI_ALWAYS_INLINE const T* input(const T* in, const T* out, std::size_t n, int root, arena& scratch) const {
    if constexpr (reduce_takes_scratch) {
      if (group_->rank() == root && in == out && n != 0) {
        T* const copy = scratch.take_for<T>(n);
        std::memcpy(static_cast<void*>(copy), in, n * sizeof(T));
        return copy;
      }
    }
    return in;
  }

  std::size_t own_offset(std::size_t each) const { return each * static_cast<std::size_t>(group_->rank()); }

  /// `call(at, count)`: some elements after the others.
  template <class Call>
  TUTTI_ALWAYS_INLINE static void in_parts(std::size_t n, const Call& call) {
    if (n <= mpi_most_elements) [[likely]]
      return call(std::size_t{0}, static_cast<int>(n));
    in_several_parts(n, call);
  }
  /// With a copy of the call, whose own stays in registers.
  template <class Call>
  [[gnu::noinline, gnu::cold]] static void in_several_parts(std::size_t n, Call call) {
    for (std::size_t at = 0; at < n; at += mpi_most_elements)
      call(at, static_cast<int>(n - at < mpi_most_elements ? n - at : mpi_most_elements));
  }
  /// `call(type, count)`: a block is so many elements of that type.
  template <class T, class Call>
  TUTTI_ALWAYS_INLINE static void as_blocks(std::size_t each, Call&& call) {
    if (each <= mpi_most_elements) [[likely]]
      return call(mpi_type<T>(), static_cast<int>(each));
    const mpi_long_type block(mpi_type<T>(), sizeof(T), each, mpi_most_elements);
    call(block.get(), 1);
  }
  template <class T>
  TUTTI_ALWAYS_INLINE void reduce(const T* in, T* out, std::size_t n, MPI_Datatype type, MPI_Op fold, int root) {
    const bool here = group_->rank() == root;
    in_parts(n, [=, comm = comm_](std::size_t at, int count) TUTTI_ALWAYS_INLINE {
      call_mpi("MPI_Reduce", MPI_Reduce, here && in == out ? MPI_IN_PLACE : in + at, here ? out + at : nullptr, count,
               type, fold, root, comm);
    });
  }
  /// Blocks of more elements than MPI counts, one rank's after the other's.
  template <class T>
  void reduce_each(const T* in, T* to, const layout& blocks, MPI_Datatype type, MPI_Op fold, arena& scratch) {
    for (int rank = 0; rank < blocks.blocks(); ++rank)
      reduce(input(in + blocks.offset(rank), to, blocks.size(rank), rank, scratch), to, blocks.size(rank), type, fold,
             rank);
  }

  mpi_group* group_;
  MPI_Comm comm_;
};

}  // namespace tutti::detail
