// SPDX-License-Identifier: Apache-2.0
// Linear layers, plain and fused with a norm before or a residual behind: forward and backward.
#include "framework/ops/linear.h"

#include "framework/kernels/linear.h"
#include "framework/kernels/linear_residual.h"
#include "framework/kernels/norm_linear.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/residual.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

// Returns N, the number of outputs.
int64_t check(const Context& ctx, std::string_view op, const Variable& x, const Parameter& weight, const Parameter* bias) {
  check_matrix(ctx, op, "x", x.value);
  require(weight.value.defined() && weight.value.shape().rank() == 2, "{}: {} is not a matrix", op, weight.name);
  const int64_t outputs = weight.value.shape()[0];
  check_parameter(ctx, op, weight, {outputs, x.value.shape()[1]});
  if (bias) check_parameter(ctx, op, *bias, {outputs});
  return outputs;
}

bool records(const Context& ctx, const Variable& x, const Parameter& weight, const Parameter* bias) {
  return ctx.records(x) || ctx.records(weight) || (bias && ctx.records(*bias));
}

}  // namespace

Variable linear(Context& ctx, const Variable& x, Parameter& weight, Parameter* bias) {
  const int64_t outputs = check(ctx, "linear", x, weight, bias);
  const ProfileScope profile(ctx, "linear", [&] { return linear_work(x, weight, bias); });
  Variable y{Tensor(ctx.dtype, {x.value.shape()[0], outputs})};
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::LinearForward, T>(ctx.on, x.value.matrix<const T>(), weight.value.matrix<const T>(), values_or_null<T>(bias),
                                               y.value.matrix<T>());
  });
  // y = x W' + b: dx = dy W, dW = dy' x, db = column sums of dy.
  if (records(ctx, x, weight, bias))
    y.node = ctx.tape->record("linear", [x, &weight, bias](Tape& tape, const Tensor& gradient) {
      dispatch(gradient.dtype(), [&]<class T>(T) {
        const Tensor dbias = parameter_gradient(bias);
        if (weight.trainable || dbias.defined())
          kernels::launch<kernels::LinearBackwardWeight, T>(tape.execution(), gradient.matrix<const T>(), x.value.matrix<const T>(),
                                                            parameter_gradient_or_scratch(weight).matrix<T>(), data_or_null<T>(dbias));
        if (x.node == no_node) return;
        const GradientTarget dx = tape.gradient_target(x.node, x.value.dtype(), x.value.shape());
        kernels::launch<kernels::LinearBackwardInput, T>(tape.execution(), gradient.matrix<const T>(), weight.value.matrix<const T>(),
                                                         dx.tensor.matrix<T>(), dx.write);
      });
    });
  return y;
}

Variable norm_linear(Context& ctx, const Variable& x, const NormParameters& norm, Parameter& weight, Parameter* bias) {
  const int64_t outputs = check(ctx, "norm_linear", x, weight, bias), rows = x.value.shape()[0], columns = x.value.shape()[1];
  check_parameter(ctx, "norm_linear", *norm.gain, {columns});
  check_parameter(ctx, "norm_linear", *norm.shift, {columns});
  const ProfileScope profile(ctx, "norm_linear", [&] { return fused_norm_work(x.value) + linear_work(x, weight, bias); });
  Variable y{Tensor(ctx.dtype, {rows, outputs})};
  const Tensor mean(ctx.dtype, {rows}), rstd(ctx.dtype, {rows});
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::NormLinearForward, T>(
        ctx.on, x.value.matrix<const T>(), norm.gain->value.data<T>(), norm.shift->value.data<T>(), static_cast<T>(norm.epsilon),
        weight.value.matrix<const T>(), values_or_null<T>(bias), y.value.matrix<T>(), mean.data<T>(), rstd.data<T>());
  });
  // The rules of linear and layer_norm one after the other; LayerNorm(x) is made again from mean and rstd.
  if (records(ctx, x, weight, bias) || ctx.records(*norm.gain) || ctx.records(*norm.shift))
    y.node = ctx.tape->record("norm_linear", [x, norm, &weight, bias, mean, rstd](Tape& tape, const Tensor& gradient) {
      const GradientTarget dx = target_or_scratch(tape, x);
      const Tensor dw = parameter_gradient(&weight), dbias = parameter_gradient(bias);
      const Tensor dgain = parameter_gradient(norm.gain), dshift = parameter_gradient(norm.shift);
      dispatch(gradient.dtype(), [&]<class T>(T) {
        const kernels::NormLinearGradients<T> gradients{matrix_or_empty<T>(dw), data_or_null<T>(dbias), data_or_null<T>(dgain),
                                                        data_or_null<T>(dshift)};
        kernels::launch<kernels::NormLinearBackward, T>(tape.execution(), gradient.matrix<const T>(), x.value.matrix<const T>(),
                                                        norm.gain->value.data<T>(), norm.shift->value.data<T>(), mean.data<T>(),
                                                        rstd.data<T>(), weight.value.matrix<const T>(), dx.tensor.matrix<T>(), dx.write,
                                                        gradients);
      });
    });
  return y;
}

Variable linear_residual(Context& ctx, const Variable& x, Parameter& weight, Parameter* bias, const DropoutDraw& asked,
                         const Variable& residual) {
  const int64_t outputs = check(ctx, "linear_residual", x, weight, bias);
  check_tensor("linear_residual", "residual", residual.value, ctx.dtype, {x.value.shape()[0], outputs});
  const ProfileScope profile(ctx, "linear_residual",
                             [&] { return linear_work(x, weight, bias) + fused_residual_work(residual.value, asked); });
  const bool recorded = records(ctx, x, weight, bias) || ctx.records(residual);
  const DropoutDraw draw = recorded ? asked.with_room(x.value.shape()[0], outputs) : asked;
  Variable y{Tensor(ctx.dtype, residual.value.shape())};
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::LinearResidualForward, T>(ctx.on, x.value.matrix<const T>(), weight.value.matrix<const T>(),
                                                       values_or_null<T>(bias), draw, residual.value.matrix<const T>(),
                                                       y.value.matrix<T>());
  });
  // dresidual = dy; with d = mask dy / (1 - p): dx = d W, dW = d' x, db = column sums of d.
  if (recorded)
    y.node = ctx.tape->record(
        "linear_residual", [x, &weight, bias, draw = draw.after(), residual = residual.node](Tape& tape, const Tensor& gradient) {
          const Tensor dw = parameter_gradient(&weight), dbias = parameter_gradient(bias);
          if (x.node == no_node && !dw.defined() && !dbias.defined()) return tape.add_gradient(residual, gradient);
          ResidualTarget target(tape, x, residual, gradient);
          dispatch(gradient.dtype(), [&]<class T>(T) {
            kernels::launch<kernels::LinearResidualBackward, T>(tape.execution(), gradient.matrix<const T>(), x.value.matrix<const T>(),
                                                                weight.value.matrix<const T>(), draw, target.tensor().matrix<T>(),
                                                                target.write(), matrix_or_empty<T>(dw), data_or_null<T>(dbias));
          });
          target.finish(tape);
        });
  return y;
}

}  // namespace tapeformer::ops
