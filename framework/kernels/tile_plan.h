// SPDX-License-Identifier: Apache-2.0
// Which keys a query may use, as lists of tiles: the structure that the attention kernel walks. A plan belongs to one sequence length.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "framework/kernels/tile_entry.h"

namespace tapeformer {

// For each tile of one side, the tiles of the other side it meets, ascending.
struct TileList {
  std::vector<int32_t> begin;  // [tiles + 1] into entries
  std::vector<TileEntry> entries;
};

struct TilePlan {
  static constexpr int32_t tile = 64;  // rows of a tile, on both sides
  int32_t queries = 0, keys = 0;
  std::vector<int32_t> first_key, end_key;  // [queries]; empty when no tile has the interval predicate
  TileList by_query, by_key;                // the same pairs twice: by query tile for the forward, by key tile for the backward
  int64_t pairs = 0;                        // allowed (query, key) pairs

  static int32_t tiles_of(int32_t rows) { return (rows + tile - 1) / tile; }
};

// Held by whatever still walks it: a plan may be made for one step.
using PlanPointer = std::shared_ptr<const TilePlan>;

// Every query sees every key.
TilePlan full_plan(int32_t queries, int32_t keys);
// Query i sees the keys first[i] <= j < end[i]; bounds are cut to 0 .. keys, an empty interval means no key.
TilePlan interval_plan(int32_t keys, std::vector<int32_t> first, std::vector<int32_t> end);

}  // namespace tapeformer
