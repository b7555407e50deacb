// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/elementwise.h"

#include "framework/kernels/cpu/blocks.h"

namespace tapeformer::kernels {

template <>
void AddTo<float>::cpu(const Execution& on, View<const float> x, View<float> y) {
  parallel_blocks(*on.threads, x.rows, cpu::pass_rows(x.columns), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float* a = x.row(r);
      float* b = y.row(r);
      for (int64_t c = 0; c < x.columns; ++c) b[c] += a[c];
    }
  });
}

template <>
void Sum<float>::cpu(const Execution& on, View<const float> x, View<const float> y, View<float> z) {
  parallel_blocks(*on.threads, x.rows, cpu::pass_rows(x.columns), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float *a = x.row(r), *b = y.row(r);
      float* to = z.row(r);
      for (int64_t c = 0; c < x.columns; ++c) to[c] = a[c] + b[c];
    }
  });
}

template <>
void Multiply<float>::cpu(const Execution& on, View<const float> x, View<const float> y, View<float> z, Write write) {
  parallel_blocks(*on.threads, x.rows, cpu::pass_rows(x.columns), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float *a = x.row(r), *b = y.row(r);
      float* to = z.row(r);
      if (write == Write::add)
        for (int64_t c = 0; c < x.columns; ++c) to[c] += a[c] * b[c];
      else
        for (int64_t c = 0; c < x.columns; ++c) to[c] = a[c] * b[c];
    }
  });
}

template <>
void Scaled<float>::cpu(const Execution& on, float factor, View<const float> x, View<float> y, Write write) {
  parallel_blocks(*on.threads, x.rows, cpu::pass_rows(x.columns), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float* a = x.row(r);
      float* to = y.row(r);
      if (write == Write::add)
        for (int64_t c = 0; c < x.columns; ++c) to[c] += factor * a[c];
      else
        for (int64_t c = 0; c < x.columns; ++c) to[c] = factor * a[c];
    }
  });
}

}  // namespace tapeformer::kernels
