// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/layer_norm.h"

#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/row_passes.h"

namespace tapeformer::kernels {

using cpu::rows_of;

template <>
void LayerNormForward<float>::cpu(const Execution& on, View<const float> x, const float* gain, const float* shift, float epsilon,
                                  View<float> y, float* mean, float* rstd) {
  const simd::LayerNormRows call{static_cast<int>(x.columns), rows_of(x), gain, shift, epsilon, mean, rstd};
  parallel_blocks(*on.threads, x.rows, cpu::pass_rows(x.columns),
                  [&](int64_t first, int64_t last) { simd::layer_norm_rows(call, first, last, rows_of(y)); });
}

template <>
void LayerNormBackward<float>::cpu(const Execution& on, View<const float> dy, View<const float> x, const float* gain, const float* mean,
                                   const float* rstd, View<float> dx, Write write, float* dgain, float* dshift) {
  if (x.rows == 0) return;
  simd::LayerNormRows call;
  call.C = static_cast<int>(x.columns);
  call.x = rows_of(x);
  call.gain = gain;
  call.mean = const_cast<float*>(mean);  // only read by the backward
  call.rstd = const_cast<float*>(rstd);
  const int64_t block = cpu::pass_rows(x.columns);
  const size_t width = static_cast<size_t>((x.columns + 31) / 32 * 32), size = 2 * width;
  const int64_t parts = (x.rows + block - 1) / block;
  const Storage storage = allocate(static_cast<size_t>(parts) * size * sizeof(float));
  float* part = reinterpret_cast<float*>(storage.get());
  parallel_blocks(*on.threads, x.rows, block, [&](int64_t first, int64_t last) {
    simd::layer_norm_backward_rows(call, rows_of(dy), first, last, write == Write::add, rows_of(dx),
                                   part + static_cast<size_t>(first / block) * size, width);
  });
  const cpu::VectorSum sums[] = {{0, dgain, x.columns}, {width, dshift, x.columns}};
  cpu::add_parts(on, part, size, parts, {}, sums);
}

}  // namespace tapeformer::kernels
