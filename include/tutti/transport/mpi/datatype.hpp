// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/operation.hpp>
#include <tutti/transport/mpi/api.hpp>
#include <tutti/transport/mpi/at_end.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace tutti::detail {

/// MPI knows the type as a number.
template <class T>
inline constexpr bool mpi_number = (std::integral<T> && sizeof(T) <= 8) || std::is_same_v<T, float> ||
                                   std::is_same_v<T, double> || std::is_same_v<T, long double>;
template <class T>
inline constexpr bool mpi_complex = false;
template <complex_number T>
inline constexpr bool mpi_complex<T> =
    std::is_same_v<typename T::value_type, float> || std::is_same_v<typename T::value_type, double> ||
    std::is_same_v<typename T::value_type, long double>;

/// The names of MPI's types are no constants everywhere, so this is a function.
template <class T>
inline MPI_Datatype mpi_builtin_type() {
  if constexpr (std::is_same_v<T, bool>) {
    return MPI_C_BOOL;
  } else if constexpr (std::integral<T>) {
    constexpr bool s = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1) return s ? MPI_INT8_T : MPI_UINT8_T;
    if constexpr (sizeof(T) == 2) return s ? MPI_INT16_T : MPI_UINT16_T;
    if constexpr (sizeof(T) == 4) return s ? MPI_INT32_T : MPI_UINT32_T;
    if constexpr (sizeof(T) == 8) return s ? MPI_INT64_T : MPI_UINT64_T;
  } else if constexpr (std::is_same_v<T, float>) {
    return MPI_FLOAT;
  } else if constexpr (std::is_same_v<T, double>) {
    return MPI_DOUBLE;
  } else if constexpr (std::is_same_v<T, long double>) {
    return MPI_LONG_DOUBLE;
  } else if constexpr (std::is_same_v<typename T::value_type, float>) {
    return MPI_C_FLOAT_COMPLEX;
  } else if constexpr (std::is_same_v<typename T::value_type, double>) {
    return MPI_C_DOUBLE_COMPLEX;
  } else {
    return MPI_C_LONG_DOUBLE_COMPLEX;
  }
}

/// So many bytes as one element, for as long as MPI lasts.
class mpi_bytes_type : mpi_at_end {
 public:
  explicit mpi_bytes_type(std::size_t bytes) : mpi_at_end(&mpi_bytes_type::end) {
    check_mpi(MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &type_), "MPI_Type_contiguous");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
    join();
  }
  MPI_Datatype get() const { return type_; }

 private:
  static void end(mpi_at_end& self) noexcept { MPI_Type_free(&static_cast<mpi_bytes_type&>(self).type_); }

  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

template <std::size_t Bytes>
inline MPI_Datatype mpi_type_of_bytes() {
  static const mpi_bytes_type type(Bytes);
  return type.get();
}

/// Of any element: MPI's own where it has one, else its bytes.
template <class T>
inline MPI_Datatype mpi_type() {
  if constexpr (mpi_number<T> || mpi_complex<T>) {
    return mpi_builtin_type<T>();
  } else {
    return mpi_type_of_bytes<sizeof(T)>();
  }
}

/// So many elements as one: more than MPI counts.
class mpi_long_type {
 public:
  /// `most`: as many as MPI counts.
  mpi_long_type(MPI_Datatype element, std::size_t bytes, std::size_t count, std::size_t most) {
    MPI_Datatype part = MPI_DATATYPE_NULL;
    MPI_Datatype body = MPI_DATATYPE_NULL;
    const std::size_t parts = count / most;
    check_mpi(MPI_Type_contiguous(static_cast<int>(most), element, &part), "MPI_Type_contiguous");
    check_mpi(MPI_Type_contiguous(static_cast<int>(parts), part, &body), "MPI_Type_contiguous");
    const int lengths[] = {1, static_cast<int>(count % most)};
    const MPI_Aint places[] = {0, static_cast<MPI_Aint>(parts * most * bytes)};
    const MPI_Datatype types[] = {body, element};
    check_mpi(MPI_Type_create_struct(lengths[1] == 0 ? 1 : 2, lengths, places, types, &type_),
              "MPI_Type_create_struct");
    MPI_Type_free(&part);
    MPI_Type_free(&body);
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  mpi_long_type(const mpi_long_type&) = delete;
  mpi_long_type& operator=(const mpi_long_type&) = delete;
  ~mpi_long_type() { MPI_Type_free(&type_); }
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace tutti::detail
