// SPDX-License-Identifier: Apache-2.0
// The linear layer of simd/linear.h over all rows: what linear, norm_linear and linear_residual share.
#pragma once
#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/linear.h"

namespace tapeformer::kernels::cpu {

// y = residual + dropout(norm(x) W' + b) for all rows; call.panels is filled in here.
void linear_forward(const Execution& on, simd::LinearRows call, View<const float> w, int64_t rows);

struct LinearGradients {
  View<float> dw;
  float *dbias = nullptr, *dgain = nullptr, *dshift = nullptr;
};
// The gradients of all of it; call.panels is filled in here. Without dw and dbias and without norm only dx is computed.
void linear_backward(const Execution& on, simd::LinearBackwardRows call, View<const float> w, int64_t rows, const LinearGradients& g);

}  // namespace tapeformer::kernels::cpu
