// SPDX-License-Identifier: Apache-2.0
// Comparing matrices.
#include "tests/support/matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tapeformer::test {

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
