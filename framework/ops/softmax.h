// SPDX-License-Identifier: Apache-2.0
// Softmax over the columns of each row.
#pragma once
#include "framework/autograd/context.h"

namespace tapeformer::ops {
Variable softmax(Context&, const Variable& x);
}
