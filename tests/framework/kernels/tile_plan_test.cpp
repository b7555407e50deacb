// SPDX-License-Identifier: Apache-2.0
// Tile plans against the pairs they stand for, written out one by one.
#include "framework/kernels/tile_plan.h"

#include <algorithm>
#include <random>
#include <vector>

#include "framework/core/error.h"
#include "tests/support/catch.h"

using namespace tapeformer;

namespace {

constexpr int32_t tile = TilePlan::tile;

bool ascending(const TileList& list) {
  for (size_t t = 0; t + 1 < list.begin.size(); ++t)
    for (int32_t e = list.begin[t] + 1; e < list.begin[t + 1]; ++e)
      if (list.entries[static_cast<size_t>(e) - 1].tile >= list.entries[static_cast<size_t>(e)].tile) return false;
  return list.begin.front() == 0 && list.begin.back() == static_cast<int32_t>(list.entries.size());
}

// (query tile, key tile, predicate) of a list; `swapped` for the list by key.
std::vector<std::vector<int>> triples(const TileList& list, bool swapped) {
  std::vector<std::vector<int>> out;
  for (size_t t = 0; t + 1 < list.begin.size(); ++t)
    for (int32_t e = list.begin[t]; e < list.begin[t + 1]; ++e) {
      const TileEntry entry = list.entries[static_cast<size_t>(e)];
      const int own = static_cast<int>(t);
      out.push_back({swapped ? entry.tile : own, swapped ? own : entry.tile, static_cast<int>(entry.predicate)});
    }
  std::sort(out.begin(), out.end());
  return out;
}

// Builds a plan and compares it with the intervals it was made from.
TilePlan checked(int32_t keys, const std::vector<int32_t>& first, const std::vector<int32_t>& end) {
  const TilePlan plan = interval_plan(keys, first, end);
  const auto queries = static_cast<int32_t>(first.size());
  std::vector<std::vector<int>> want;
  int64_t pairs = 0;
  bool partial = false;
  for (int32_t q = 0; q < queries; q += tile)
    for (int32_t k = 0; k < keys; k += tile) {
      int64_t allowed = 0;
      for (int32_t i = q; i < std::min(queries, q + tile); ++i)
        for (int32_t j = k; j < std::min(keys, k + tile); ++j)
          allowed += first[static_cast<size_t>(i)] <= j && j < end[static_cast<size_t>(i)] ? 1 : 0;
      if (allowed == 0) continue;
      const bool whole = allowed == int64_t{std::min(tile, queries - q)} * std::min(tile, keys - k);
      want.push_back({q / tile, k / tile, static_cast<int>(whole ? Predicate::all : Predicate::interval)});
      pairs += allowed;
      partial = partial || !whole;
    }
  CHECK(plan.queries == queries);
  CHECK(plan.keys == keys);
  CHECK(plan.pairs == pairs);
  CHECK(plan.by_query.begin.size() == static_cast<size_t>(TilePlan::tiles_of(queries)) + 1);
  CHECK(plan.by_key.begin.size() == static_cast<size_t>(TilePlan::tiles_of(keys)) + 1);
  CHECK(ascending(plan.by_query));
  CHECK(ascending(plan.by_key));
  CHECK(triples(plan.by_query, false) == want);
  CHECK(triples(plan.by_key, true) == want);
  CHECK(plan.first_key.size() == (partial ? first.size() : 0));
  CHECK(plan.end_key.size() == plan.first_key.size());
  return plan;
}

}  // namespace

TEST_CASE("a full plan has every pair of tiles") {
  for (const int32_t queries : {0, 1, 64, 65, 200})
    for (const int32_t keys : {0, 1, 63, 128, 129}) {
      const TilePlan plan = full_plan(queries, keys);
      CHECK(plan.pairs == int64_t{queries} * keys);
      CHECK(triples(plan.by_query, false).size() == static_cast<size_t>(TilePlan::tiles_of(queries) * TilePlan::tiles_of(keys)));
      CHECK(triples(plan.by_query, false) == triples(plan.by_key, true));
      CHECK(plan.first_key.empty());
    }
}

TEST_CASE("interval plans of bands and blocks are what their pairs say") {
  for (const int n : {1, 63, 64, 65, 130, 300})
    for (const int reach : {0, 1, 63, 64, 200}) {
      std::vector<int32_t> first, end, block_first, block_end;
      const int block = reach + 1;
      for (int i = 0; i < n; ++i) {
        first.push_back(i - reach);
        end.push_back(i + reach / 2 + 1);
        block_first.push_back((i / block - 1) * block);
        block_end.push_back((i / block + 2) * block);
      }
      CAPTURE(n, reach);
      checked(n, first, end);
      checked(n, block_first, block_end);
    }
}

TEST_CASE("interval plans of any intervals, empty and disjoint ones too, are what their pairs say") {
  std::mt19937 generator(3);
  for (int round = 0; round < 20; ++round) {
    const int n = std::uniform_int_distribution<int>(1, 300)(generator), keys = std::uniform_int_distribution<int>(1, 500)(generator);
    std::uniform_int_distribution<int32_t> place(-20, keys + 20), length(-5, round % 2 ? 10 : keys);
    std::vector<int32_t> first, end;
    for (int i = 0; i < n; ++i) {
      first.push_back(place(generator));
      end.push_back(first.back() + length(generator));
    }
    CAPTURE(n, keys, round);
    checked(keys, first, end);
  }
}

TEST_CASE("an interval plan that allows everything is the full plan") {
  const TilePlan plan = checked(130, std::vector<int32_t>(70, -5), std::vector<int32_t>(70, 1000));
  CHECK(triples(plan.by_query, false) == triples(full_plan(70, 130).by_query, false));
}

TEST_CASE("an interval plan without rows or without keys is empty") {
  CHECK(checked(100, {}, {}).by_query.entries.empty());
  CHECK(checked(0, {0, 0}, {5, 5}).by_query.entries.empty());
  CHECK(checked(100, {50, 3}, {50, 2}).pairs == 0);
}

TEST_CASE("a band over a million rows is planned in a moment") {
  const int n = 1 << 20;
  std::vector<int32_t> first, end;
  for (int i = 0; i < n; ++i) {
    first.push_back(i - 64);
    end.push_back(i + 65);
  }
  const TilePlan plan = interval_plan(n, first, end);  // all pairs of tiles would be 2.7e8
  CHECK(plan.by_query.entries.size() == 3 * static_cast<size_t>(n / tile) - 2);
}

TEST_CASE("an interval plan refuses lists of different lengths") { CHECK_THROWS_AS(interval_plan(10, {0, 0}, {1}), Error); }
