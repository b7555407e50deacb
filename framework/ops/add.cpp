// SPDX-License-Identifier: Apache-2.0
// The sum of two variables: forward and backward.
#include "framework/ops/add.h"

#include "framework/kernels/elementwise.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"

namespace tapeformer::ops {

Variable add(Context& ctx, const Variable& x, const Variable& y) {
  check_matrix(ctx, "add", "x", x.value);
  check_tensor("add", "y", y.value, ctx.dtype, x.value.shape());
  Variable z{Tensor(ctx.dtype, x.value.shape())};
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::Sum, T>(ctx.on, x.value.matrix<const T>(), y.value.matrix<const T>(), z.value.matrix<T>());
  });
  // dx = dy = dz, passed on without a copy.
  if (ctx.records(x) || ctx.records(y))
    z.node = ctx.tape->record("add", [x = x.node, y = y.node](Tape& tape, const Tensor& gradient) {
      tape.add_gradient(x, gradient);
      tape.add_gradient(y, gradient);
    });
  return z;
}

}  // namespace tapeformer::ops
