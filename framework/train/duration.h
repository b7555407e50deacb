// SPDX-License-Identifier: Apache-2.0
// How long to train, or how often to do something: epochs (20ep), updates (50000, 50k, 2.5M) or time (2h, 30m, 90s).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/section.h"

namespace tapeformer::train {

// Limits of which the first one reached wins; an absent one does not limit.
struct Duration {
  std::optional<double> epochs;
  std::optional<int64_t> updates;
  std::optional<double> seconds;

  bool operator==(const Duration&) const = default;
  // The updates that epochs and updates allow when an epoch has `updates_per_epoch` of them, at least 1; nullopt when only time limits.
  // Part of an epoch is rounded up to a whole update.
  std::optional<int64_t> total_updates(int64_t updates_per_epoch) const;
};

// Adds one limit to `duration`. Returns what is wrong with the word, or nothing.
std::optional<std::string> parse_duration(std::string_view word, Duration& duration);

// Reads a word or a list of them; a fault names the key's place. What stands in `duration` is the default.
void read_duration(config::Section& section, std::string_view key, Duration& duration, std::string_view help);

}  // namespace tapeformer::train
