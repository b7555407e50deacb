// SPDX-License-Identifier: Apache-2.0
// Dropout by a draw from the context; returns x itself when the draw is off.
#pragma once
#include "framework/autograd/context.h"

namespace tapeformer::ops {
Variable dropout(Context&, const Variable& x, const DropoutDraw&);
}
