// SPDX-License-Identifier: Apache-2.0
// Plans of attention for tests, from the pairs that they allow.
#pragma once
#include <algorithm>

#include "framework/kernels/tile_plan.h"

namespace tapeformer::test {

// Query i sees the keys j for which allowed(i, j); i and j count in the plan.
template <class Allowed>
TilePlan plan_of_pairs(int32_t queries, int32_t keys, const Allowed& allowed) {
  constexpr int32_t tile = TilePlan::tile;
  MaskedPlan plan(queries, keys);
  for (int32_t q = 0; q < queries; q += tile) {
    for (int32_t k = 0; k < keys; k += tile) {
      TileMask mask{};
      for (int32_t i = q; i < std::min(queries, q + tile); ++i)
        for (int32_t j = k; j < std::min(keys, k + tile); ++j) mask.keys[i - q] |= uint64_t{allowed(i, j)} << (j - k);
      plan.add(k / tile, mask);
    }
    plan.end_query_tile();
  }
  return plan.finish();
}

}  // namespace tapeformer::test
