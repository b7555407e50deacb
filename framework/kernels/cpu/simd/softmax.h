// SPDX-License-Identifier: Apache-2.0
// Softmax along rows.
#pragma once
#include "framework/kernels/cpu/simd/simd.h"

namespace tapeformer::simd {

// y may be x.
void softmax(int rows, int columns, ConstRows x, Rows y);
// dx (+)= y (dy - sum(dy y)).
void softmax_backward(int rows, int columns, ConstRows dy, ConstRows y, bool add, Rows dx);

}  // namespace tapeformer::simd
