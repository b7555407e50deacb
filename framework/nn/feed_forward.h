// SPDX-License-Identifier: Apache-2.0
// The feed-forward half of an encoder layer: up, activation, dropout, down, dropout, residual, in one fused op.
#pragma once
#include "framework/nn/layer_norm.h"
#include "framework/nn/linear.h"
#include "framework/ops/feed_forward.h"

namespace tapeformer::nn {

struct FeedForwardSettings {
  int64_t dim = 0;  // inner width F
  Activation activation = Activation::gelu;
  double dropout = 0;  // after the activation
};

struct FeedForward {
  std::string name;
  Linear up, down;
  FeedForwardSettings settings;

  FeedForward(const Builder& build, const std::string& name, int64_t channels, const FeedForwardSettings& settings)
      : name(name),
        up(build, name + ".up", channels, settings.dim),
        down(build, name + ".down", settings.dim, channels),
        settings(settings) {}
  // residual + dropout(down(dropout(f(up(norm(x)))))); norm may be null; residual_dropout is the probability of the outer dropout.
  Variable forward(Context& context, const Variable& x, LayerNorm* norm, const Variable& residual, double residual_dropout,
                   const Packing& packing);
  void visit(Visitor& visitor) {
    up.visit(visitor);
    down.visit(visitor);
  }
};

}  // namespace tapeformer::nn
