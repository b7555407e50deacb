// SPDX-License-Identifier: Apache-2.0
// One entry of a tile list, apart from the plan so that the vectorised kernels can read it without the standard library.
#pragma once
#include <cstdint>

namespace tapeformer {

enum class Predicate : uint8_t {
  all,       // every pair of the tile is allowed (the ends of the sequence are always cut)
  interval,  // key j is allowed for query i iff first_key[i] <= j < end_key[i]
};

struct TileEntry {
  int32_t tile;
  Predicate predicate;
};

}  // namespace tapeformer
