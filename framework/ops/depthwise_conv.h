// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution along positions, added to what stands beside it.
#pragma once
#include "framework/autograd/context.h"

namespace tapeformer::ops {

// residual + y [T,C], y_i = sum over t of weight[h,t] x_{i + t - (taps - 1) / 2} in the columns of head h, zeros beyond each sequence.
// weight [H,taps], taps odd, H divides C.
Variable depthwise_conv(Context&, const Variable& x, Parameter& weight, const Packing&, const Variable& residual);

}  // namespace tapeformer::ops
