// SPDX-License-Identifier: Apache-2.0
// The pattern of attention by locality-sensitive hashing (Kitaev, Kaiser, Levskaya 2020, 2001.04451): in each round rows are sorted by
// their bucket and cut into chunks, and a row sees the chunks around its own.
#pragma once
#include <span>
#include <vector>

#include "framework/kernels/tile_plan.h"

namespace tapeformer::models {

struct HashPattern {
  int chunk = 64, before = 1, after = 1;
  bool same_bucket_only = false;
  bool dedup = true;  // a pair that several rounds have counts once, in the first of them; else as often
};

// codes[r][i] is the bucket of row i in round r, 0 .. buckets - 1. One plan a round, over rows sorted by (bucket, row). A row does not see
// itself, unless there is nothing else that it sees in any round.
std::vector<TilePlan> hash_plans(const HashPattern&, std::span<const std::span<const int32_t>> codes, int32_t buckets);

}  // namespace tapeformer::models
