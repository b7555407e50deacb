// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/softmax.h"

#include <algorithm>
#include <cmath>

#include "framework/kernels/cpu/blocks.h"

namespace tapeformer::kernels {

template <>
void SoftmaxForward<float>::cpu(const Execution& on, View<const float> x, View<float> y) {
  if (x.columns == 0) return;
  parallel_blocks(*on.threads, x.rows, cpu::pass_rows(4 * x.columns), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float* from = x.row(r);
      float* to = y.row(r);
      const float largest = *std::max_element(from, from + x.columns);
      double sum = 0;
      for (int64_t c = 0; c < x.columns; ++c) {
        to[c] = std::exp(from[c] - largest);
        sum += static_cast<double>(to[c]);
      }
      const float factor = static_cast<float>(1 / sum);
      for (int64_t c = 0; c < x.columns; ++c) to[c] *= factor;
    }
  });
}

template <>
void SoftmaxBackward<float>::cpu(const Execution& on, View<const float> dy, View<const float> y, View<float> dx, Write write) {
  parallel_blocks(*on.threads, y.rows, cpu::pass_rows(4 * y.columns), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float *g = dy.row(r), *p = y.row(r);
      float* to = dx.row(r);
      double sum = 0;
      for (int64_t c = 0; c < y.columns; ++c) sum += static_cast<double>(g[c]) * static_cast<double>(p[c]);
      const float dot = static_cast<float>(sum);
      for (int64_t c = 0; c < y.columns; ++c) to[c] = p[c] * (g[c] - dot) + (write == Write::add ? to[c] : 0.f);
    }
  });
}

}  // namespace tapeformer::kernels
