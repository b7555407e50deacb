// SPDX-License-Identifier: Apache-2.0
// Passes over blocks of rows in memory: activations, dropout, LayerNorm.
#pragma once
#include "framework/kernels/cpu/simd/simd.h"

namespace tapeformer::simd {

// y = f(x); y may be x.
void activation_rows(Nonlinearity f, ConstRows x, int width, ptrdiff_t first, ptrdiff_t last, Rows y);
// dx = dy f'(x); dx may be dy.
void activation_backward_rows(Nonlinearity f, ConstRows x, ConstRows dy, int width, ptrdiff_t first, ptrdiff_t last, Rows dx);

// y = x kept scale, or added to y.
void dropout_rows(const DropoutRows& p, ConstRows x, int width, bool add, ptrdiff_t first, ptrdiff_t last, Rows y);

struct LayerNormRows {
  int C = 0;
  ConstRows x;
  const float *gain = nullptr, *shift = nullptr;  // [C]
  float epsilon = 0;
  float *mean = nullptr, *rstd = nullptr;  // [M], written by the forward
};
void layer_norm_rows(const LayerNormRows& p, ptrdiff_t first, ptrdiff_t last, Rows y);
// dx null: nobody asked. part: dgain and dshift of these rows, `part_stride` floats apart, overwritten.
void layer_norm_backward_rows(const LayerNormRows& p, ConstRows dy, ptrdiff_t first, ptrdiff_t last, bool add, Rows dx, float* part,
                              size_t part_stride);

}  // namespace tapeformer::simd
