// SPDX-License-Identifier: Apache-2.0
#include "framework/ops/reshape.h"

namespace tapeformer::ops {

Variable reshape(Context& ctx, const Variable& x, Shape shape) {
  require(x.value.contiguous() && x.value.count() == shape.count(), "reshape: {}{} as {}", x.value.contiguous() ? "" : "a strided ",
          x.value.shape().text(), shape.text());
  Variable y{x.value.reshaped(shape)};
  if (ctx.records(x))
    y.node = ctx.tape->record("reshape", [node = x.node, old = x.value.shape()](Tape& tape, const Tensor& gradient) {
      tape.add_gradient(node, gradient.reshaped(old));
    });
  return y;
}

}  // namespace tapeformer::ops
