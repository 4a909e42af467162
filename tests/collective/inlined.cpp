// SPDX-License-Identifier: BSL-1.0
//
// The tests are compiled with TUTTI_ALWAYS_INLINE empty, which takes a third of the time. Here every collective is
// compiled once as programs have it that optimise and define nothing.
#undef TUTTI_ALWAYS_INLINE
#include "mixed_forms.cpp"
