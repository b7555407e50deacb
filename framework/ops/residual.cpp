// SPDX-License-Identifier: Apache-2.0
// The gradient of y = residual + f(x).
#include "framework/ops/residual.h"

#include "framework/ops/gradient.h"

namespace tapeformer::ops {

ResidualTarget::ResidualTarget(Tape& tape, const Variable& x, int residual, const Tensor& gradient) {
  if (x.node != no_node && x.node == residual) {
    // dx = dy + f's part in one array: dy can't be it, since the kernel still reads dy.
    dx_ = {gradient.clone(), kernels::Write::add};
    node_ = x.node;
    return;
  }
  tape.add_gradient(residual, gradient);
  dx_ = target_or_scratch(tape, x);
}

void ResidualTarget::finish(Tape& tape) { tape.add_gradient(node_, std::move(dx_.tensor)); }

}  // namespace tapeformer::ops
