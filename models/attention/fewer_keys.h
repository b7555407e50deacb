// SPDX-License-Identifier: Apache-2.0
// What variants have in common that let all rows look at a few keys of each sequence, or a few points at all rows.
#pragma once
#include <map>

#include "framework/ops/attention.h"

namespace tapeformer::models {

// Every query of a sequence sees all keys of the same sequence; sequences of equal lengths share a plan.
inline ops::AttentionPart full_part(const Packing& queries, const Packing& keys) {
  std::map<std::pair<int32_t, int32_t>, PlanPointer> made;
  ops::AttentionPart part;
  for (int b = 0; b < queries.sequences(); ++b) {
    PlanPointer& plan = made[{queries.length(b), keys.length(b)}];
    if (!plan) plan = std::make_shared<const TilePlan>(full_plan(queries.length(b), keys.length(b)));
    part.push_back(plan);
  }
  return part;
}

}  // namespace tapeformer::models
