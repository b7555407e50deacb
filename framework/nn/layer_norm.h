// SPDX-License-Identifier: Apache-2.0
// LayerNorm with gain and shift, named as PyTorch names them.
#pragma once
#include "framework/nn/init.h"
#include "framework/nn/visitor.h"
#include "framework/ops/layer_norm.h"

namespace tapeformer::nn {

struct LayerNorm {
  Parameter weight, bias;  // gain and shift [C]
  double epsilon;

  LayerNorm(const Builder& build, const std::string& name, int64_t channels, double epsilon)
      : weight(build.constant(name + ".weight", {channels}, 1)), bias(build.constant(name + ".bias", {channels}, 0)), epsilon(epsilon) {}
  ops::NormParameters parameters() { return {&weight, &bias, epsilon}; }
  Variable forward(Context& context, const Variable& x) { return ops::layer_norm(context, x, parameters()); }
  void visit(Visitor& visitor) {
    visitor.parameter(weight);
    visitor.parameter(bias);
  }
};

}  // namespace tapeformer::nn
