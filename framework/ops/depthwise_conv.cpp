// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution: checks, forward and backward.
#include "framework/ops/depthwise_conv.h"

#include "framework/kernels/depthwise_conv.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {

Variable depthwise_conv(Context& ctx, const Variable& x, Parameter& weight, const Packing& packing, const Variable& residual) {
  check_matrix(ctx, "depthwise_conv", "x", x.value);
  check_rows("depthwise_conv", x.value, packing);
  check_tensor("depthwise_conv", "residual", residual.value, ctx.dtype, x.value.shape());
  const Shape& shape = weight.value.shape();
  check_parameter(ctx, "depthwise_conv", weight, shape);
  require(shape.rank() == 2 && shape[1] % 2 == 1 && shape[0] >= 1 && x.value.shape()[1] % shape[0] == 0,
          "depthwise_conv: kernels {} for {} columns, expected [heads, an odd number of taps]", shape.text(), x.value.shape()[1]);
  const double taps = static_cast<double>(shape[1]);
  const ProfileScope profile(ctx, "depthwise_conv", [&] { return pass_work(x.value, {2 * taps, 3}, {4 * taps, 3}); });
  Variable y{residual.value.clone()};
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::DepthwiseConv, T>(ctx.on, packing, x.value.matrix<const T>(), weight.value.matrix<const T>(), false,
                                               y.value.matrix<T>(), kernels::Write::add);
  });
  // dx is the convolution of dy with the reversed kernel.
  if (ctx.records(x) || ctx.records(residual) || ctx.records(weight))
    y.node = ctx.tape->record("depthwise_conv", [x, &weight, &packing, residual = residual.node](Tape& tape, const Tensor& gradient) {
      const Execution& on = tape.execution();
      dispatch(gradient.dtype(), [&]<class T>(T) {
        if (const Tensor dw = parameter_gradient(&weight); dw.defined())
          kernels::launch<kernels::DepthwiseConvWeight, T>(on, packing, x.value.matrix<const T>(), gradient.matrix<const T>(),
                                                           dw.matrix<T>());
        if (x.node == no_node) return;
        const GradientTarget dx = tape.gradient_target(x.node, gradient.dtype(), gradient.shape());
        kernels::launch<kernels::DepthwiseConv, T>(on, packing, gradient.matrix<const T>(), weight.value.matrix<const T>(), true,
                                                   dx.tensor.matrix<T>(), dx.write);
      });
      tape.add_gradient(residual, gradient);
    });
  return y;
}

}  // namespace tapeformer::ops
