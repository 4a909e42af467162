// SPDX-License-Identifier: BSL-1.0
#pragma once

// Counts, and on demand refuses, what each thread of a test allocates: included by one translation unit, it replaces
// operators new and delete.

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

// The thread sanitizer of clang has operators new and delete of its own, and links no others.
#if defined(__clang__) && defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THE_SANITIZER_ALLOCATES
#endif
#endif

namespace {

thread_local std::size_t allocations = 0;
thread_local std::size_t refused =
    0;  // the number, from here, of the allocation that this thread does not get; 0: none
[[maybe_unused]] std::atomic<long> live_allocations{0};  // of all threads

/// What all threads together do not get that the library has made: those with numbers from `first` to before `end`.
struct refusals_elsewhere {
  std::atomic<std::size_t> first{0}, end{0}, seen{0};
  bool next() { return end.load() != 0 && ++seen >= first.load() && seen.load() < end.load(); }
};
[[maybe_unused]] refusals_elsewhere elsewhere;
[[maybe_unused]] thread_local bool made_by_test = false;

#ifdef THE_SANITIZER_ALLOCATES
constexpr bool counting = false;
#else
constexpr bool counting = true;

void* counted(std::size_t size, std::size_t alignment) {
  ++allocations;
  if (refused != 0 && --refused == 0) throw std::bad_alloc();
  if (!made_by_test && elsewhere.next()) throw std::bad_alloc();
  size = (size == 0 ? 1 : size) + alignment - 1;
  if (void* memory = alignment <= alignof(std::max_align_t)
                         ? std::malloc(size)
                         : std::aligned_alloc(alignment, size / alignment * alignment)) {
    live_allocations.fetch_add(1, std::memory_order_relaxed);
    return memory;
  }
  throw std::bad_alloc();
}
void forgotten(void* memory) noexcept {
  if (memory != nullptr) live_allocations.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}
#endif

}  // namespace

#ifndef THE_SANITIZER_ALLOCATES
// Out of line, or g++ sees through them and finds that what comes from malloc is given to delete.
[[gnu::noinline]] void* operator new(std::size_t size) { return counted(size, 1); }
[[gnu::noinline]] void* operator new[](std::size_t size) { return counted(size, 1); }
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t a) {
  return counted(size, static_cast<std::size_t>(a));
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::align_val_t a) {
  return counted(size, static_cast<std::size_t>(a));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { forgotten(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { forgotten(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { forgotten(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { forgotten(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { forgotten(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept { forgotten(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { forgotten(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { forgotten(memory); }
#endif
