// SPDX-License-Identifier: Apache-2.0
// Register blocks: small matrix products on operands in the first two cache levels, for the instruction set being compiled.
// Row-major throughout. A block is R rows by W vectors; each element is one chain of multiply-adds over k in ascending order, so its
// bytes do not depend on the block's shape or place.
#if defined(TAPEFORMER_SIMD_TILE_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPEFORMER_SIMD_TILE_H
#undef TAPEFORMER_SIMD_TILE_H
#else
#define TAPEFORMER_SIMD_TILE_H
#endif
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kCols = 2 * kLanes;  // columns of one register block
// Rows of one register block: the accumulators, two vectors of Y and one of X fill the registers.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int kRows = 12;
#elif HWY_TARGET == HWY_AVX2
constexpr int kRows = 6;
#else
constexpr int kRows = 4;
#endif

// Where registers allow it, half as many rows by the columns of two panels: fewer broadcasts a multiply-add, and X is read half as often.
#if HWY_TARGET == HWY_AVX3
constexpr int kWide = 4;
#else
constexpr int kWide = 2;
#endif
constexpr int kWideRows = kRows * 2 / kWide, kWideCols = kWide * kLanes;

// How the left operand is stored: X[r][k] (rows), or X[k][r] (columns: the product uses the transpose of what is stored).
enum class Left { rows, columns };

template <int R, int W = 2>
struct Block {
  V v[R][W];
};

// Keeps a loaded vector in a register. Without it g++ 12 loads Y again for each of the R rows, as a memory operand of the multiply-add,
// which costs up to 40 % of the speed; clang does not.
HWY_INLINE void hold(V& v) {
#if HWY_TARGET == HWY_AVX3
  asm("" : "+v"(v.raw));
#elif HWY_TARGET == HWY_AVX2
  asm("" : "+x"(v.raw));
#elif HWY_TARGET == HWY_NEON
  asm("" : "+w"(v.raw));
#else
  (void)v;
#endif
}

constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }
constexpr int smaller(int a, int b) { return a < b ? a : b; }

// The first n < kLanes elements; the others are 0 when loaded and untouched when stored.
HWY_INLINE V load_some(const float* p, int n) {
  alignas(64) float part[kLanes] = {};
  for (int i = 0; i < n; ++i) part[i] = p[i];
  return hn::Load(D(), part);
}
HWY_INLINE void store_some(V v, float* p, int n) {
  alignas(64) float part[kLanes];
  hn::Store(v, D(), part);
  for (int i = 0; i < n; ++i) p[i] = part[i];
}
// Element c ... of a row of `width`: whole vectors, or what is left of the row.
HWY_INLINE V load_at(const float* row, int c, int width) {
  return HWY_LIKELY(c + kLanes <= width) ? hn::LoadU(D(), row + c) : load_some(row + c, width - c);
}
HWY_INLINE void store_at(V v, float* row, int c, int width) {
  if (HWY_LIKELY(c + kLanes <= width)) hn::StoreU(v, D(), row + c);
  else store_some(v, row + c, width - c);
}

// Vector j of a row of W: two from one panel, the next two from the panel `panel` floats further on.
constexpr size_t vector_at(int j, size_t panel) { return static_cast<size_t>(j / 2) * panel + static_cast<size_t>(j % 2 * kLanes); }

// acc[R x W vectors] += X[R x K] Y[K x W vectors]. X and Y need no alignment.
template <Left L, int R, int W = 2>
HWY_INLINE void multiply(const float* HWY_RESTRICT x, size_t ldx, const float* HWY_RESTRICT y, size_t ldy, int K, Block<R, W>& acc,
                         size_t panel = kCols) {
  const D d;
#pragma GCC unroll 4
  for (int k = 0; k < K; ++k) {
    V row[W];
#pragma GCC unroll 4
    for (int j = 0; j < W; ++j) {
      row[j] = hn::LoadU(d, y + k * ldy + vector_at(j, panel));
      hold(row[j]);
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const V a = hn::Set(d, L == Left::rows ? x[r * ldx + k] : x[k * ldx + r]);
#pragma GCC unroll 4
      for (int j = 0; j < W; ++j) acc.v[r][j] = hn::MulAdd(a, row[j], acc.v[r][j]);
    }
  }
}

template <int R, int W = 2>
HWY_INLINE Block<R, W> zero() {
  Block<R, W> b;
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < W; ++j) b.v[r][j] = hn::Zero(D());
  return b;
}
template <int R, int W = 2>
HWY_INLINE Block<R, W> load(const float* c, size_t ldc, size_t panel = kCols) {
  Block<R, W> b;
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < W; ++j) b.v[r][j] = hn::LoadU(D(), c + r * ldc + vector_at(j, panel));
  return b;
}
template <int R, int W = 2>
HWY_INLINE void store(const Block<R, W>& b, float* c, size_t ldc, size_t panel = kCols) {
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < W; ++j) hn::StoreU(b.v[r][j], D(), c + r * ldc + vector_at(j, panel));
}

// c (+)= b.
template <int R, int W = 2>
HWY_INLINE void store_sum(Block<R, W>& b, bool add, float* c, size_t ldc, size_t panel = kCols) {
  if (add) {
    const Block<R, W> before = load<R, W>(c, ldc, panel);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int j = 0; j < W; ++j) b.v[r][j] = hn::Add(before.v[r][j], b.v[r][j]);
  }
  store<R, W>(b, c, ldc, panel);
}

// Calls f.template operator()<R>(first_row) for blocks of rows that cover [0, rows). Write f as a lambda with HWY_ATTR:
//   for_row_blocks(M, [&]<int R>(int r) HWY_ATTR { ... });
template <int most = kRows, class F>
HWY_INLINE void for_row_blocks(int rows, const F& f) {
  int r = 0;
  for (; r + most <= rows; r += most) f.template operator()<most>(r);
  if constexpr (most > 8)
    if (r + 8 <= rows) {
      f.template operator()<8>(r);
      r += 8;
    }
  if constexpr (most > 4)
    if (r + 4 <= rows) {
      f.template operator()<4>(r);
      r += 4;
    }
  switch (rows - r) {
    case 1:
      f.template operator()<1>(r);
      break;
    case 2:
      f.template operator()<2>(r);
      break;
    case 3:
      f.template operator()<3>(r);
      break;
    default:
      break;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();
#endif
