// SPDX-License-Identifier: Apache-2.0
// Slices of columns, as groups of heads take them from one projection, and arrays put side by side.
#pragma once
#include <vector>

#include "framework/autograd/context.h"

namespace tapeformer::ops {

struct ColumnRange {
  int64_t first = 0, count = 0;
};

// The ranges of x [M,C] side by side: [M, sum of counts]. One range alone is a view that shares the elements, its rows C apart.
Variable columns(Context&, const Variable& x, const std::vector<ColumnRange>& ranges);
// x_0 [M,C_0], x_1 [M,C_1], ... side by side: [M, sum of C_i].
Variable join_columns(Context&, const std::vector<Variable>& parts);

}  // namespace tapeformer::ops
