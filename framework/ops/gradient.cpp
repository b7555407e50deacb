// SPDX-License-Identifier: Apache-2.0
// Where backward closures put gradients.
#include "framework/ops/gradient.h"

namespace tapeformer::ops {

Tensor parameter_gradient(Parameter* parameter) {
  if (!parameter || !parameter->trainable) return {};
  if (!parameter->gradient.defined()) parameter->gradient = Tensor::zeros(parameter->value.dtype(), parameter->value.shape());
  return parameter->gradient;
}

Tensor parameter_gradient_or_scratch(Parameter& parameter) {
  if (parameter.trainable) return parameter_gradient(&parameter);
  return Tensor::zeros(parameter.value.dtype(), parameter.value.shape());
}

GradientTarget target_or_scratch(Tape& tape, const Variable& x) {
  if (x.node != no_node) return tape.gradient_target(x.node, x.value.dtype(), x.value.shape());
  return {Tensor(x.value.dtype(), x.value.shape()), kernels::Write::overwrite};
}

}  // namespace tapeformer::ops
