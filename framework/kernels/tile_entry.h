// SPDX-License-Identifier: Apache-2.0
// One entry of a tile list, apart from the plan so that the vectorised kernels can read it without the standard library.
#pragma once
#include <cstdint>

namespace tapeformer {

enum class Predicate : uint8_t {
  all,       // every pair of the tile is allowed (the ends of the sequence are always cut)
  interval,  // key j is allowed for query i iff first_key[i] <= j < end_key[i]
  mask,      // the bits of a TileMask
};

struct TileEntry {
  int32_t tile;
  Predicate predicate;
  int32_t mask = 0;  // index into the plan's masks where the predicate is mask
};

// Bit j of keys[i]: query i of the query tile may use key j of the key tile. Always seen from the queries, in both lists of a plan.
struct TileMask {
  uint64_t keys[64];
};

}  // namespace tapeformer
