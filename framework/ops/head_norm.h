// SPDX-License-Identifier: Apache-2.0
// Rows of heads brought to one length.
#pragma once
#include "framework/autograd/context.h"
#include "framework/kernels/head_norm.h"

namespace tapeformer::ops {

// y = factor (x - c) / max(sqrt(mean of (x - c)^2 + epsilon), floor) in the columns of each head of x [M, (heads + kept) * D], c their
// mean where the settings say `centred`, else 0; the last `kept` heads stay as they are.
Variable head_norm(Context&, const Variable& x, const kernels::HeadNormCall&);

}  // namespace tapeformer::ops
