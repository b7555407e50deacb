// SPDX-License-Identifier: Apache-2.0
// Losses: checks of targets, sums and their gradients.
#include "framework/ops/loss.h"

#include "framework/kernels/cross_entropy.h"
#include "framework/kernels/elementwise.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/in_blocks.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

void check_targets(const Tensor& targets, int64_t rows, int64_t classes) {
  check_tensor("cross_entropy", "targets", targets, Dtype::i32, {rows});
  const std::span<const int32_t> t = targets.span<int32_t>();
  for (size_t r = 0; r < t.size(); ++r)
    if (t[r] != kernels::ignored_target && (t[r] < 0 || t[r] >= classes))
      fail(ExitCode::data, "cross_entropy: target {} in row {} of the batch; expected 0 .. {}, or {} for no target", t[r], r, classes - 1,
           kernels::ignored_target);
}

// The loss and count from their rows, summed in double in the order of the rows; dx is the gradient of the sum.
Loss summed(Context& ctx, const Variable& x, const Tensor& per_row, const Tensor& weights, Tensor dx) {
  Loss loss{{Tensor(ctx.dtype, {1})}, 0, per_row};
  dispatch(ctx.dtype, [&]<class T>(T) {
    double sum = 0;
    for (T v : per_row.span<T>()) sum += v;
    for (T w : weights.span<T>()) loss.count += w;
    *loss.sum.value.data<T>() = static_cast<T>(sum);
  });
  // dx = (the gradient of the sum) times the gradient that arrives, a scalar.
  if (ctx.records(x))
    loss.sum.node = ctx.tape->record("loss", [node = x.node, dx = std::move(dx)](Tape& tape, const Tensor& gradient) {
      dispatch(gradient.dtype(), [&]<class T>(T) {
        const T factor = *gradient.data<T>();
        if (factor != T{1})
          kernels::launch<kernels::Scaled, T>(tape.execution(), factor, dx.matrix<const T>(), dx.matrix<T>(), kernels::Write::overwrite);
      });
      tape.add_gradient(node, dx);
    });
  return loss;
}

// Row r: w_r avg_k (x - target)^2, and the gradient 2 w_r (x - target) / K (the target in its own type).
template <class T, class Target>
void squared_errors(View<const T> x, View<const Target> target, const T* row_weights, T* loss, T* weight, View<T> dx, int64_t first,
                    int64_t end) {
  for (int64_t r = first; r < end; ++r) {
    const double w = row_weights ? static_cast<double>(row_weights[r]) : 1;
    double sum = 0;
    for (int64_t c = 0; c < x.columns; ++c) {
      const double difference = static_cast<double>(x.row(r)[c]) - target.row(r)[c];
      sum += difference * difference;
      dx.row(r)[c] = static_cast<T>(2 * w * difference / static_cast<double>(x.columns));
    }
    loss[r] = static_cast<T>(w * sum / static_cast<double>(x.columns));
    weight[r] = static_cast<T>(w);
  }
}

}  // namespace

Loss cross_entropy(Context& ctx, const Variable& logits, const Tensor& targets, const CrossEntropySettings& s) {
  check_matrix(ctx, "cross_entropy", "logits", logits.value);
  const int64_t rows = logits.value.shape()[0], classes = logits.value.shape()[1];
  require(classes >= 1, "cross_entropy: logits of no classes");
  require(s.label_smoothing >= 0 && s.label_smoothing < 1, "cross_entropy: label smoothing {} is outside [0, 1)", s.label_smoothing);
  check_targets(targets, rows, classes);
  if (s.class_weights.defined()) check_tensor("cross_entropy", "class_weights", s.class_weights, ctx.dtype, {classes});
  if (s.row_weights.defined()) check_tensor("cross_entropy", "row_weights", s.row_weights, ctx.dtype, {rows});
  const ProfileScope profile(ctx, "cross_entropy", [&] { return pass_work(logits.value, {8, 2}, {0, 0}); });
  const Tensor per_row(ctx.dtype, {rows}), weights(ctx.dtype, {rows});
  Tensor dlogits(ctx.dtype, logits.value.shape());
  // With p = softmax(x), s the smoothing: dx_k = w (p_k - s / K - (1 - s) [k = t]) (Szegedy et al. 2016, 1512.00567, section 7).
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::CrossEntropy, T>(ctx.on, logits.value.matrix<const T>(), targets.data<int32_t>(),
                                              data_or_null<T>(s.class_weights), data_or_null<T>(s.row_weights), s.label_smoothing,
                                              per_row.data<T>(), weights.data<T>(), dlogits.matrix<T>());
  });
  return summed(ctx, logits, per_row, weights, std::move(dlogits));
}

Loss mean_squared_error(Context& ctx, const Variable& x, const Tensor& target, const Tensor& row_weights) {
  check_matrix(ctx, "mean_squared_error", "x", x.value);
  const int64_t rows = x.value.shape()[0];
  require(x.value.shape()[1] >= 1, "mean_squared_error: predictions of no columns");
  check_tensor("mean_squared_error", "target", target, target.dtype() == Dtype::f32 ? Dtype::f32 : ctx.dtype, x.value.shape());
  if (row_weights.defined()) check_tensor("mean_squared_error", "row_weights", row_weights, ctx.dtype, {rows});
  const ProfileScope profile(ctx, "mean_squared_error", [&] { return pass_work(x.value, {5, 3}, {0, 0}); });
  const Tensor per_row(ctx.dtype, {rows}), weights(ctx.dtype, {rows});
  Tensor dx(ctx.dtype, x.value.shape());
  dispatch(ctx.dtype, [&]<class T>(T) {
    dispatch(target.dtype(), [&]<class Target>(Target) {
      constexpr int64_t block = 512;
      in_blocks(ctx.on, rows, block, [&](int64_t first, int64_t end) {
        squared_errors<T, Target>(x.value.matrix<const T>(), target.matrix<const Target>(), data_or_null<T>(row_weights), per_row.data<T>(),
                                  weights.data<T>(), dx.matrix<T>(), first, end);
      });
    });
  });
  return summed(ctx, x, per_row, weights, std::move(dx));
}

}  // namespace tapeformer::ops
