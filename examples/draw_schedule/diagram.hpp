// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "recording.hpp"

#include <string>

namespace drawing {

/// The space-time diagram of a schedule as an SVG picture: ranks are lines, rounds are columns, messages are arrows
/// labelled by their blocks.
std::string diagram(const recording& schedule);

}  // namespace drawing
