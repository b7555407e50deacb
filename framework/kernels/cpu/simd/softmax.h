// SPDX-License-Identifier: Apache-2.0
// Softmax along the rows or down the columns of a block [rows x columns].
#pragma once
#include "framework/kernels/cpu/simd/simd.h"

namespace tapeformer::simd {

struct SoftmaxBlock {
  int rows = 0, columns = 0;
  bool down = false;  // the columns
};
void softmax(const SoftmaxBlock& b, ConstRows x, Rows y);
// dx (+)= y (dy - sum(dy y)).
void softmax_backward(const SoftmaxBlock& b, ConstRows dy, ConstRows y, bool add, Rows dx);

}  // namespace tapeformer::simd
