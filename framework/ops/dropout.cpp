// SPDX-License-Identifier: Apache-2.0
// Dropout: forward and backward.
#include "framework/ops/dropout.h"

#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {

Variable dropout(Context& ctx, const Variable& x, const DropoutDraw& asked) {
  check_matrix(ctx, "dropout", "x", x.value);
  if (!asked.on()) return x;
  const DropoutDraw draw = ctx.records(x) ? asked.with_room(x.value.shape()[0], x.value.shape()[1]) : asked;
  const ProfileScope profile(ctx, "dropout", [&] { return pass_work(x.value, {1, 2}, {1, 2}); });
  Variable y{Tensor(ctx.dtype, x.value.shape())};
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::Dropout, T>(ctx.on, draw, x.value.matrix<const T>(), y.value.matrix<T>(), kernels::Write::overwrite);
  });
  // dx = mask dy / (1 - p); the mask is the forward's (Srivastava et al. 2014, jmlr.org/papers/v15/srivastava14a.html, in the inverted
  // form).
  if (ctx.records(x))
    y.node = ctx.tape->record("dropout", [draw = draw.after(), node = x.node](Tape& tape, const Tensor& gradient) {
      const GradientTarget dx = tape.gradient_target(node, gradient.dtype(), gradient.shape());
      dispatch(gradient.dtype(), [&]<class T>(T) {
        kernels::launch<kernels::Dropout, T>(tape.execution(), draw, gradient.matrix<const T>(), dx.tensor.matrix<T>(), dx.write);
      });
    });
  return y;
}

}  // namespace tapeformer::ops
