// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/tile_plan.h"

#include <algorithm>

#include "framework/core/error.h"

namespace tapeformer {
namespace {

constexpr int32_t tile = TilePlan::tile;

// The same pairs seen from the key tiles.
TileList transposed(const TileList& by_query, int32_t key_tiles) {
  TileList out;
  std::vector<std::vector<TileEntry>> rows(static_cast<size_t>(key_tiles));
  for (size_t t = 0; t + 1 < by_query.begin.size(); ++t)
    for (int32_t e = by_query.begin[t]; e < by_query.begin[t + 1]; ++e) {
      const TileEntry entry = by_query.entries[static_cast<size_t>(e)];
      rows[static_cast<size_t>(entry.tile)].push_back({static_cast<int32_t>(t), entry.predicate});
    }
  out.begin.push_back(0);
  for (const auto& row : rows) {
    out.entries.insert(out.entries.end(), row.begin(), row.end());
    out.begin.push_back(static_cast<int32_t>(out.entries.size()));
  }
  return out;
}

}  // namespace

TilePlan full_plan(int32_t queries, int32_t keys) {
  TilePlan plan;
  plan.queries = queries;
  plan.keys = keys;
  plan.pairs = int64_t{queries} * keys;
  const int32_t key_tiles = TilePlan::tiles_of(keys);
  plan.by_query.begin.push_back(0);
  for (int32_t t = 0; t < TilePlan::tiles_of(queries); ++t) {
    for (int32_t j = 0; j < key_tiles; ++j) plan.by_query.entries.push_back({j, Predicate::all});
    plan.by_query.begin.push_back(static_cast<int32_t>(plan.by_query.entries.size()));
  }
  plan.by_key = transposed(plan.by_query, key_tiles);
  return plan;
}

TilePlan interval_plan(int32_t keys, std::vector<int32_t> first, std::vector<int32_t> end) {
  require(first.size() == end.size(), "{} first keys and {} ends", first.size(), end.size());
  TilePlan plan;
  plan.queries = static_cast<int32_t>(first.size());
  plan.keys = keys;
  for (size_t i = 0; i < first.size(); ++i) {
    first[i] = std::clamp(first[i], 0, keys);
    end[i] = std::clamp(end[i], first[i], keys);
    plan.pairs += end[i] - first[i];
  }
  plan.by_query.begin.push_back(0);
  for (int32_t q = 0; q < plan.queries; q += tile) {
    const auto rows_begin = static_cast<size_t>(q), rows_end = static_cast<size_t>(std::min(plan.queries, q + tile));
    for (int32_t k = 0; k < keys; k += tile) {
      const int32_t k_end = std::min(keys, k + tile);
      bool meets = false, whole = true;
      for (size_t i = rows_begin; i < rows_end; ++i) {
        meets = meets || (first[i] < k_end && end[i] > k && first[i] < end[i]);
        whole = whole && first[i] <= k && end[i] >= k_end;
      }
      if (meets) plan.by_query.entries.push_back({k / tile, whole ? Predicate::all : Predicate::interval});
    }
    plan.by_query.begin.push_back(static_cast<int32_t>(plan.by_query.entries.size()));
  }
  plan.by_key = transposed(plan.by_query, TilePlan::tiles_of(keys));
  plan.first_key = std::move(first);
  plan.end_key = std::move(end);
  return plan;
}

}  // namespace tapeformer
