// SPDX-License-Identifier: Apache-2.0
// The products behind panels.h for the instruction set being compiled, defined in panels.cpp, and the packing of a panel.
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

// out[c][r] = x[r][c] for 4 x 4 floats.
HWY_INLINE void transpose4(const float* HWY_RESTRICT x, size_t ldx, float* HWY_RESTRICT out, size_t ldo) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t r = 0; r < 4; ++r)
    for (size_t c = 0; c < 4; ++c) out[c * ldo + r] = x[r * ldx + c];
#else
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<uint64_t, decltype(d)> pairs;
  const auto r0 = hn::LoadU(d, x), r1 = hn::LoadU(d, x + ldx), r2 = hn::LoadU(d, x + 2 * ldx), r3 = hn::LoadU(d, x + 3 * ldx);
  const auto a = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1)), b = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto e = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3)), f = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, a, e)), d, out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, a, e)), d, out + ldo);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, b, f)), d, out + 2 * ldo);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, b, f)), d, out + 3 * ldo);
#endif
}

// Rows k ... k + depth - 1 and columns n ... n + width - 1 of Y as a panel, its rows `stride` floats apart (kLanes or kCols); columns from
// the width on are 0. Y[k][n] = w[k][n], or w[n][k] when transposed.
HWY_INLINE void pack_panel(ConstRows w, bool transposed, int k, int depth, int n, int width, int stride, float* HWY_RESTRICT panel) {
  if (!transposed) {
    for (int i = 0; i < depth; ++i)
      for (int c = 0; c < stride; c += kLanes) {
        const float* row = w.row(k + i) + n;
        hn::Store(c < width ? load_at(row, c, width) : hn::Zero(D()), D(), panel + i * stride + c);
      }
    return;
  }
  // A few rows of the panel at a time, so that its lines stay in the first-level cache while all columns write to them.
  for (int i0 = 0; i0 < depth; i0 += 16) {
    const int i1 = smaller(depth, i0 + 16);
    int c = 0;
    for (; c + 4 <= width && i1 - i0 == 16; c += 4)
      for (int i = i0; i < i1; i += 4)
        transpose4(w.row(n + c) + k + i, static_cast<size_t>(w.stride), panel + i * stride + c, static_cast<size_t>(stride));
    for (; c < width; ++c) {
      const float* HWY_RESTRICT from = w.row(n + c) + k;
      for (int i = i0; i < i1; ++i) panel[i * stride + c] = from[i];
    }
    for (int i = i0; i < i1; ++i)
      for (int z = width; z < stride; ++z) panel[i * stride + z] = 0;
  }
}

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
