// SPDX-License-Identifier: Apache-2.0
// Which keys a query may use, as lists of tiles: the structure that the attention kernel walks. A plan belongs to one sequence length.
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
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
  // Which rows of the sequence the queries and keys are, each at most once; empty: 0, 1, 2, ... .
  std::vector<int32_t> query_rows, key_rows;
  // The coordinates by which dropout draws, so that a pair draws the same wherever it stands; empty: the rows. They are given where rows
  // were gathered (and may then repeat).
  std::vector<int32_t> query_places, key_places;
  std::vector<int32_t> first_key, end_key;  // [queries]; empty when no tile has the interval predicate
  TileList by_query, by_key;                // the same pairs twice: by query tile for the forward, by key tile for the backward
  std::vector<TileMask> masks;              // entries with equal masks may share one
  int64_t pairs = 0;                        // allowed (query, key) pairs

  static int32_t tiles_of(int32_t rows) { return (rows + tile - 1) / tile; }
  int32_t query_row(int32_t i) const { return query_rows.empty() ? i : query_rows[static_cast<size_t>(i)]; }
  int32_t key_row(int32_t j) const { return key_rows.empty() ? j : key_rows[static_cast<size_t>(j)]; }
  int32_t query_place(int32_t i) const { return query_places.empty() ? query_row(i) : query_places[static_cast<size_t>(i)]; }
  int32_t key_place(int32_t j) const { return key_places.empty() ? key_row(j) : key_places[static_cast<size_t>(j)]; }
  // Of an entry's tile of `query` x `key`, places counted in the plan.
  bool allows(const TileEntry& entry, int32_t query, int32_t key) const {
    const auto i = static_cast<size_t>(query);
    if (entry.predicate == Predicate::mask) return masks[static_cast<size_t>(entry.mask)].keys[i % tile] >> (key % tile) & 1;
    return entry.predicate == Predicate::all || (first_key[i] <= key && key < end_key[i]);
  }
  size_t bytes() const;  // of memory
};

// Held by whatever still walks it: a plan may be made for one step.
using PlanPointer = std::shared_ptr<const TilePlan>;

// Every query sees every key.
TilePlan full_plan(int32_t queries, int32_t keys);
// Query i sees the keys first[i] <= j < end[i]; bounds are cut to 0 .. keys, an empty interval means no key.
TilePlan interval_plan(int32_t keys, std::vector<int32_t> first, std::vector<int32_t> end);
// Builds a plan from masks, query tile after query tile.
class MaskedPlan {
 public:
  MaskedPlan(int32_t queries, int32_t keys);
  // A pair of tiles of the query tile being built; key tiles ascend. Bits beyond the ends are ignored; a whole tile becomes `all`, and one
  // without pairs is left out.
  void add(int32_t key_tile, TileMask mask);
  void end_query_tile();
  TilePlan finish();

 private:
  TilePlan plan_;
  std::unordered_multimap<uint64_t, int32_t> known_;  // masks by their hash
};

}  // namespace tapeformer
