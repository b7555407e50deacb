// SPDX-License-Identifier: Apache-2.0
// Norms of heads: forward and backward.
#include "framework/ops/head_norm.h"

#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {

Variable head_norm(Context& ctx, const Variable& x, const kernels::HeadNormCall& call) {
  check_matrix(ctx, "head_norm", "x", x.value);
  const int heads = call.heads + call.kept;
  require(call.heads >= 1 && call.kept >= 0 && x.value.shape()[1] % heads == 0, "head_norm: {} columns do not divide into {} heads",
          x.value.shape()[1], heads);
  const ProfileScope profile(ctx, "head_norm", [&] { return pass_work(x.value, {6, 2}, {10, 3}); });
  Variable y{Tensor(ctx.dtype, x.value.shape())};
  dispatch(ctx.dtype,
           [&]<class T>(T) { kernels::launch<kernels::HeadNormForward, T>(ctx.on, call, x.value.matrix<const T>(), y.value.matrix<T>()); });
  if (ctx.records(x))
    y.node = ctx.tape->record("head_norm", [x, call](Tape& tape, const Tensor& gradient) {
      const GradientTarget dx = tape.gradient_target(x.node, gradient.dtype(), gradient.shape());
      dispatch(gradient.dtype(), [&]<class T>(T) {
        kernels::launch<kernels::HeadNormBackward, T>(tape.execution(), call, gradient.matrix<const T>(), x.value.matrix<const T>(),
                                                      dx.tensor.matrix<T>(), dx.write);
      });
    });
  return y;
}

}  // namespace tapeformer::ops
