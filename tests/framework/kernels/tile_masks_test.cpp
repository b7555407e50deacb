// SPDX-License-Identifier: Apache-2.0
// Plans made of masks and of lists against the pairs they stand for, written out one by one.
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "framework/core/error.h"
#include "framework/kernels/tile_plan.h"
#include "tests/support/catch.h"

using namespace tapeformer;

namespace {

constexpr int32_t tile = TilePlan::tile;
using Matrix = std::vector<std::vector<bool>>;  // [queries][keys]

// The pairs that one of the two lists stands for.
Matrix pairs_of(const TilePlan& plan, bool by_key) {
  Matrix out(static_cast<size_t>(plan.queries), std::vector<bool>(static_cast<size_t>(plan.keys)));
  const TileList& list = by_key ? plan.by_key : plan.by_query;
  REQUIRE(static_cast<int32_t>(list.begin.size()) == TilePlan::tiles_of(by_key ? plan.keys : plan.queries) + 1);
  for (size_t t = 0; t + 1 < list.begin.size(); ++t)
    for (int32_t e = list.begin[t]; e < list.begin[t + 1]; ++e) {
      const TileEntry& entry = list.entries[static_cast<size_t>(e)];
      if (e > list.begin[t]) CHECK(list.entries[static_cast<size_t>(e) - 1].tile < entry.tile);
      const int32_t q = by_key ? entry.tile : static_cast<int32_t>(t), k = by_key ? static_cast<int32_t>(t) : entry.tile;
      int64_t some = 0, all = 0, wrong = 0;
      for (int32_t i = q * tile; i < std::min(plan.queries, (q + 1) * tile); ++i)
        for (int32_t j = k * tile; j < std::min(plan.keys, (k + 1) * tile); ++j, ++all) {
          const bool allowed =
              entry.predicate == Predicate::all || plan.masks.at(static_cast<size_t>(entry.mask)).keys[i % tile] >> (j % tile) % 64 & 1;
          wrong += plan.allows(entry, i, j) == allowed ? 0 : 1;
          out[static_cast<size_t>(i)][static_cast<size_t>(j)] = allowed;
          some += allowed ? 1 : 0;
        }
      CHECK(wrong == 0);
      CHECK(some > 0);
      CHECK((some == all) == (entry.predicate == Predicate::all));
    }
  return out;
}

void check(const TilePlan& plan, const Matrix& want) {
  int64_t pairs = 0;
  for (const auto& row : want) pairs += std::count(row.begin(), row.end(), true);
  CHECK(plan.pairs == pairs);
  CHECK(plan.queries == static_cast<int32_t>(want.size()));
  CHECK(pairs_of(plan, false) == want);
  CHECK(pairs_of(plan, true) == want);
}

TilePlan from_masks(const Matrix& want, int32_t keys) {
  std::vector<int32_t> tiles(static_cast<size_t>(TilePlan::tiles_of(keys)));
  std::iota(tiles.rbegin(), tiles.rend(), 0);          // any order
  if (!tiles.empty()) tiles.push_back(tiles.front());  // a candidate may be named twice
  return masked_plan(
      static_cast<int32_t>(want.size()), keys, [&](int32_t) { return tiles; },
      [&](int32_t i, int32_t j) { return bool{want[static_cast<size_t>(i)][static_cast<size_t>(j)]}; });
}

TilePlan from_lists(const Matrix& want, int32_t keys) {
  std::vector<int32_t> begin{0}, list;
  for (const auto& row : want) {
    for (int32_t j = 0; j < keys; ++j)
      if (row[static_cast<size_t>(j)]) list.push_back(j);
    begin.push_back(static_cast<int32_t>(list.size()));
  }
  return list_plan(keys, begin, list);
}

}  // namespace

TEST_CASE("plans of masks and of lists are what their pairs say") {
  std::mt19937 generator(5);
  for (const int32_t queries : {0, 1, 63, 64, 65, 200})
    for (const int32_t keys : {0, 1, 63, 64, 129})
      for (const double density : {0.0, 0.001, 0.3, 1.0}) {
        CAPTURE(queries, keys, density);
        Matrix want(static_cast<size_t>(queries), std::vector<bool>(static_cast<size_t>(keys)));
        for (auto& row : want)
          for (size_t j = 0; j < row.size(); ++j) row[j] = generator() < density * 4294967295.0 || density == 1;
        check(from_masks(want, keys), want);
        check(from_lists(want, keys), want);
      }
}

TEST_CASE("a candidate that is not named is not asked for") {
  int64_t outside = 0;
  const TilePlan plan = masked_plan(
      200, 200, [](int32_t t) { return std::vector<int32_t>{t}; },
      [&](int32_t i, int32_t j) {
        outside += i / tile == j / tile ? 0 : 1;
        return true;
      });
  CHECK(outside == 0);
  CHECK(plan.pairs == 3 * tile * tile + 8 * 8);
  CHECK(plan.masks.empty());
}

TEST_CASE("equal masks are stored once") {
  const auto band = [](int32_t t) {
    std::vector<int32_t> out;
    for (int32_t u = std::max(0, t - 1); u <= std::min(99, t + 1); ++u) out.push_back(u);
    return out;
  };
  const TilePlan plan = masked_plan(6400, 6400, band, [](int32_t i, int32_t j) { return std::abs(i - j) <= 5 && (i + j) % 2 == 0; });
  CHECK(plan.by_query.entries.size() == 298);
  CHECK(plan.masks.size() == 3);
  CHECK(plan.bytes() < 20000);
}

TEST_CASE("a plan of short lists over a million keys is made in a moment") {
  const int32_t n = 1 << 20;  // all pairs of tiles would be 2.7e8
  std::vector<int32_t> begin{0}, list;
  for (int32_t i = 0; i < n; ++i) {
    if (i % 64 == 0) list.push_back(static_cast<int32_t>(int64_t{i} * 7919 % n));
    begin.push_back(static_cast<int32_t>(list.size()));
  }
  const TilePlan plan = list_plan(n, begin, list);
  CHECK(plan.pairs == n / 64);
  CHECK(plan.by_query.entries.size() == static_cast<size_t>(n / 64));
}

TEST_CASE("a plan refuses lists and tiles that do not fit") {
  const std::vector<int32_t> begin{0, 2};
  CHECK_THROWS_AS(list_plan(10, begin, std::vector<int32_t>{3, 3}), Error);
  CHECK_THROWS_AS(list_plan(10, begin, std::vector<int32_t>{3, 10}), Error);
  CHECK_THROWS_AS(list_plan(10, begin, std::vector<int32_t>{-1, 3}), Error);
  CHECK_THROWS_AS(list_plan(10, begin, std::vector<int32_t>{1}), Error);
  CHECK_THROWS_AS(list_plan(10, std::vector<int32_t>{0, 2, 1, 2}, std::vector<int32_t>{1, 2}), Error);
  CHECK_THROWS_AS(list_plan(10, std::vector<int32_t>{}, std::vector<int32_t>{}), Error);
  MaskedPlan plan(70, 70);
  CHECK_THROWS_AS(plan.add(2, TileMask{}), Error);
  CHECK_THROWS_AS(plan.add(-1, TileMask{}), Error);
  TileMask some{};
  some.keys[0] = 1;
  plan.add(1, some);
  CHECK_THROWS_AS(plan.add(1, some), Error);
  CHECK_THROWS_AS(plan.finish(), Error);
  plan.end_query_tile();
  plan.end_query_tile();
  CHECK_THROWS_AS(plan.add(0, some), Error);
  CHECK(plan.finish().pairs == 1);
}
