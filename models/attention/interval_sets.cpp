// SPDX-License-Identifier: Apache-2.0
#include "models/attention/interval_sets.h"

#include <algorithm>

#include "models/attention/tile_bits.h"

namespace tapeformer::models {

IntervalSets::IntervalSets(int32_t queries, int32_t keys)
    : plan_(queries, keys), keys_(keys), masks_(static_cast<size_t>(TilePlan::tiles_of(keys)), TileMask{}) {}

void IntervalSets::add_query(std::span<const Interval> runs) {
  if (query_ > 0 && query_ % tile == 0) end_tile();
  const auto row = static_cast<size_t>(query_ % tile);
  for (const Interval& run : runs) {
    const int32_t first = std::max(run.first, 0), end = std::min(run.end, keys_);
    for (int32_t t = first / tile; t * tile < end; ++t) {
      touched_.push_back(t);
      masks_[static_cast<size_t>(t)].keys[row] |= tile_bits(first - t * tile, end - t * tile);
    }
  }
  ++query_;
}

void IntervalSets::end_tile() {
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  for (const int32_t t : touched_) {
    plan_.add(t, masks_[static_cast<size_t>(t)]);
    masks_[static_cast<size_t>(t)] = {};
  }
  touched_.clear();
  plan_.end_query_tile();
}

ResidueRows residue_rows(int32_t n, int stride) {
  ResidueRows out;
  for (int32_t residue = 0; residue < std::min(stride, n); ++residue) {
    const auto first = static_cast<int32_t>(out.rows.size());
    for (int64_t i = residue; i < n; i += stride) out.rows.push_back(static_cast<int32_t>(i));
    out.begin.resize(out.rows.size(), first);
    out.end.resize(out.rows.size(), static_cast<int32_t>(out.rows.size()));
  }
  return out;
}

TilePlan IntervalSets::finish() {
  if (query_ > 0) end_tile();
  return plan_.finish();
}

}  // namespace tapeformer::models
