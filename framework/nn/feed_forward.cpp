// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/feed_forward.h"

namespace tapeformer::nn {

Variable FeedForward::forward(Context& context, const Variable& x, LayerNorm* norm, const Variable& residual, double residual_dropout,
                              const Packing& packing) {
  const ops::NormParameters norm_parameters = norm ? norm->parameters() : ops::NormParameters{};
  return ops::feed_forward(context,
                           {.norm = norm ? &norm_parameters : nullptr,
                            .up = &up.weight,
                            .up_bias = &up.bias,
                            .down = &down.weight,
                            .down_bias = &down.bias,
                            .activation = settings.activation,
                            .dropout_in = context.dropout(settings.dropout, "dropout", name + ".inner", packing),
                            .dropout_out = context.dropout(residual_dropout, "dropout", name, packing)},
                           x, residual);
}

}  // namespace tapeformer::nn
