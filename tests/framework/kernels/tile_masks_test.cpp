// SPDX-License-Identifier: Apache-2.0
// Plans made of masks against the pairs they stand for, written out one by one.
#include <algorithm>
#include <random>
#include <vector>

#include "framework/core/error.h"
#include "framework/kernels/tile_plan.h"
#include "tests/support/catch.h"
#include "tests/support/plans.h"

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

}  // namespace

TEST_CASE("plans of masks are what their pairs say") {
  std::mt19937 generator(5);
  for (const int32_t queries : {0, 1, 63, 64, 65, 200})
    for (const int32_t keys : {0, 1, 63, 64, 129})
      for (const double density : {0.0, 0.001, 0.3, 1.0}) {
        CAPTURE(queries, keys, density);
        Matrix want(static_cast<size_t>(queries), std::vector<bool>(static_cast<size_t>(keys)));
        for (auto& row : want)
          for (size_t j = 0; j < row.size(); ++j) row[j] = generator() < density * 4294967295.0 || density == 1;
        const auto allowed = [&](int32_t i, int32_t j) { return bool{want[static_cast<size_t>(i)][static_cast<size_t>(j)]}; };
        check(test::plan_of_pairs(queries, keys, allowed), want);
      }
}

TEST_CASE("equal masks are stored once") {
  const TilePlan plan = test::plan_of_pairs(6400, 6400, [](int32_t i, int32_t j) { return std::abs(i - j) <= 5 && (i + j) % 2 == 0; });
  CHECK(plan.by_query.entries.size() == 298);
  CHECK(plan.masks.size() == 3);
  CHECK(plan.bytes() < 20000);
}

TEST_CASE("a plan refuses tiles that do not fit") {
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
