// SPDX-License-Identifier: Apache-2.0
// Test inputs with spread: normal values with outliers, all of them exact in float, so that float and double devices get the same numbers.
#pragma once
#include "framework/core/tensor.h"

namespace tapeformer::test {

// The same numbers for the same seed and count, whatever the dtype (float32 or float64). `deviation` scales, `centre` shifts.
Tensor random_tensor(Dtype dtype, Shape shape, uint32_t seed, double deviation = 1, double centre = 0);

}  // namespace tapeformer::test
