// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/simd/product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/products.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

constexpr int kDepth = 256;  // of a part of the sum over k

// A panel of op(B): `depth` rows of kCols floats, or of kLanes where no more columns are left.
constexpr int panel_width(int columns) { return columns <= kLanes ? kLanes : kCols; }

// Columns n ... n + width - 1 of op(B), rows k ... k + depth - 1, as a panel; columns beyond are 0.
HWY_INLINE void pack_panel(const Product& p, int k, int depth, int n, int width, float* HWY_RESTRICT panel) {
  const int stride = panel_width(width);
  if (!p.transpose_b) {
    for (int i = 0; i < depth; ++i)
      for (int c = 0; c < stride; c += kLanes) {
        const float* row = p.b.row(k + i) + n;
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
        transpose4(p.b.row(n + c) + k + i, static_cast<size_t>(p.b.stride), panel + i * stride + c, static_cast<size_t>(stride));
    for (; c < width; ++c) {
      const float* HWY_RESTRICT from = p.b.row(n + c) + k;
      for (int i = i0; i < i1; ++i) panel[i * stride + c] = from[i];
    }
    for (int i = i0; i < i1; ++i)
      for (int z = width; z < stride; ++z) panel[i * stride + z] = 0;
  }
}

// One vector of columns.
template <Left L, int R>
HWY_INLINE void multiply_narrow(const float* HWY_RESTRICT x, size_t ldx, const float* HWY_RESTRICT y, int K, V (&acc)[R]) {
  const D d;
#pragma GCC unroll 4
  for (int k = 0; k < K; ++k) {
    V row = hn::Load(d, y + k * kLanes);
    hold(row);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) acc[r] = hn::MulAdd(hn::Set(d, L == Left::rows ? x[r * ldx + k] : x[k * ldx + r]), row, acc[r]);
  }
}

struct Finish {
  float alpha;
  bool add;
  HWY_INLINE void operator()(V sum, float* row, int c, int width) const {
    if (c >= width) return;
    const V scaled = hn::Mul(sum, hn::Set(D(), alpha));
    store_at(add ? hn::Add(load_at(row, c, width), scaled) : scaled, row, c, width);
  }
};

// C[rows x width] (+)= alpha X panel.
template <Left L>
HWY_INLINE void multiply_panel(int rows, int width, int depth, const float* x, size_t ldx, const float* panel, const Finish& finish,
                               Rows c) {
  for_row_blocks(rows, [&]<int R>(int r) HWY_ATTR {
    const float* left = L == Left::rows ? x + r * ldx : x + r;
    if (panel_width(width) == kCols) {
      Block<R> b = zero<R>();
      multiply<L, R>(left, ldx, panel, kCols, depth, b);
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) {
        finish(b.v[i][0], c.row(r + i), 0, width);
        finish(b.v[i][1], c.row(r + i), kLanes, width);
      }
    } else {
      V b[R];
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) b[i] = hn::Zero(D());
      multiply_narrow<L, R>(left, ldx, panel, depth, b);
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) finish(b[i], c.row(r + i), 0, width);
    }
  });
}

// Rows 2 KiB apart share few cache sets, and so do far columns: such a left operand is copied before register blocks read across it.
bool reads_badly(const Product& p) { return p.a.stride % 512 == 0 || (p.transpose_a && p.a.stride >= 1024); }

}  // namespace

size_t product_scratch_here(int M, int N) {
  return static_cast<size_t>(kDepth) * static_cast<size_t>(round_up(N, kCols)) +
         static_cast<size_t>(round_up(M, 16) + row_padding) * static_cast<size_t>(kDepth + row_padding);
}

void product_here(const Product& p, float* scratch) {
  float* const copy = scratch + static_cast<size_t>(kDepth) * static_cast<size_t>(round_up(p.N, kCols));
  const bool copied = reads_badly(p);
  for (int k = 0; k == 0 || k < p.K; k += kDepth) {
    const int depth = smaller(kDepth, p.K - k);
    const float* x = p.transpose_a ? p.a.row(k) : p.a.data + k;
    size_t ldx = static_cast<size_t>(p.a.stride);
    if (copied && depth > 0) {
      const int rows = p.transpose_a ? depth : p.M, columns = p.transpose_a ? p.M : depth;
      ldx = static_cast<size_t>(round_up(columns, kLanes) + row_padding);
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < columns; c += kLanes) hn::StoreU(load_at(x + r * p.a.stride, c, columns), D(), copy + r * ldx + c);
      x = copy;
    }
    const Finish finish{p.alpha, p.add || k > 0};
    for (int n = 0; n < p.N; n += kCols) {
      const int width = smaller(kCols, p.N - n);
      float* panel = scratch + static_cast<size_t>(n) * kDepth;
      pack_panel(p, k, depth, n, width, panel);
      const Rows c{p.c.data + n, p.c.stride};
      if (p.transpose_a) multiply_panel<Left::columns>(p.M, width, depth, x, ldx, panel, finish, c);
      else multiply_panel<Left::rows>(p.M, width, depth, x, ldx, panel, finish, c);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(product_scratch_here);
HWY_EXPORT(product_here);
size_t product_scratch(int M, int N) { return HWY_DYNAMIC_DISPATCH(product_scratch_here)(M, N); }
void product(const Product& p, float* scratch) { HWY_DYNAMIC_DISPATCH(product_here)(p, scratch); }

}  // namespace tapeformer::simd
#endif
