// SPDX-License-Identifier: Apache-2.0
// A linear layer: weight [out, in] and bias [out].
#pragma once
#include "framework/nn/init.h"
#include "framework/nn/visitor.h"
#include "framework/ops/linear.h"

namespace tapeformer::nn {

struct Linear {
  Parameter weight, bias;

  Linear(const Builder& build, const std::string& name, int64_t in, int64_t out, double gain = 1);
  Variable forward(Context& context, const Variable& x) { return ops::linear(context, x, weight, &bias); }
  void visit(Visitor& visitor) {
    visitor.parameter(weight);
    visitor.parameter(bias);
  }
  int64_t in() const { return weight.value.shape()[1]; }
  int64_t out() const { return weight.value.shape()[0]; }
};

}  // namespace tapeformer::nn
