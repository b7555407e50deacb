// SPDX-License-Identifier: Apache-2.0
// Products of a block of rows with a packed right operand, and the outer products of weight gradients. A right operand Y[K x N] is packed
// as panels [ceil(N / kCols)][K][kCols] whose columns beyond N are 0; a panel's rows stay in the first-level cache while all rows of X
// pass.
#pragma once
#include "framework/kernels/cpu/simd/simd.h"

namespace tapeformer::simd {

// kCols of the instruction set in use.
int panel_columns();

// Panels [first, last) of Y[K x N]: Y[k][n] = w[k][n], or w[n][k] when transposed.
void pack_panels(ConstRows w, int K, int N, bool transposed, int first, int last, float* out);

// out[m][n] += the sum over `parts` matrices [M x N] in panel layout, `part_stride` floats apart, for the panels [first, last).
void add_panel_parts(const float* part, size_t part_stride, int parts, int M, int N, int first, int last, Rows out);
// out[n] += the sum over parts.
void add_vector_parts(const float* part, size_t part_stride, int parts, int n, float* out);

}  // namespace tapeformer::simd
