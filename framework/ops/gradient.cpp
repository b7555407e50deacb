// SPDX-License-Identifier: Apache-2.0
// Where backward closures put gradients.
#include "framework/ops/gradient.h"

#include <algorithm>

#include "framework/ops/in_blocks.h"

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

Tensor cleared_target(Tape& tape, int node, Dtype dtype, Shape shape) {
  if (node == no_node) return {};
  const GradientTarget target = tape.gradient_target(node, dtype, shape);
  if (target.write == kernels::Write::overwrite) clear(tape.execution(), target.tensor);
  return target.tensor;
}

void clear(const Execution& on, const Tensor& x) {
  constexpr int64_t bytes = 1 << 18;  // of a task
  if (x.count() == 0) return;
  const int64_t rows = x.shape()[0], row_bytes = static_cast<int64_t>(x.bytes()) / rows;
  in_blocks(on, rows, std::max<int64_t>(1, bytes / row_bytes),
            [&](int64_t first, int64_t last) { x.rows(first, last - first).fill_zero(); });
}

}  // namespace tapeformer::ops
