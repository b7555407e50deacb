// SPDX-License-Identifier: Apache-2.0
// Plans of hashing rounds against the definition, pair by pair.
#include "models/attention/hash_rounds.h"

#include "framework/core/random.h"
#include "tests/support/catch.h"

using namespace tapeformer;

namespace {

std::vector<std::vector<int32_t>> random_codes(int rounds, int32_t n, int32_t buckets) {
  const Draw draw{3, 0, 0};
  std::vector<std::vector<int32_t>> codes(static_cast<size_t>(rounds));
  for (int r = 0; r < rounds; ++r)
    for (int32_t i = 0; i < n; ++i)
      codes[static_cast<size_t>(r)].push_back(
          static_cast<int32_t>(draw.word(static_cast<uint32_t>(r), static_cast<uint32_t>(i)) % static_cast<uint32_t>(buckets)));
  return codes;
}

// How many rounds let i see j; j == i is not asked.
int rounds_of(const models::HashPattern& p, const std::vector<std::vector<int32_t>>& codes, int32_t i, int32_t j) {
  int count = 0;
  for (const std::vector<int32_t>& code : codes) {
    const auto chunk = [&](int32_t at) {
      int rank = 0;
      for (size_t o = 0; o < code.size(); ++o)
        rank += code[o] < code[static_cast<size_t>(at)] || (code[o] == code[static_cast<size_t>(at)] && static_cast<int32_t>(o) < at);
      return rank / p.chunk;
    };
    const int away = chunk(j) - chunk(i);
    count += away >= -p.before && away <= p.after && (!p.same_bucket_only || code[static_cast<size_t>(i)] == code[static_cast<size_t>(j)]);
  }
  return count;
}

// By rows: how many of the plans have the pair.
std::vector<int> counts(const std::vector<TilePlan>& plans, int32_t n) {
  std::vector<int> out(static_cast<size_t>(n) * static_cast<size_t>(n));
  for (const TilePlan& plan : plans)
    for (int32_t q = 0; q < plan.queries; ++q) {
      const auto t = static_cast<size_t>(q / TilePlan::tile);
      for (int32_t e = plan.by_query.begin[t]; e < plan.by_query.begin[t + 1]; ++e) {
        const TileEntry& entry = plan.by_query.entries[static_cast<size_t>(e)];
        for (int32_t k = entry.tile * TilePlan::tile; k < std::min(plan.keys, (entry.tile + 1) * TilePlan::tile); ++k)
          out[static_cast<size_t>(plan.query_row(q) * n + plan.key_row(k))] += plan.allows(entry, q, k);
      }
    }
  return out;
}

void check(const models::HashPattern& pattern, int rounds, int32_t n, int32_t buckets) {
  INFO(rounds << " rounds of " << n << " rows in " << buckets << " buckets, chunks of " << pattern.chunk);
  const auto codes = random_codes(rounds, n, buckets);
  const std::vector<std::span<const int32_t>> spans(codes.begin(), codes.end());
  const std::vector<TilePlan> plans = models::hash_plans(pattern, spans, buckets);
  REQUIRE(plans.size() == static_cast<size_t>(rounds));
  const std::vector<int> have = counts(plans, n);
  for (int32_t i = 0; i < n; ++i) {
    int others = 0, wrong = 0;
    for (int32_t j = 0; j < n; ++j) {
      if (j == i) continue;
      const int in_rounds = rounds_of(pattern, codes, i, j);
      others += in_rounds;
      wrong += have[static_cast<size_t>(i * n + j)] != (pattern.dedup ? std::min(1, in_rounds) : in_rounds);
    }
    CHECK(wrong == 0);
    CHECK(have[static_cast<size_t>(i * n + i)] == (others == 0));
  }
}

}  // namespace

TEST_CASE("plans of hashing rounds have each pair once, or as often as rounds have it", "[hash_rounds]") {
  for (const bool dedup : {true, false})
    for (const bool same_bucket : {false, true}) {
      check({.chunk = 64, .same_bucket_only = same_bucket, .dedup = dedup}, 3, 200, 6);
      check({.chunk = 7, .before = 0, .after = 2, .same_bucket_only = same_bucket, .dedup = dedup}, 2, 100, 9);
      check({.chunk = 1, .before = 0, .after = 0, .same_bucket_only = same_bucket, .dedup = dedup}, 2, 5, 2);
      check({.chunk = 100, .same_bucket_only = same_bucket, .dedup = dedup}, 2, 66, 4);
      check({.chunk = 3, .before = 2, .after = 0, .same_bucket_only = same_bucket, .dedup = dedup}, 4, 65, 64);
      check({.chunk = 4, .same_bucket_only = same_bucket, .dedup = dedup}, 2, 1, 4);
      check({.chunk = 4, .same_bucket_only = same_bucket, .dedup = dedup}, 2, 0, 4);
    }
}

TEST_CASE("pairs of hashing rounds grow with the rows", "[hash_rounds]") {
  for (const int32_t n : {1000, 2000}) {
    const auto codes = random_codes(2, n, 32);
    const std::vector<std::span<const int32_t>> spans(codes.begin(), codes.end());
    int64_t pairs = 0;
    for (const TilePlan& plan : models::hash_plans({.chunk = 32}, spans, 32)) pairs += plan.pairs;
    CHECK(pairs <= int64_t{2} * 96 * n);
    CHECK(pairs > int64_t{2} * 80 * n);
  }
}
