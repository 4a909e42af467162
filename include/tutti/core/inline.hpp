// SPDX-License-Identifier: BSL-1.0
#pragma once

/// What stands before the functions between a verb and the bytes: where the compiler optimises they are all inlined
/// into the verb, so that it keeps in registers what they share. A copy in memory that was just written in parts waits,
/// to be read whole, until the stores before it have been done, also those to lines that other processors hold.
///
/// Define it empty before the first include to leave inlining to the compiler: programs with many calls compile in a
/// third of the time then, and small messages take a little longer.
#ifndef TUTTI_ALWAYS_INLINE
#if defined(__OPTIMIZE__)
#define TUTTI_ALWAYS_INLINE __attribute__((always_inline))
#else
#define TUTTI_ALWAYS_INLINE
#endif
#endif
