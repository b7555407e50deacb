// SPDX-License-Identifier: Apache-2.0
// The same elements in the same order under another shape.
#pragma once
#include "framework/autograd/context.h"

namespace tapeformer::ops {
// Shares the elements; x is contiguous.
Variable reshape(Context&, const Variable& x, Shape);
}  // namespace tapeformer::ops
