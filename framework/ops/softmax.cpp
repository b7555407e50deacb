// SPDX-License-Identifier: Apache-2.0
// Softmax: forward and backward.
#include "framework/ops/softmax.h"

#include "framework/kernels/softmax.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {

Variable softmax(Context& ctx, const Variable& x) {
  check_matrix(ctx, "softmax", "x", x.value);
  require(x.value.shape()[1] > 0, "softmax: a row of no columns");
  const ProfileScope profile(ctx, "softmax", [&] { return pass_work(x.value, {5, 2}, {4, 3}); });
  Variable y{Tensor(ctx.dtype, x.value.shape())};
  dispatch(ctx.dtype,
           [&]<class T>(T) { kernels::launch<kernels::SoftmaxForward, T>(ctx.on, x.value.matrix<const T>(), y.value.matrix<T>()); });
  // dx = y (dy - sum(dy y)): the Jacobian diag(y) - y y' times dy.
  if (ctx.records(x))
    y.node = ctx.tape->record("softmax", [node = x.node, value = y.value](Tape& tape, const Tensor& gradient) {
      const GradientTarget dx = tape.gradient_target(node, gradient.dtype(), gradient.shape());
      dispatch(gradient.dtype(), [&]<class T>(T) {
        kernels::launch<kernels::SoftmaxBackward, T>(tape.execution(), gradient.matrix<const T>(), value.matrix<const T>(),
                                                     dx.tensor.matrix<T>(), dx.write);
      });
    });
  return y;
}

}  // namespace tapeformer::ops
