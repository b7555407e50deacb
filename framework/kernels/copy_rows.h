// SPDX-License-Identifier: Apache-2.0
// Moving runs of rows between arrays: slices of columns (as views), rows put in front of sequences and taken off again.
#pragma once
#include <span>

#include "framework/core/device.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels {

struct RowRun {
  int64_t from = 0, to = 0, rows = 0;
};

// Rows from ... of x [M,C] go to rows to ... of y [N,C], overwritten or added to; runs do not overlap in y.
template <class T>
struct CopyRows {
  static void reference(const Execution&, std::span<const RowRun>, View<const T> x, View<T> y, Write);
  static void cpu(const Execution&, std::span<const RowRun>, View<const T> x, View<T> y, Write);
};

}  // namespace tapeformer::kernels
