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
  Variable z{x.value.clone()};
  const auto add_scaled = [factor](const Execution& on, const Tensor& from, const GradientTarget& to) {
    dispatch(from.dtype(), [&]<class T>(T) {
      kernels::launch<kernels::Scaled, T>(on, static_cast<T>(factor), from.matrix<const T>(), to.tensor.matrix<T>(), to.write);
    });
  };
  add_scaled(ctx.on, y.value, {z.value, kernels::Write::add});
  // dx = dz, dy = factor dz.
  if (ctx.records(x) || ctx.records(y))
    z.node = ctx.tape->record("add", [x = x.node, y = y.node, add_scaled](Tape& tape, const Tensor& gradient) {
      tape.add_gradient(x, gradient);
      if (y != no_node) add_scaled(tape.execution(), gradient, tape.gradient_target(y, gradient.dtype(), gradient.shape()));
    });
  return z;
}

}  // namespace tapeformer::ops
