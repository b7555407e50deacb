// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/norm_linear.h"

#include "framework/kernels/cpu/linear_blocks.h"

namespace tapeformer::kernels {

using cpu::rows_of;

template <>
void NormLinearForward<float>::cpu(const Execution& on, View<const float> x, const float* gain, const float* shift, float epsilon,
                                   View<const float> w, const float* bias, View<float> y, float* mean, float* rstd) {
  simd::LinearRows call;
  call.K = static_cast<int>(w.columns);
  call.N = static_cast<int>(w.rows);
  call.x = rows_of(x);
  call.gain = gain;
  call.shift = shift;
  call.epsilon = epsilon;
  call.mean = mean;
  call.rstd = rstd;
  call.bias = bias;
  call.y = rows_of(y);
  cpu::linear_forward(on, call, w, x.rows);
}

template <>
void NormLinearBackward<float>::cpu(const Execution& on, View<const float> dy, View<const float> x, const float* gain, const float* shift,
                                    const float* mean, const float* rstd, View<const float> w, View<float> dx, Write write,
                                    NormLinearGradients<float> g) {
  simd::LinearBackwardRows call;
  call.K = static_cast<int>(w.columns);
  call.N = static_cast<int>(w.rows);
  call.x = rows_of(x);
  call.dy = rows_of(dy);
  call.gain = gain;
  call.shift = shift;
  call.mean = mean;
  call.rstd = rstd;
  call.dx = rows_of(dx);
  call.add = write == Write::add;
  cpu::linear_backward(on, call, w, dy.rows, {g.dw, g.dbias, g.dgain, g.dshift});
}

}  // namespace tapeformer::kernels
