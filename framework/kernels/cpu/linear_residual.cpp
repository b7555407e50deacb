// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/linear_residual.h"

#include "framework/kernels/cpu/linear_blocks.h"

namespace tapeformer::kernels {

using cpu::rows_of;

template <>
void LinearResidualForward<float>::cpu(const Execution& on, View<const float> x, View<const float> w, const float* bias,
                                       const DropoutDraw& draw, View<const float> residual, View<float> y) {
  simd::LinearRows call;
  call.K = static_cast<int>(w.columns);
  call.N = static_cast<int>(w.rows);
  call.x = rows_of(x);
  call.bias = bias;
  call.dropout = rows_of(draw);
  call.residual = rows_of(residual);
  call.y = rows_of(y);
  cpu::linear_forward(on, call, w, x.rows);
}

template <>
void LinearResidualBackward<float>::cpu(const Execution& on, View<const float> dy, View<const float> x, View<const float> w,
                                        const DropoutDraw& draw, View<float> dx, Write write, View<float> dw, float* dbias) {
  simd::LinearBackwardRows call;
  call.K = static_cast<int>(w.columns);
  call.N = static_cast<int>(w.rows);
  call.x = rows_of(x);
  call.dy = rows_of(dy);
  call.dropout = rows_of(draw);
  call.dx = rows_of(dx);
  call.add = write == Write::add;
  cpu::linear_backward(on, call, w, dy.rows, {dw, dbias});
}

}  // namespace tapeformer::kernels
