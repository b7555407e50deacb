// SPDX-License-Identifier: Apache-2.0
// The sum of two variables: forward and backward.
#include "framework/ops/add.h"

#include "framework/kernels/elementwise.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {

Variable add(Context& ctx, const Variable& x, const Variable& y) {
  check_matrix(ctx, "add", "x", x.value);
  check_tensor("add", "y", y.value, ctx.dtype, x.value.shape());
  const ProfileScope profile(ctx, "add", [&] { return pass_work(x.value, {1, 3}, {0, 0}); });
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

Variable add(Context& ctx, const Variable& x, const Variable& y, double factor) {
  check_tensor("add", "x", x.value, ctx.dtype, x.value.shape());
  check_tensor("add", "y", y.value, ctx.dtype, x.value.shape());
  const auto scaled = [factor](const Execution& on, const Tensor& t) {
    Tensor copy = t.clone();
    dispatch(t.dtype(), [&]<class T>(T) { kernels::launch<kernels::Scale, T>(on, static_cast<T>(factor), copy.matrix<T>()); });
    return copy;
  };
  Variable z{scaled(ctx.on, y.value)};
  dispatch(ctx.dtype, [&]<class T>(T) { kernels::launch<kernels::AddTo, T>(ctx.on, x.value.matrix<const T>(), z.value.matrix<T>()); });
  if (ctx.records(x) || ctx.records(y))
    z.node = ctx.tape->record("add", [x = x.node, y = y.node, scaled](Tape& tape, const Tensor& gradient) {
      tape.add_gradient(x, gradient);
      if (y != no_node) tape.add_gradient(y, scaled(tape.execution(), gradient));
    });
  return z;
}

}  // namespace tapeformer::ops
