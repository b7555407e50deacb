// SPDX-License-Identifier: Apache-2.0
// Plans of tiles with masks: equal masks are stored once, so that a regular pattern stays small.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "framework/core/error.h"
#include "framework/kernels/tile_plan.h"
#include "framework/kernels/tile_transpose.h"

namespace tapeformer {
namespace {

constexpr int32_t tile = TilePlan::tile;

uint64_t ones(int32_t count) { return count >= tile ? ~uint64_t{0} : (uint64_t{1} << count) - 1; }

// FNV-1a over words (Fowler, Noll, Vo).
uint64_t hash_of(const TileMask& mask) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const uint64_t word : mask.keys) hash = (hash ^ word) * 0x100000001b3u;
  return hash ^ hash >> 32;
}

}  // namespace

MaskedPlan::MaskedPlan(int32_t queries, int32_t keys) {
  require(queries >= 0 && keys >= 0, "a tile plan of {} queries and {} keys", queries, keys);
  plan_.queries = queries;
  plan_.keys = keys;
  plan_.by_query.begin.push_back(0);
}

void MaskedPlan::add(int32_t key_tile, TileMask mask) {
  const auto query_tile = static_cast<int32_t>(plan_.by_query.begin.size()) - 1;
  std::vector<TileEntry>& entries = plan_.by_query.entries;
  require(query_tile < TilePlan::tiles_of(plan_.queries), "a tile plan of {} queries was given {} tiles of queries", plan_.queries,
          query_tile + 1);
  require(key_tile >= 0 && key_tile < TilePlan::tiles_of(plan_.keys), "a tile plan of {} keys was given the key tile {}", plan_.keys,
          key_tile);
  require(static_cast<int32_t>(entries.size()) == plan_.by_query.begin.back() || entries.back().tile < key_tile,
          "a tile plan was given the key tile {} after {}", key_tile, entries.empty() ? -1 : entries.back().tile);
  const int32_t rows = std::min(tile, plan_.queries - query_tile * tile);
  const uint64_t real = ones(std::min(tile, plan_.keys - key_tile * tile));
  int64_t pairs = 0;
  bool whole = true;
  for (int32_t i = 0; i < tile; ++i) {
    mask.keys[i] &= i < rows ? real : 0;
    pairs += std::popcount(mask.keys[i]);
    whole = whole && (i >= rows || mask.keys[i] == real);
  }
  if (pairs == 0) return;
  plan_.pairs += pairs;
  if (whole) {
    entries.push_back({key_tile, Predicate::all});
    return;
  }
  const uint64_t hash = hash_of(mask);
  int32_t index = -1;
  const auto [first, last] = known_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (std::memcmp(plan_.masks[static_cast<size_t>(at->second)].keys, mask.keys, sizeof mask.keys) == 0) index = at->second;
  if (index < 0) {
    index = static_cast<int32_t>(plan_.masks.size());
    plan_.masks.push_back(mask);
    known_.emplace(hash, index);
  }
  entries.push_back({key_tile, Predicate::mask, index});
}

void MaskedPlan::end_query_tile() { plan_.by_query.begin.push_back(static_cast<int32_t>(plan_.by_query.entries.size())); }

TilePlan MaskedPlan::finish() {
  require(static_cast<int32_t>(plan_.by_query.begin.size()) == TilePlan::tiles_of(plan_.queries) + 1,
          "a tile plan of {} queries was given {} tiles of queries", plan_.queries, plan_.by_query.begin.size() - 1);
  plan_.by_key = transposed(plan_.by_query, TilePlan::tiles_of(plan_.keys));
  return std::move(plan_);
}

}  // namespace tapeformer
