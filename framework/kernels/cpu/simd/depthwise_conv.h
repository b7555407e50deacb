// SPDX-License-Identifier: Apache-2.0
// Convolution of the columns of one head of one sequence with one kernel.
#pragma once
#include "framework/kernels/cpu/simd/simd.h"

namespace tapeformer::simd {

struct DepthwiseConv {
  ptrdiff_t rows = 0;  // of the sequence
  int columns = 0, taps = 0;
  ConstRows x;
  const float* kernel = nullptr;  // [taps]
  Rows y;
  bool add = false;
};
// Rows [first, last). An element's bytes do not depend on where the rows are cut: the taps are added in ascending order.
void depthwise_conv(const DepthwiseConv& call, ptrdiff_t first, ptrdiff_t last);
// sums[t] = the sum over rows [first, last) of dy_i x_{i + t - (taps - 1) / 2}.
void depthwise_conv_weight(const DepthwiseConv& call, ConstRows dy, ptrdiff_t first, ptrdiff_t last, float* sums);

}  // namespace tapeformer::simd
