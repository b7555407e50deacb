// SPDX-License-Identifier: Apache-2.0
// BatchNorm: checks, forward and backward.
#include "framework/ops/batch_norm.h"

#include <cmath>

#include "framework/kernels/batch_norm.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

void check(const Context& ctx, const Variable& x, const NormParameters& norm) {
  check_matrix(ctx, "batch_norm", "x", x.value);
  check_parameter(ctx, "batch_norm", *norm.gain, {x.value.shape()[1]});
  check_parameter(ctx, "batch_norm", *norm.shift, {x.value.shape()[1]});
}

// 1 / sqrt(squares / count + epsilon) of each channel.
Tensor reciprocal_deviation(const Tensor& squares, int64_t count, double epsilon) {
  Tensor rstd(squares.dtype(), squares.shape());
  dispatch(squares.dtype(), [&]<class T>(T) {
    const std::span<const T> in = squares.span<T>();
    const std::span<T> out = rstd.span<T>();
    for (size_t c = 0; c < in.size(); ++c)
      out[c] = static_cast<T>(1 / std::sqrt(static_cast<double>(in[c]) / static_cast<double>(count) + epsilon));
  });
  return rstd;
}

Variable apply(Context& ctx, kernels::BatchNormMode mode, const Variable& x, const NormParameters& norm, const Tensor& mean,
               const Tensor& rstd) {
  const ProfileScope profile(ctx, "batch_norm", [&] { return pass_work(x.value, {4, 2}, {12, 3}); });
  Variable y{Tensor(ctx.dtype, x.value.shape())};
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::BatchNormApply, T>(ctx.on, x.value.matrix<const T>(), mean.data<T>(), rstd.data<T>(),
                                                norm.gain->value.data<T>(), norm.shift->value.data<T>(), y.value.matrix<T>());
  });
  // With h = (x - mean) rstd: dgain = sum dy h, dshift = sum dy; dx = gain rstd (dy - avg(dy) - h avg(dy h)) where mean and rstd are the
  // batch's own (Ioffe, Szegedy 2015, 1502.03167, section 3, simplified), and gain rstd dy where they are given.
  if (ctx.records(x) || ctx.records(*norm.gain) || ctx.records(*norm.shift))
    y.node = ctx.tape->record("batch_norm", [mode, x, norm, mean, rstd](Tape& tape, const Tensor& gradient) {
      const GradientTarget dx = target_or_scratch(tape, x);
      const Tensor dgain = parameter_gradient_or_scratch(*norm.gain), dshift = parameter_gradient_or_scratch(*norm.shift);
      dispatch(gradient.dtype(), [&]<class T>(T) {
        kernels::launch<kernels::BatchNormBackward, T>(tape.execution(), mode, gradient.matrix<const T>(), x.value.matrix<const T>(),
                                                       mean.data<T>(), rstd.data<T>(), norm.gain->value.data<T>(), dx.tensor.matrix<T>(),
                                                       dx.write, dgain.data<T>(), dshift.data<T>());
      });
    });
  return y;
}

}  // namespace

BatchNormResult batch_norm_batch(Context& ctx, const Variable& x, const NormParameters& norm) {
  check(ctx, x, norm);
  const int64_t rows = x.value.shape()[0], columns = x.value.shape()[1];
  if (rows < 2)
    fail(ExitCode::data,
         "batch_norm: a batch of {} row{} has no variance, at least 2 are needed; use larger batches, freeze the statistics, or use "
         "layer_norm",
         rows, rows == 1 ? "" : "s");
  const ProfileScope profile(ctx, "batch_norm_statistics", [&] { return pass_work(x.value, {4, 1}, {0, 0}); });
  const Tensor mean(ctx.dtype, {columns}), m2(ctx.dtype, {columns});
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::BatchNormStatistics, T>(ctx.on, x.value.matrix<const T>(), mean.data<T>(), m2.data<T>());
  });
  const Tensor rstd = reciprocal_deviation(m2, rows, norm.epsilon);
  return {apply(ctx, kernels::BatchNormMode::batch, x, norm, mean, rstd), mean, m2};
}

Variable batch_norm_fixed(Context& ctx, const Variable& x, const NormParameters& norm, const Tensor& mean, const Tensor& variance) {
  check(ctx, x, norm);
  check_tensor("batch_norm", "mean", mean, ctx.dtype, {x.value.shape()[1]});
  check_tensor("batch_norm", "variance", variance, ctx.dtype, {x.value.shape()[1]});
  // The caller may move its running mean before the backward: the closure keeps a copy of what was used.
  return apply(ctx, kernels::BatchNormMode::fixed, x, norm, ctx.tape ? mean.clone() : mean,
               reciprocal_deviation(variance, 1, norm.epsilon));
}

}  // namespace tapeformer::ops
