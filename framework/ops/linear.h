// SPDX-License-Identifier: Apache-2.0
// y[M,N] = x[M,K] W' + b, and the two fused forms that encoder layers use.
#pragma once
#include "framework/autograd/context.h"

namespace tapeformer::ops {

// weight [N,K], bias [N] or null.
Variable linear(Context&, const Variable& x, Parameter& weight, Parameter* bias);

struct NormParameters {
  Parameter* gain;   // [C]
  Parameter* shift;  // [C]
  double epsilon;
};

// LayerNorm(x) W' + b in one pass; equal to layer_norm then linear.
Variable norm_linear(Context&, const Variable& x, const NormParameters&, Parameter& weight, Parameter* bias);

// residual + dropout(x W' + b) in one pass; equal to linear, dropout, add.
Variable linear_residual(Context&, const Variable& x, Parameter& weight, Parameter* bias, const DropoutDraw&, const Variable& residual);

}  // namespace tapeformer::ops
