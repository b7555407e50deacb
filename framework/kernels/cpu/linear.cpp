// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/linear.h"

#include "framework/kernels/cpu/linear_blocks.h"
#include "framework/kernels/cpu/onednn.h"

namespace tapeformer::kernels {

using cpu::rows_of;

namespace {

// y (+)= x w + bias in blocks of `block` rows.
void by_onednn(const Execution& on, View<const float> x, View<const float> w, bool transposed, const float* bias, View<float> y,
               Write write, int64_t block) {
  if (x.rows == 0) return;
  const cpu::OnednnProduct product(w, transposed, bias, block);
  parallel_blocks(*on.threads, x.rows, block, [&](int64_t first, int64_t last) {
    product.multiply({x.row(first), last - first, x.columns, x.stride}, {y.row(first), last - first, y.columns, y.stride}, write,
                     thread_scratch(product.scratch()));
  });
}

}  // namespace

template <>
void LinearForward<float>::cpu(const Execution& on, View<const float> x, View<const float> w, const float* bias, View<float> y) {
  if (const int64_t block = cpu::onednn_rows(w.columns, w.rows)) return by_onednn(on, x, w, true, bias, y, Write::overwrite, block);
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
  if (const int64_t block = cpu::onednn_rows(w.rows, w.columns)) return by_onednn(on, dy, w, false, nullptr, dx, write, block);
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
