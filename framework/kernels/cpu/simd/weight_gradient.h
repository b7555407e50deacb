// SPDX-License-Identifier: Apache-2.0
// The gradient of a large weight, X' Y over many rows, tile by tile: a tile's sum stays in the second cache level while all rows pass, so
// that no partial sums go to memory and back (the blocking of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication").
#pragma once
#include "framework/kernels/cpu/simd/simd.h"

namespace tapeformer::simd {

struct WeightGradient {
  int64_t rows = 0;
  int M = 0, N = 0;
  ConstRows x, y;  // [rows,M], [rows,N]
  Rows out;        // [M,N], added to
};

// Rows that are multiplied at a time, and the floats that all rows of Y take when packed.
constexpr int weight_gradient_step = 128;
size_t packed_rows_size(int64_t rows, int N);
// Packs the rows of one step of Y: panels of the step's rows, one step after the other.
void pack_rows(const WeightGradient& g, int64_t step, float* packed);

// out[m0 ... m0 + M][n0 ... n0 + N] += the tile of X' Y; n0 a multiple of the widest register block's columns, which divide 64.
size_t weight_gradient_scratch(int M, int N);
void weight_gradient_tile(const WeightGradient& g, const float* packed, int m0, int M, int n0, int N, float* scratch);

}  // namespace tapeformer::simd
