// SPDX-License-Identifier: Apache-2.0
// The feed-forward half of an encoder layer, fused: residual + drop(down(drop(f(up(norm(x)))))).
#pragma once
#include "framework/ops/linear.h"
#include "framework/ops/activation.h"

namespace tapeformer::ops {

struct FeedForwardParameters {
  const NormParameters* norm = nullptr;  // LayerNorm at the entrance, or none
  Parameter* up;                         // [F,C]
  Parameter* up_bias;                    // [F] or null
  Parameter* down;                       // [C,F]
  Parameter* down_bias;                  // [C] or null
  Activation activation;
  DropoutDraw dropout_in, dropout_out;
};
// Equal to layer_norm, linear, activation, dropout, linear, dropout, add.
Variable feed_forward(Context&, const FeedForwardParameters&, const Variable& x, const Variable& residual);

}  // namespace tapeformer::ops
