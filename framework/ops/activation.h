// SPDX-License-Identifier: Apache-2.0
// Elementwise activation functions.
#pragma once
#include "framework/autograd/context.h"
#include "framework/kernels/activation.h"

namespace tapeformer::ops {
Variable activation(Context&, Activation, const Variable& x);
}
