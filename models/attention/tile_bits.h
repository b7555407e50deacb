// SPDX-License-Identifier: Apache-2.0
// Rows of a tile's mask: a bit for each of its keys.
#pragma once
#include <cstdint>

#include "framework/kernels/tile_plan.h"

namespace tapeformer::models {

constexpr int32_t tile = TilePlan::tile;

// Bits first .. end - 1 of a tile's 64; of a range beyond the tile what lies in it.
inline uint64_t tile_bits(int32_t first, int32_t end) {
  const auto below = [](int32_t count) { return count <= 0 ? 0 : count >= tile ? ~uint64_t{0} : (uint64_t{1} << count) - 1; };
  return below(end) & ~below(first);
}

}  // namespace tapeformer::models
