// SPDX-License-Identifier: Apache-2.0
// Plans of tiles with masks: equal masks are stored once, so that a regular pattern stays small.
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

TilePlan list_plan(int32_t keys, std::span<const int32_t> begin, std::span<const int32_t> list) {
  require(!begin.empty() && begin.front() == 0 && begin.back() == static_cast<int32_t>(list.size()),
          "a tile plan of lists: the {} beginnings do not run from 0 to the {} keys listed", begin.size(), list.size());
  const auto queries = static_cast<int32_t>(begin.size()) - 1;
  MaskedPlan plan(queries, keys);
  std::vector<int32_t> slot(static_cast<size_t>(TilePlan::tiles_of(keys)), -1);  // of a key tile in `masks`
  std::vector<int32_t> met;
  std::vector<TileMask> masks;
  for (int32_t q = 0; q < queries; q += tile) {
    for (int32_t i = q; i < std::min(queries, q + tile); ++i) {
      require(begin[static_cast<size_t>(i)] <= begin[static_cast<size_t>(i) + 1],
              "a tile plan of lists: the list of query {} ends before it begins", i);
      int32_t last = -1;
      for (int32_t e = begin[static_cast<size_t>(i)]; e < begin[static_cast<size_t>(i) + 1]; ++e) {
        const int32_t j = list[static_cast<size_t>(e)];
        require(j > last && j < keys, "a tile plan of lists: key {} of query {} is not above {} and below {}", j, i, last, keys);
        last = j;
        int32_t& at = slot[static_cast<size_t>(j / tile)];
        if (at < 0) {
          at = static_cast<int32_t>(met.size());
          met.push_back(j / tile);
          masks.resize(met.size());
        }
        masks[static_cast<size_t>(at)].keys[i - q] |= uint64_t{1} << (j % tile);
      }
    }
    std::sort(met.begin(), met.end());
    for (const int32_t t : met) plan.add(t, masks[static_cast<size_t>(slot[static_cast<size_t>(t)])]);
    plan.end_query_tile();
    for (const int32_t t : met) slot[static_cast<size_t>(t)] = -1;
    met.clear();
    masks.clear();
  }
  return plan.finish();
}

}  // namespace tapeformer
