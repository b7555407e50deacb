// SPDX-License-Identifier: Apache-2.0
// When `--max-time` ends a sitting.
#pragma once
#include <chrono>
#include <optional>
#include <string>

namespace tapeformer::tools {
// So long after now: 90s, 30m, 8h. Nothing for an empty text; Error(usage) for what is no time.
std::optional<std::chrono::steady_clock::time_point> deadline_of(const std::string& max_time);
}  // namespace tapeformer::tools
