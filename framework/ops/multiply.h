// SPDX-License-Identifier: Apache-2.0
// Products element by element, and with a constant.
#pragma once
#include "framework/autograd/context.h"

namespace tapeformer::ops {

// x y, equal shapes [M,N].
Variable multiply(Context&, const Variable& x, const Variable& y);
// factor x.
Variable scale(Context&, const Variable& x, double factor);

}  // namespace tapeformer::ops
