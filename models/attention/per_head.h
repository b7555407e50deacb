// SPDX-License-Identifier: Apache-2.0
// Settings that are one number for all heads, or a list with one number a head.
#pragma once
#include <fmt/format.h>

#include "framework/config/section.h"
#include "models/attention/variant.h"

namespace tapeformer::models {

// A fault where a list has neither one number nor one for each head of the choice.
inline void check_per_head(config::Section& section, const char* key, const std::vector<int>& list, const Choice& choice) {
  if (const size_t given = list.size(); given != 1 && given != static_cast<size_t>(choice.heads))
    section.fault(key, fmt::format("'{}' lists {} numbers, but '{}' is {}", section.path(key), given, choice.heads_key, choice.heads),
                  "list one number a head, or give one for all");
}

// That of a head, by its number in the layer.
inline int of_head(const std::vector<int>& list, const HeadSettings& group, int head) {
  return list.size() == 1 ? list[0] : list[static_cast<size_t>(head - group.first_head)];
}

}  // namespace tapeformer::models
