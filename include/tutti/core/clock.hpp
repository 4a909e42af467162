// SPDX-License-Identifier: BSL-1.0
#pragma once

// Durations and clocks. From version 11 on libstdc++ has them in <mutex> as well, without the streams, calendars and
// formats of <chrono>, which are a twentieth of what it takes to compile a program of one call.

#include <mutex>
#if !defined(_GLIBCXX_RELEASE) || _GLIBCXX_RELEASE < 11
#include <chrono>
#endif
