// SPDX-License-Identifier: Apache-2.0
// z = x + y, equal shapes.
#pragma once
#include "framework/autograd/context.h"

namespace tapeformer::ops {
Variable add(Context&, const Variable& x, const Variable& y);
// x + factor y; losses [1] too.
Variable add(Context&, const Variable& x, const Variable& y, double factor);
}
