// SPDX-License-Identifier: Apache-2.0
// Makes tile plans in time linear in the rows and in the tiles met, so that a band over a long sequence costs no more than its length.
#include "framework/kernels/tile_plan.h"

#include <algorithm>
#include <utility>

#include "framework/core/error.h"
#include "framework/kernels/tile_transpose.h"

namespace tapeformer {
namespace {

constexpr int32_t tile = TilePlan::tile;

// Appends the key tiles that the rows [begin, end) meet, ascending. `spans` is working memory.
void meet(const std::vector<int32_t>& first, const std::vector<int32_t>& end, size_t rows_begin, size_t rows_end, int32_t keys,
          std::vector<std::pair<int32_t, int32_t>>& spans, std::vector<TileEntry>& entries) {
  int32_t last_first = 0, first_end = keys;  // every row allows the keys [last_first, first_end)
  spans.clear();
  for (size_t i = rows_begin; i < rows_end; ++i) {
    last_first = std::max(last_first, first[i]);
    first_end = std::min(first_end, end[i]);
    if (first[i] < end[i]) spans.emplace_back(first[i] / tile, TilePlan::tiles_of(end[i]));
  }
  std::sort(spans.begin(), spans.end());
  int32_t next = 0;
  for (const auto& [span_first, span_end] : spans)
    for (next = std::max(next, span_first); next < span_end; ++next) {
      const bool whole = last_first <= next * tile && first_end >= std::min(keys, (next + 1) * tile);
      entries.push_back({next, whole ? Predicate::all : Predicate::interval});
    }
}

}  // namespace

TileList transposed(const TileList& by_query, int32_t key_tiles) {
  TileList out;
  out.begin.assign(static_cast<size_t>(key_tiles) + 1, 0);
  for (const TileEntry& entry : by_query.entries) ++out.begin[static_cast<size_t>(entry.tile) + 1];
  for (size_t t = 0; t < static_cast<size_t>(key_tiles); ++t) out.begin[t + 1] += out.begin[t];
  out.entries.resize(by_query.entries.size());
  std::vector<int32_t> next(out.begin.begin(), out.begin.end() - 1);
  for (size_t t = 0; t + 1 < by_query.begin.size(); ++t)
    for (int32_t e = by_query.begin[t]; e < by_query.begin[t + 1]; ++e) {
      TileEntry entry = by_query.entries[static_cast<size_t>(e)];
      const int32_t at = next[static_cast<size_t>(entry.tile)]++;
      entry.tile = static_cast<int32_t>(t);
      out.entries[static_cast<size_t>(at)] = entry;
    }
  return out;
}

size_t TilePlan::bytes() const {
  const auto of = [](const auto&... vectors) { return (... + (vectors.size() * sizeof(vectors[0]))); };
  return sizeof(TilePlan) + of(query_rows, key_rows, query_places, key_places, first_key, end_key, masks, by_query.begin, by_query.entries,
                               by_key.begin, by_key.entries);
}

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
  require(first.size() == end.size(), "a tile plan of intervals was given {} first keys and {} ends", first.size(), end.size());
  TilePlan plan;
  plan.queries = static_cast<int32_t>(first.size());
  plan.keys = keys;
  for (size_t i = 0; i < first.size(); ++i) {
    first[i] = std::clamp(first[i], 0, keys);
    end[i] = std::clamp(end[i], first[i], keys);
    plan.pairs += end[i] - first[i];
  }
  std::vector<std::pair<int32_t, int32_t>> spans;
  plan.by_query.begin.push_back(0);
  for (size_t q = 0; q < first.size(); q += tile) {
    meet(first, end, q, std::min(first.size(), q + tile), keys, spans, plan.by_query.entries);
    plan.by_query.begin.push_back(static_cast<int32_t>(plan.by_query.entries.size()));
  }
  plan.by_key = transposed(plan.by_query, TilePlan::tiles_of(keys));
  const auto partial = [](const TileEntry& e) { return e.predicate == Predicate::interval; };
  if (std::any_of(plan.by_query.entries.begin(), plan.by_query.entries.end(), partial)) {
    plan.first_key = std::move(first);
    plan.end_key = std::move(end);
  }
  return plan;
}

}  // namespace tapeformer
