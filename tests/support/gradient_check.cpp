// SPDX-License-Identifier: Apache-2.0
// Central differences.
#include "tests/support/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tapeformer::test {

double gradient_error(const std::function<double()>& loss, Matrix& x, const Matrix& gradient, int64_t entries, double step, double floor) {
  if (x.rows != gradient.rows || x.columns != gradient.columns) return std::numeric_limits<double>::infinity();
  double error = 0, largest = floor;
  const int64_t count = x.rows * x.columns, checked = std::min(count, entries);
  for (int64_t n = 0; n < checked; ++n) {
    const auto i = static_cast<size_t>(n * count / checked);
    const double held = x.values[i];
    x.values[i] = held + step;
    const double above = loss();
    x.values[i] = held - step;
    const double below = loss();
    x.values[i] = held;
    const double quotient = (above - below) / (2 * step), difference = std::abs(quotient - gradient.values[i]);
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    error = std::max(error, difference);
    largest = std::max(largest, std::abs(quotient));
  }
  return error / largest;
}

}  // namespace tapeformer::test
