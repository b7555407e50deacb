// SPDX-License-Identifier: Apache-2.0
// LayerNorm: forward and backward.
#include "framework/ops/layer_norm.h"

#include "framework/kernels/layer_norm.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {

Variable layer_norm(Context& ctx, const Variable& x, const NormParameters& norm) {
  check_matrix(ctx, "layer_norm", "x", x.value);
  const int64_t rows = x.value.shape()[0], columns = x.value.shape()[1];
  check_parameter(ctx, "layer_norm", *norm.gain, {columns});
  check_parameter(ctx, "layer_norm", *norm.shift, {columns});
  const ProfileScope profile(ctx, "layer_norm", [&] { return pass_work(x.value, {8, 2}, {12, 3}); });
  Variable y{Tensor(ctx.dtype, x.value.shape())};
  const Tensor mean(ctx.dtype, {rows}), rstd(ctx.dtype, {rows});
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::LayerNormForward, T>(ctx.on, x.value.matrix<const T>(), norm.gain->value.data<T>(),
                                                  norm.shift->value.data<T>(), static_cast<T>(norm.epsilon), y.value.matrix<T>(),
                                                  mean.data<T>(), rstd.data<T>());
  });
  // With h = (x - mean) rstd and g = gain dy: dx = rstd (g - avg(g) - h avg(g h)), dgain = sum dy h, dshift = sum dy
  // (Ba, Kiros, Hinton 2016, 1607.06450, differentiated).
  if (ctx.records(x) || ctx.records(*norm.gain) || ctx.records(*norm.shift))
    y.node = ctx.tape->record("layer_norm", [x, norm, mean, rstd](Tape& tape, const Tensor& gradient) {
      const GradientTarget dx = target_or_scratch(tape, x);
      const Tensor dgain = parameter_gradient_or_scratch(*norm.gain), dshift = parameter_gradient_or_scratch(*norm.shift);
      dispatch(gradient.dtype(), [&]<class T>(T) {
        kernels::launch<kernels::LayerNormBackward, T>(tape.execution(), gradient.matrix<const T>(), x.value.matrix<const T>(),
                                                       norm.gain->value.data<T>(), mean.data<T>(), rstd.data<T>(), dx.tensor.matrix<T>(),
                                                       dx.write, dgain.data<T>(), dshift.data<T>());
      });
    });
  return y;
}

}  // namespace tapeformer::ops
