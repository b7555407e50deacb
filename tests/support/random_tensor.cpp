// SPDX-License-Identifier: Apache-2.0
// Test inputs from Philox.
#include "tests/support/random_tensor.h"

#include "framework/core/random.h"

namespace tapeformer::test {

Tensor random_tensor(Dtype dtype, Shape shape, uint32_t seed, double deviation, double centre) {
  Tensor t(Dtype::f64, shape);
  const Draw draw{0x7e57, no_sample, seed};
  const auto values = t.span<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    const double outlier = i % 17 == 5 ? 3 : 1;
    values[i] = static_cast<float>(centre + deviation * outlier * draw.gaussian(0, static_cast<uint32_t>(i)));
  }
  return dtype == Dtype::f64 ? t : t.converted(dtype);
}

}  // namespace tapeformer::test
