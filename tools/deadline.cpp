// SPDX-License-Identifier: Apache-2.0
#include "tools/deadline.h"

#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/train/duration.h"

namespace tapeformer::tools {

std::optional<std::chrono::steady_clock::time_point> deadline_of(const std::string& max_time) {
  using Clock = std::chrono::steady_clock;
  if (max_time.empty()) return std::nullopt;
  train::Duration d;
  const auto wrong = train::parse_duration(max_time, d);
  if (wrong || !d.seconds)
    fail(ExitCode::usage, "--max-time {}: {}; write 90s, 30m or 8h", printable(max_time), wrong.value_or("is not a time"));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*d.seconds));
}

}  // namespace tapeformer::tools
