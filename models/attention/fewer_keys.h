// SPDX-License-Identifier: Apache-2.0
// Patterns of variants that let all rows look at a few keys of each sequence, a few points at all rows, or rows at the first so many keys.
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

// Row i of n sees the first seen(n, i) keys of its sequence, how many there are being a function of n.
template <class Seen>
ops::AttentionPart prefix_part(const Packing& queries, const Packing& keys, const Seen& seen) {
  std::map<int32_t, PlanPointer> made;
  ops::AttentionPart part;
  for (int b = 0; b < queries.sequences(); ++b) {
    const int32_t n = queries.length(b);
    PlanPointer& plan = made[n];
    if (!plan) {
      std::vector<int32_t> end;
      for (int32_t i = 0; i < n; ++i) end.push_back(seen(n, i));
      std::vector<int32_t> first(end.size());
      plan = std::make_shared<const TilePlan>(interval_plan(keys.length(b), std::move(first), std::move(end)));
    }
    part.push_back(plan);
  }
  return part;
}

}  // namespace tapeformer::models
