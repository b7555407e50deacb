// SPDX-License-Identifier: Apache-2.0
// Products element by element, and with a constant: forward and backward.
#include "framework/ops/multiply.h"

#include "framework/kernels/elementwise.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {

Variable multiply(Context& ctx, const Variable& x, const Variable& y) {
  check_matrix(ctx, "multiply", "x", x.value);
  check_tensor("multiply", "y", y.value, ctx.dtype, x.value.shape());
  const ProfileScope profile(ctx, "multiply", [&] { return pass_work(x.value, {1, 3}, {2, 5}); });
  Variable z{Tensor(ctx.dtype, x.value.shape())};
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::Multiply, T>(ctx.on, x.value.matrix<const T>(), y.value.matrix<const T>(), z.value.matrix<T>(),
                                          kernels::Write::overwrite);
  });
  // dx = dz y, dy = dz x.
  if (ctx.records(x) || ctx.records(y))
    z.node = ctx.tape->record("multiply", [x, y](Tape& tape, const Tensor& gradient) {
      const auto pull = [&](const Variable& to, const Variable& other) {
        if (to.node == no_node) return;
        const GradientTarget d = tape.gradient_target(to.node, gradient.dtype(), gradient.shape());
        dispatch(gradient.dtype(), [&]<class T>(T) {
          kernels::launch<kernels::Multiply, T>(tape.execution(), gradient.matrix<const T>(), other.value.matrix<const T>(),
                                                d.tensor.matrix<T>(), d.write);
        });
      };
      pull(x, y);
      pull(y, x);
    });
  return z;
}

Variable scale(Context& ctx, const Variable& x, double factor) {
  check_matrix(ctx, "scale", "x", x.value);
  const ProfileScope profile(ctx, "scale", [&] { return pass_work(x.value, {1, 2}, {1, 2}); });
  Variable y{Tensor(ctx.dtype, x.value.shape())};
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::Scaled, T>(ctx.on, static_cast<T>(factor), x.value.matrix<const T>(), y.value.matrix<T>(),
                                        kernels::Write::overwrite);
  });
  // dx = factor dy.
  if (ctx.records(x))
    y.node = ctx.tape->record("scale", [node = x.node, factor](Tape& tape, const Tensor& gradient) {
      const GradientTarget d = tape.gradient_target(node, gradient.dtype(), gradient.shape());
      dispatch(gradient.dtype(), [&]<class T>(T) {
        kernels::launch<kernels::Scaled, T>(tape.execution(), static_cast<T>(factor), gradient.matrix<const T>(), d.tensor.matrix<T>(),
                                            d.write);
      });
    });
  return y;
}

}  // namespace tapeformer::ops
