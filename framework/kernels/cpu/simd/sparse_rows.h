// SPDX-License-Identifier: Apache-2.0
// Weighted sums of rows, vectorised over the columns.
#pragma once
#include "framework/kernels/cpu/simd/simd.h"

namespace tapeformer::simd {

struct SparseRowsCall {
  int columns = 0;
  const int32_t *begin = nullptr, *source = nullptr;
  const double* weight = nullptr;  // null: all 1
  ConstRows x;
  Rows out;
  bool add = false;
};
// Rows [first, last) of the result.
void sparse_rows(const SparseRowsCall& call, ptrdiff_t first, ptrdiff_t last);

}  // namespace tapeformer::simd
