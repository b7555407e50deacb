// SPDX-License-Identifier: Apache-2.0
// Comparing and projecting matrices.
#include "tests/support/matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tapeformer::test {

Matrix project(const Matrix& x, const Matrix& w, const Matrix& b) {
  Matrix y(x.rows, w.rows);
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t o = 0; o < w.rows; ++o) {
      y(r, o) = b(o, 0);
      for (int64_t c = 0; c < w.columns; ++c) y(r, o) += x(r, c) * w(o, c);
    }
  return y;
}

double relative_error(const Matrix& a, const Matrix& b, double floor) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (a.rows != b.rows || a.columns != b.columns) return infinity;
  double error = 0, largest = floor;
  for (size_t i = 0; i < b.values.size(); ++i) {
    const double difference = std::abs(a.values[i] - b.values[i]);
    if (std::isnan(difference)) return infinity;
    error = std::max(error, difference);
    largest = std::max(largest, std::abs(b.values[i]));
  }
  return error / largest;
}

}  // namespace tapeformer::test
