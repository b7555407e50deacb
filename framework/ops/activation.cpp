// SPDX-License-Identifier: Apache-2.0
// Activations: forward and backward.
#include "framework/ops/activation.h"

#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {

Variable activation(Context& ctx, Activation f, const Variable& x) {
  check_matrix(ctx, "activation", "x", x.value);
  if (f == Activation::none) return x;
  const ProfileScope profile(ctx, "activation", [&] { return activation_work(x.value, f); });
  Variable y{Tensor(ctx.dtype, x.value.shape())};
  dispatch(ctx.dtype,
           [&]<class T>(T) { kernels::launch<kernels::ActivationForward, T>(ctx.on, f, x.value.matrix<const T>(), y.value.matrix<T>()); });
  // dx = f'(x) dy; Hendrycks, Gimpel 2016 (1606.08415) for both GELUs.
  if (ctx.records(x))
    y.node = ctx.tape->record("activation", [f, x](Tape& tape, const Tensor& gradient) {
      Tensor dx(gradient.dtype(), gradient.shape());
      dispatch(gradient.dtype(), [&]<class T>(T) {
        kernels::launch<kernels::ActivationBackward, T>(tape.execution(), f, x.value.matrix<const T>(), gradient.matrix<const T>(),
                                                        dx.matrix<T>());
      });
      tape.add_gradient(x.node, std::move(dx));
    });
  return y;
}

}  // namespace tapeformer::ops
