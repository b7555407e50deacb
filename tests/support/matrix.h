// SPDX-License-Identifier: Apache-2.0
// A plain matrix of doubles for oracles: formulas are written with m(row, column) and share no code with the kernels.
#pragma once
#include <vector>

#include "framework/core/tensor.h"

namespace tapeformer::test {

struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(int64_t r, int64_t c) : rows(r), columns(c), values(static_cast<size_t>(r * c)) {}
  // From float32 or float64; a vector [n] is n rows of one column.
  explicit Matrix(const Tensor& t) : Matrix(t.shape()[0], t.shape().rank() > 1 ? t.shape()[1] : 1) {
    const Tensor from = t.dtype() == Dtype::f64 ? t.clone() : t.converted(Dtype::f64);
    const auto span = from.span<double>();
    values.assign(span.begin(), span.end());
  }
  double& operator()(int64_t r, int64_t c) { return values[static_cast<size_t>(r * columns + c)]; }
  double operator()(int64_t r, int64_t c) const { return values[static_cast<size_t>(r * columns + c)]; }
};

// x W' + b; b is a column.
Matrix project(const Matrix& x, const Matrix& w, const Matrix& b);

// The largest |a - b|, relative to the largest |b| (or to `floor` where all of b is smaller); infinity for NaN or unequal shapes.
double relative_error(const Matrix& a, const Matrix& b, double floor = 1e-3);

}  // namespace tapeformer::test
