// SPDX-License-Identifier: Apache-2.0
// Formulas that several oracles are made of, written without the kernels.
#pragma once
#include <cmath>
#include <numbers>

#include "framework/core/packing.h"
#include "framework/core/random.h"
#include "framework/kernels/activation.h"
#include "framework/kernels/dropout.h"
#include "tests/support/matrix.h"

namespace tapeformer::test {

// x W' + b; b may be null.
inline Matrix linear_oracle(const Matrix& x, const Matrix& w, const Matrix* b) {
  Matrix y(x.rows, w.rows);
  for (int64_t m = 0; m < x.rows; ++m)
    for (int64_t k = 0; k < x.columns; ++k)
      for (int64_t n = 0; n < w.rows; ++n) y(m, n) += x(m, k) * w(n, k) + (b && k == 0 ? (*b)(n, 0) : 0);
  return y;
}

inline Matrix layer_norm_oracle(const Matrix& x, const Matrix& gain, const Matrix& shift, double epsilon) {
  Matrix y(x.rows, x.columns);
  for (int64_t r = 0; r < x.rows; ++r) {
    double mean = 0, second = 0;
    for (int64_t c = 0; c < x.columns; ++c) mean += x(r, c) / double(x.columns);
    for (int64_t c = 0; c < x.columns; ++c) second += std::pow(x(r, c) - mean, 2) / double(x.columns);
    for (int64_t c = 0; c < x.columns; ++c) y(r, c) = gain(c, 0) * (x(r, c) - mean) / std::sqrt(second + epsilon) + shift(c, 0);
  }
  return y;
}

inline double activation_oracle(Activation f, double x) {
  if (f == Activation::relu) return std::max(x, 0.0);
  if (f == Activation::gelu) return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
  if (f == Activation::gelu_tanh) return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  return x;
}
inline Matrix activation_oracle(Activation f, Matrix x) {
  for (double& v : x.values) v = activation_oracle(f, v);
  return x;
}

// Dropout with probability p as the words of Philox say.
inline Matrix dropout_oracle(Matrix x, double p, uint64_t key, uint32_t step, const Packing& packing) {
  if (p == 0) return x;
  for (int b = 0, r = 0; b < packing.sequences(); ++b)
    for (int32_t place = 0; place < packing.length(b); ++place, ++r)
      for (int64_t c = 0; c < x.columns; ++c) {
        const uint32_t word = philox({uint32_t(c / 4), uint32_t(place), packing.sample_ids()[size_t(b)], step}, key)[size_t(c % 4)];
        x(r, c) *= word < std::round(p * 4294967296.0) ? 0 : 1 / (1 - p);
      }
  return x;
}

inline Matrix sum_oracle(Matrix a, const Matrix& b) {
  for (size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
  return a;
}

}  // namespace tapeformer::test
