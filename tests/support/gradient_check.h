// SPDX-License-Identifier: Apache-2.0
// Gradients against central differences in double.
#pragma once
#include <functional>

#include "tests/support/matrix.h"

namespace tapeformer::test {

// The largest |gradient - (loss(x + step) - loss(x - step)) / (2 step)| over at most `entries` entries of x (evenly spread), relative to
// the largest difference quotient met (or to `floor`). `loss` reads x, which is changed in place and put back.
double gradient_error(const std::function<double()>& loss, Matrix& x, const Matrix& gradient, int64_t entries = 64, double step = 1e-6,
                      double floor = 1e-3);

}  // namespace tapeformer::test
