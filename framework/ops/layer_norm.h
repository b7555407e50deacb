// SPDX-License-Identifier: Apache-2.0
// LayerNorm of each row of x [M,C].
#pragma once
#include "framework/ops/linear.h"

namespace tapeformer::ops {
Variable layer_norm(Context&, const Variable& x, const NormParameters&);
}
