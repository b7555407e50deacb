// SPDX-License-Identifier: Apache-2.0
// What the makers of plans share.
#pragma once
#include "framework/kernels/tile_plan.h"

namespace tapeformer {

// The same pairs seen from the key tiles, by counting; query tiles come out ascending.
TileList transposed(const TileList& by_query, int32_t key_tiles);

}  // namespace tapeformer
