// SPDX-License-Identifier: Apache-2.0
#include "framework/ops/work.h"

#include <algorithm>

namespace tapeformer::ops {
namespace {

double elements(const Tensor& t) { return static_cast<double>(t.count()); }

// FLOPs of one activation and of its derivative: erf, exp and tanh count 1.
struct ActivationFlops {
  double forward, backward;
};
ActivationFlops flops_of(Activation f) {
  if (f == Activation::gelu) return {5, 9};
  if (f == Activation::gelu_tanh) return {9, 16};
  return f == Activation::relu ? ActivationFlops{1, 1} : ActivationFlops{};
}

}  // namespace

OpWork pass_work(const Tensor& x, const PassWork& forward, const PassWork& backward) {
  return {{forward.flops * elements(x), forward.arrays * bytes_of(x)}, {backward.flops * elements(x), backward.arrays * bytes_of(x)}};
}

OpWork linear_work(const Variable& x, const Parameter& weight, const Parameter* bias) {
  const double rows = static_cast<double>(x.value.shape()[0]), outputs = static_cast<double>(weight.value.shape()[0]);
  const double product = 2 * rows * elements(weight.value), y_bytes = rows * outputs * static_cast<double>(size_of(x.value.dtype()));
  const double biased = bias ? rows * outputs : 0;
  const bool dx = x.node != no_node, dw = weight.trainable;
  const double weights = bytes_of(&weight), in = bytes_of(x.value);
  // dW needs x and is added to what is there; dx needs W.
  return {{product + biased, in + weights + bytes_of(bias) + y_bytes},
          {product * (int{dx} + int{dw}) + biased, y_bytes + (dx ? in + weights : 0) + (dw ? in + weights : 0) + bytes_of(bias)}};
}

OpWork fused_norm_work(const Tensor& x) { return pass_work(x, {8, 0}, {12, 0}); }

OpWork fused_residual_work(const Tensor& residual, const DropoutDraw& draw) {
  const double dropped = draw.on() ? 1 : 0;
  return pass_work(residual, {1 + dropped, 1}, {dropped, 0});
}

OpWork activation_work(const Tensor& x, Activation f) {
  const ActivationFlops per_element = flops_of(f);
  return pass_work(x, {per_element.forward, 2}, {per_element.backward, 3});
}

OpWork feed_forward_work(const Tensor& x, const Parameter& up, const Parameter& down, Activation f, bool keeps) {
  const double rows = static_cast<double>(x.shape()[0]), hidden = rows * static_cast<double>(up.value.shape()[0]);
  const double products = 2 * rows * (elements(up.value) + elements(down.value)), weights = bytes_of(&up, &down);
  const double kept = keeps ? hidden * static_cast<double>(size_of(x.dtype())) : 0;
  const ActivationFlops per_element = flops_of(f);
  return {{products + (1 + per_element.forward) * hidden + elements(x), 2 * bytes_of(x) + weights + kept},
          {2 * products + (1 + per_element.backward) * hidden + elements(x), 3 * bytes_of(x) + 2 * weights + kept}};
}

OpWork attention_work(const Tensor& q, const Tensor& k, double pairs, int64_t head_dim) {
  const double d = static_cast<double>(head_dim), lse = bytes_of(q) / d, all = bytes_of(q, k);
  return {{pairs * (4 * d + 5), 2 * all + lse}, {pairs * (10 * d + 6), 4 * all + lse}};
}

OpWork sparse_rows_work(const Tensor& x, const Tensor& y, double entries) {
  const Work one{2 * entries * static_cast<double>(x.shape()[1]), bytes_of(x, y)};
  return {one, one};
}

OpWork batched_product_work(const Tensor& a, const Tensor& b, const Tensor& c, double products, int gradients) {
  const double all = bytes_of(a, b, c);
  return {{2 * products, all}, {2 * products * gradients, all * gradients}};
}

OpWork linear_attention_work(const Tensor& q, int64_t head_dim) {
  const double product = 2 * elements(q) * static_cast<double>(head_dim), denominator = bytes_of(q) / static_cast<double>(head_dim);
  return {{2 * product + 10 * elements(q), 4 * bytes_of(q) + denominator}, {4 * product + 20 * elements(q), 8 * bytes_of(q) + denominator}};
}

OpWork feature_attention_work(const Tensor& q, const Tensor& v, int heads, int features, int matrix_rows) {
  const double rows = static_cast<double>(q.shape()[0]);
  const double state = 2 * elements(v) * features, map = 2 * elements(q) * matrix_rows, functions = 20 * rows * heads * features;
  const double arrays = 2 * bytes_of(q) + 2 * bytes_of(v);
  return {{2 * state + 2 * map + 2 * functions, arrays}, {4 * state + 4 * map + 2 * functions, 2 * arrays}};
}

OpWork look_up_work(const Tensor& table, int64_t rows) {
  const double numbers = static_cast<double>(rows * table.shape()[1]), bytes = numbers * static_cast<double>(size_of(table.dtype()));
  const double touched = std::min(bytes_of(table), bytes);
  return {{0, bytes + touched}, {numbers, bytes + touched}};
}

}  // namespace tapeformer::ops
