// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/pooling.h"

#include <algorithm>

#include "framework/kernels/cpu/blocks.h"

namespace tapeformer::kernels {
namespace {

void mean_of_rows(View<const float> x, int64_t first, int64_t last, float* y) {
  double* sum = reinterpret_cast<double*>(thread_scratch(static_cast<size_t>(2 * x.columns)));
  std::fill_n(sum, x.columns, 0.0);
  for (int64_t r = first; r < last; ++r) {
    const float* row = x.row(r);
    for (int64_t c = 0; c < x.columns; ++c) sum[c] += static_cast<double>(row[c]);
  }
  for (int64_t c = 0; c < x.columns; ++c) y[c] = static_cast<float>(sum[c] / static_cast<double>(last - first));
}

// The first of equals; a NaN comes before all numbers.
void maximum_of_rows(View<const float> x, int64_t first, int64_t last, float* y, int32_t* argmax) {
  std::copy_n(x.row(first), x.columns, y);
  std::fill_n(argmax, x.columns, static_cast<int32_t>(first));
  for (int64_t r = first + 1; r < last; ++r) {
    const float* row = x.row(r);
    for (int64_t c = 0; c < x.columns; ++c)
      if (row[c] > y[c] || (row[c] != row[c] && y[c] == y[c])) {
        y[c] = row[c];
        argmax[c] = static_cast<int32_t>(r);
      }
  }
}

}  // namespace

template <>
void PoolingForward<float>::cpu(const Execution& on, Pooling pooling, const std::vector<int32_t>& offsets, View<const float> x,
                                View<float> y, int32_t* argmax) {
  on.threads->run(y.rows, [&](int64_t b) {
    const int64_t first = offsets[static_cast<size_t>(b)], last = offsets[static_cast<size_t>(b) + 1];
    float* to = y.row(b);
    if (first == last) {
      std::fill_n(to, y.columns, 0.f);
      if (argmax) std::fill_n(argmax + b * y.columns, y.columns, -1);
    } else if (pooling == Pooling::mean) {
      mean_of_rows(x, first, last, to);
    } else if (pooling == Pooling::max) {
      maximum_of_rows(x, first, last, to, argmax + b * y.columns);
    } else {
      std::copy_n(x.row(first), y.columns, to);
    }
  });
}

template <>
void PoolingBackward<float>::cpu(const Execution& on, Pooling pooling, const std::vector<int32_t>& offsets, View<const float> dy,
                                 const int32_t* argmax, View<float> dx) {
  on.threads->run(dy.rows, [&](int64_t b) {
    const int64_t first = offsets[static_cast<size_t>(b)], last = offsets[static_cast<size_t>(b) + 1];
    const float* from = dy.row(b);
    const float share = 1.f / static_cast<float>(last > first ? last - first : 1);
    for (int64_t r = first; r < last; ++r) {
      float* to = dx.row(r);
      if (pooling == Pooling::mean)
        for (int64_t c = 0; c < dx.columns; ++c) to[c] = from[c] * share;
      else std::fill_n(to, dx.columns, 0.f);
    }
    if (first == last || pooling == Pooling::mean) return;
    if (pooling == Pooling::first) {
      std::copy_n(from, dx.columns, dx.row(first));
    } else {
      for (int64_t c = 0; c < dx.columns; ++c) dx.row(argmax[b * dy.columns + c])[c] = from[c];
    }
  });
}

}  // namespace tapeformer::kernels
