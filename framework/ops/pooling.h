// SPDX-License-Identifier: Apache-2.0
// [T,C] -> [B,C]: one row for each sequence.
#pragma once
#include "framework/autograd/context.h"
#include "framework/kernels/pooling.h"

namespace tapeformer::ops {
Variable pooling(Context&, Pooling, const Variable& x, const Packing&);
}
