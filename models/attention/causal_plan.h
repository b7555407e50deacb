// SPDX-License-Identifier: Apache-2.0
// A plan cut down to the past.
#pragma once
#include "framework/kernels/tile_plan.h"

namespace tapeformer::models {

// The pairs of a plan whose key stands at its query's place, before it, or among the first `front` rows. Places are those by which dropout
// draws: of gathered rows too they count in the sequence.
TilePlan causal_plan(const TilePlan& plan, int32_t front);

}  // namespace tapeformer::models
