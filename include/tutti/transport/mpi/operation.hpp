// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/fold.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/operation.hpp>
#include <tutti/transport/mpi/api.hpp>
#include <tutti/transport/mpi/at_end.hpp>
#include <tutti/transport/mpi/datatype.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <type_traits>
#include <utility>

namespace tutti::detail {

template <class Op>
struct without_promise {
  using type = Op;
};
template <class Op>
struct without_promise<commutative<Op>> {
  using type = Op;
};

enum class mpi_builtin { none, sum, product, least, greatest, both, either, bits_of_both, bits_of_either, bits_of_one };

/// MPI's own operation that gives the same values. The smallest and largest of floating-point numbers are not among
/// them, since MPI does not say what becomes of a NaN.
template <class T, class Promised>
constexpr mpi_builtin mpi_builtin_for() {
  using plain = typename without_promise<Promised>::type;
  constexpr bool number = mpi_number<T> && !std::is_same_v<T, bool>;
  if (number || mpi_complex<T>) {
    if (is_one_of<plain, T, std::plus>) return mpi_builtin::sum;
    if (is_one_of<plain, T, std::multiplies>) return mpi_builtin::product;
  }
  if (number && std::integral<T>) {
    if (std::is_same_v<plain, minimum>) return mpi_builtin::least;
    if (std::is_same_v<plain, maximum>) return mpi_builtin::greatest;
    if (is_one_of<plain, T, std::bit_and>) return mpi_builtin::bits_of_both;
    if (is_one_of<plain, T, std::bit_or>) return mpi_builtin::bits_of_either;
    if (is_one_of<plain, T, std::bit_xor>) return mpi_builtin::bits_of_one;
  }
  if (mpi_number<T> && std::integral<T>) {
    if (is_one_of<plain, T, std::logical_and>) return mpi_builtin::both;
    if (is_one_of<plain, T, std::logical_or>) return mpi_builtin::either;
  }
  return mpi_builtin::none;
}

template <mpi_builtin Which>
inline MPI_Op mpi_builtin_operation() {
  if constexpr (Which == mpi_builtin::sum) return MPI_SUM;
  if constexpr (Which == mpi_builtin::product) return MPI_PROD;
  if constexpr (Which == mpi_builtin::least) return MPI_MIN;
  if constexpr (Which == mpi_builtin::greatest) return MPI_MAX;
  if constexpr (Which == mpi_builtin::both) return MPI_LAND;
  if constexpr (Which == mpi_builtin::either) return MPI_LOR;
  if constexpr (Which == mpi_builtin::bits_of_both) return MPI_BAND;
  if constexpr (Which == mpi_builtin::bits_of_either) return MPI_BOR;
  if constexpr (Which == mpi_builtin::bits_of_one) return MPI_BXOR;
  return MPI_OP_NULL;
}

/// The user's callable while MPI calls it. MPI gives a function no place to keep anything, so the thread that makes the
/// call remembers which object it is for.
template <class T, class Op>
struct mpi_fold {
  static inline thread_local Op* op = nullptr;
  static inline thread_local std::exception_ptr* failed = nullptr;

  // The types are MPI's. What is on the left comes from the lower ranks.
  static void run(void* left, void* right, int* count, MPI_Datatype*) {
    // No exception may leave through MPI: what was folded since is not used.
    if (*failed) return;
    try {
      fold(static_cast<const std::byte*>(left), static_cast<std::byte*>(right), static_cast<std::size_t>(*count));
    } catch (...) {
      *failed = std::current_exception();
    }
  }

 private:
  static void fold(const std::byte* left, std::byte* right, std::size_t n) {
    if (aligned(left) && aligned(right)) {
      T* const to = reinterpret_cast<T*>(right);
      return fold_pair(to, reinterpret_cast<const T*>(left), static_cast<const T*>(to), n, *op, false);
    }
    // MPI's own memory is aligned for its own types.
    alignas(T) std::byte operands[2 * sizeof(T)];
    T* const both = reinterpret_cast<T*>(operands);
    for (std::size_t i = 0; i < n; ++i) {
      std::memcpy(operands, left + i * sizeof(T), sizeof(T));
      std::memcpy(operands + sizeof(T), right + i * sizeof(T), sizeof(T));
      both[1] = static_cast<T>((*op)(both[0], both[1]));
      std::memcpy(right + i * sizeof(T), operands + sizeof(T), sizeof(T));
    }
  }
  static bool aligned(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data) % alignof(T) == 0; }
};

/// One of MPI's operations that calls such a function, for as long as MPI lasts.
class mpi_made_operation : mpi_at_end {
 public:
  mpi_made_operation(MPI_User_function* f, bool commutes) : mpi_at_end(&mpi_made_operation::end) {
    check_mpi(MPI_Op_create(f, commutes ? 1 : 0, &op_), "MPI_Op_create");
    join();
  }
  MPI_Op get() const { return op_; }

 private:
  static void end(mpi_at_end& self) noexcept { MPI_Op_free(&static_cast<mpi_made_operation&>(self).op_); }

  MPI_Op op_ = MPI_OP_NULL;
};

/// `call(type, operation)`: a call of MPI's that folds elements of T by `op`.
template <bool Commutes, class T, class Op, class Call>
TUTTI_ALWAYS_INLINE inline void with_mpi_operation(Op& op, Call&& call) {
  constexpr mpi_builtin known = mpi_builtin_for<T, Op>();
  if constexpr (known != mpi_builtin::none) {
    call(mpi_builtin_type<T>(), mpi_builtin_operation<known>());
  } else {
    static const mpi_made_operation made(&mpi_fold<T, Op>::run, Commutes);
    std::exception_ptr failed;
    // A callable may call a collective of another communicator that is folded by its like.
    struct scope {
      Op* op;
      std::exception_ptr* failed;
      ~scope() {
        mpi_fold<T, Op>::op = op;
        mpi_fold<T, Op>::failed = failed;
      }
    } const before{std::exchange(mpi_fold<T, Op>::op, &op), std::exchange(mpi_fold<T, Op>::failed, &failed)};
    // Operations of one's own take types of one's own, or MPI might fold them in another way.
    call(mpi_type_of_bytes<sizeof(T)>(), made.get());
    if (failed) std::rethrow_exception(failed);
  }
}

}  // namespace tutti::detail
