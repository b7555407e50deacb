// SPDX-License-Identifier: Apache-2.0
#include "models/attention/causal_plan.h"

#include <algorithm>

#include "models/attention/tile_bits.h"

namespace tapeformer::models {
namespace {

// The keys of an entry's tile that the plan lets query i use.
uint64_t allowed_keys(const TilePlan& plan, const TileEntry& entry, int32_t i) {
  const auto at = static_cast<size_t>(i);
  if (entry.predicate == Predicate::mask) return plan.masks[static_cast<size_t>(entry.mask)].keys[i % tile];
  if (entry.predicate == Predicate::all) return ~uint64_t{0};
  return tile_bits(plan.first_key[at] - entry.tile * tile, plan.end_key[at] - entry.tile * tile);
}

// The keys of the tile that begins at k0 whose places are below `end`.
uint64_t keys_below(const TilePlan& plan, int32_t k0, int32_t end) {
  if (plan.key_rows.empty() && plan.key_places.empty()) return tile_bits(0, end - k0);
  uint64_t bits = 0;
  for (int32_t j = k0; j < std::min(plan.keys, k0 + tile); ++j) bits |= uint64_t{plan.key_place(j) < end} << (j - k0);
  return bits;
}

}  // namespace

TilePlan causal_plan(const TilePlan& plan, int32_t front) {
  MaskedPlan cut(plan.queries, plan.keys);
  for (int32_t t = 0; t < TilePlan::tiles_of(plan.queries); ++t) {
    for (int32_t e = plan.by_query.begin[static_cast<size_t>(t)]; e < plan.by_query.begin[static_cast<size_t>(t) + 1]; ++e) {
      const TileEntry& entry = plan.by_query.entries[static_cast<size_t>(e)];
      TileMask mask{};
      uint64_t any = 0;
      for (int32_t i = t * tile; i < std::min(plan.queries, (t + 1) * tile); ++i) {
        const int32_t end = std::max(front, plan.query_place(i) + 1);
        any |= mask.keys[i % tile] = allowed_keys(plan, entry, i) & keys_below(plan, entry.tile * tile, end);
      }
      if (any != 0) cut.add(entry.tile, mask);
    }
    cut.end_query_tile();
  }
  TilePlan out = cut.finish();
  out.query_rows = plan.query_rows;
  out.key_rows = plan.key_rows;
  out.query_places = plan.query_places;
  out.key_places = plan.key_places;
  return out;
}

}  // namespace tapeformer::models
