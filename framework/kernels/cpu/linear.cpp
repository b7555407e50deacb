// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/linear.h"

#include "framework/kernels/cpu/linear_blocks.h"

namespace tapeformer::kernels {

using cpu::rows_of;

template <>
void LinearForward<float>::cpu(const Execution& on, View<const float> x, View<const float> w, const float* bias, View<float> y) {
  simd::LinearRows call;
  call.K = static_cast<int>(w.columns);
  call.N = static_cast<int>(w.rows);
  call.x = rows_of(x);
  call.bias = bias;
  call.y = rows_of(y);
  cpu::linear_forward(on, call, w, x.rows);
}

template <>
void LinearBackwardInput<float>::cpu(const Execution& on, View<const float> dy, View<const float> w, View<float> dx, Write write) {
  simd::LinearBackwardRows call;
  call.K = static_cast<int>(w.columns);
  call.N = static_cast<int>(w.rows);
  call.dy = rows_of(dy);
  call.dx = rows_of(dx);
  call.add = write == Write::add;
  cpu::linear_backward(on, call, w, dy.rows, {});
}

template <>
void LinearBackwardWeight<float>::cpu(const Execution& on, View<const float> dy, View<const float> x, View<float> dw, float* dbias) {
  simd::LinearBackwardRows call;
  call.K = static_cast<int>(x.columns);
  call.N = static_cast<int>(dy.columns);
  call.x = rows_of(x);
  call.dy = rows_of(dy);
  cpu::linear_backward(on, call, {}, dy.rows, {dw, dbias});
}

}  // namespace tapeformer::kernels
