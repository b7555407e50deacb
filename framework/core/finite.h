// SPDX-License-Identifier: Apache-2.0
// Whether numbers are numbers.
#pragma once
#include "framework/core/tensor.h"

namespace tapeformer {
// False when an element is NaN or infinite; a tensor of whole numbers has none.
bool all_finite(const Tensor&);
}  // namespace tapeformer
