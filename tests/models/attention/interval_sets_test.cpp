// SPDX-License-Identifier: Apache-2.0
// Runs of keys become exactly their pairs, seen from both sides.
#include "models/attention/interval_sets.h"

#include <set>

#include "framework/core/random.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using models::Interval;

namespace {

using Pairs = std::set<std::pair<int32_t, int32_t>>;

Pairs pairs_of(const TilePlan& plan, bool by_query) {
  Pairs out;
  const TileList& list = by_query ? plan.by_query : plan.by_key;
  for (int32_t t = 0; t + 1 < static_cast<int32_t>(list.begin.size()); ++t)
    for (int32_t e = list.begin[static_cast<size_t>(t)]; e < list.begin[static_cast<size_t>(t) + 1]; ++e) {
      const TileEntry& entry = list.entries[static_cast<size_t>(e)];
      const int32_t q = by_query ? t : entry.tile, k = by_query ? entry.tile : t;
      for (int32_t i = q * 64; i < std::min(plan.queries, q * 64 + 64); ++i)
        for (int32_t j = k * 64; j < std::min(plan.keys, k * 64 + 64); ++j)
          if (plan.allows(entry, i, j)) out.emplace(i, j);
    }
  return out;
}

}  // namespace

TEST_CASE("random runs of keys", "[interval_sets]") {
  const Draw draw{random_key(1, "test", "runs"), no_sample, 0};
  for (const auto& [queries, keys] : {std::pair{1, 1}, {64, 64}, {65, 130}, {200, 63}, {0, 5}, {5, 0}}) {
    std::vector<std::vector<Interval>> runs(static_cast<size_t>(queries));
    Pairs expected;
    for (int32_t i = 0; i < queries; ++i)
      for (uint32_t r = 0; r < draw.word(static_cast<uint32_t>(i), 0) % 4; ++r) {
        const auto at = static_cast<int32_t>(draw.word(static_cast<uint32_t>(i), 2 * r + 1) % 150) - 10;
        const Interval run{at, at + static_cast<int32_t>(draw.word(static_cast<uint32_t>(i), 2 * r + 2) % 100)};
        runs[static_cast<size_t>(i)].push_back(run);
        for (int32_t j = std::max(0, run.first); j < std::min<int32_t>(run.end, keys); ++j) expected.emplace(i, j);
      }
    const TilePlan plan = models::interval_sets_plan(queries, keys, [&](int32_t i) { return runs[static_cast<size_t>(i)]; });
    CHECK(plan.pairs == static_cast<int64_t>(expected.size()));
    CHECK(pairs_of(plan, true) == expected);
    CHECK(pairs_of(plan, false) == expected);
  }
}

TEST_CASE("a whole tile needs no mask, and equal tiles share theirs", "[interval_sets]") {
  const TilePlan plan = models::interval_sets_plan(640, 640, [](int32_t i) { return std::vector<Interval>{{0, 64}, {i, i + 1}}; });
  CHECK(plan.by_query.entries[0].predicate == Predicate::all);
  CHECK(plan.masks.size() == 1);
}
