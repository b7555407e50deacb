// SPDX-License-Identifier: Apache-2.0
// The products behind panels.h for the instruction set being compiled; defined in panels.cpp.
#if defined(TAPEFORMER_SIMD_PRODUCTS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPEFORMER_SIMD_PRODUCTS_H
#undef TAPEFORMER_SIMD_PRODUCTS_H
#else
#define TAPEFORMER_SIMD_PRODUCTS_H
#endif
#include "framework/kernels/cpu/simd/tile.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {

// What the sums of a product start with: 0, a bias[N], or what is in the result.
struct Start {
  bool add = false;
  const float* bias = nullptr;
};

// out[rows x N] = start + X[rows x K] Y, with `panels` at row 0 of the sum in the first panel and panel_stride floats from one panel to the
// next. Exactly N columns are written.
void multiply_panels(int rows, int N, int K, const float* x, size_t ldx, const float* panels, size_t panel_stride, Start start, float* out,
                     size_t ldo);

// C (+)= X' Y over K rows, X[K x M], Y[K x round_up(N, kCols)]; C in panel layout of M_all rows, rows m0 ... m0 + M - 1.
void outer_panels(int M, int N, int K, const float* x, size_t ldx, const float* y, size_t ldy, bool add, float* c, int m0, int M_all);

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();
#endif
