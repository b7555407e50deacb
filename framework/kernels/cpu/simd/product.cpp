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

// Where a block of R rows of op(A) from row r on lies, for the product with one panel.
struct LeftRows {  // [M][stride]
  const float* x;
  size_t stride;
  static constexpr Left kind = Left::rows;
  HWY_INLINE const float* block(int r) const { return x + r * stride; }
  HWY_INLINE size_t step(int) const { return stride; }
};
struct LeftColumns {  // [depth][stride]
  const float* x;
  size_t stride;
  static constexpr Left kind = Left::columns;
  HWY_INLINE const float* block(int r) const { return x + r; }
  HWY_INLINE size_t step(int) const { return stride; }
};
struct LeftBlocks {  // each register block as [depth][R]
  const float* x;
  int depth;
  static constexpr Left kind = Left::columns;
  HWY_INLINE const float* block(int r) const { return x + static_cast<size_t>(r) * static_cast<size_t>(depth); }
  HWY_INLINE size_t step(int rows) const { return static_cast<size_t>(rows); }
};

// R rows of C from row r on, `width` columns: (+)= alpha X panel.
template <int R, class X>
HWY_INLINE void multiply_panel(const X& x, int r, int width, int depth, const float* panel, const Finish& finish, Rows c) {
  if (panel_width(width) == kCols) {
    Block<R> b = zero<R>();
    multiply<X::kind, R>(x.block(r), x.step(R), panel, kCols, depth, b);
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) {
      finish(b.v[i][0], c.row(r + i), 0, width);
      finish(b.v[i][1], c.row(r + i), kLanes, width);
    }
  } else {
    V b[R];
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) b[i] = hn::Zero(D());
    multiply_narrow<X::kind, R>(x.block(r), x.step(R), panel, depth, b);
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) finish(b[i], c.row(r + i), 0, width);
  }
}

// All panels of C: a panel stays in the first-level cache while all rows pass, or all panels do.
template <class X>
HWY_INLINE void multiply_all(const Product& p, const X& x, int depth, const float* panels, const Finish& finish) {
  const auto panel = [&]<int R>(int r, int n) HWY_ATTR {
    multiply_panel<R>(x, r, smaller(kCols, p.N - n), depth, panels + static_cast<size_t>(n) * kDepth, finish, {p.c.data + n, p.c.stride});
  };
  if (depth * p.N <= 8192)
    for_row_blocks(p.M, [&]<int R>(int r) HWY_ATTR {
      for (int n = 0; n < p.N; n += kCols) panel.template operator()<R>(r, n);
    });
  else
    for (int n = 0; n < p.N; n += kCols) for_row_blocks(p.M, [&]<int R>(int r) HWY_ATTR { panel.template operator()<R>(r, n); });
}

// Rows 2 KiB apart share few cache sets: such a left operand is copied before a register block reads twelve of them side by side.
void copy_rows(const Product& p, int k, int depth, float* HWY_RESTRICT out, size_t stride) {
  for (int r = 0; r < p.M; ++r)
    for (int c = 0; c < depth; c += kLanes) hn::StoreU(load_at(p.a.row(r) + k, c, depth), D(), out + r * stride + c);
}
// The columns of a high left operand lie on many pages.
void copy_columns(const Product& p, int k, int depth, float* HWY_RESTRICT out) {
  for (int i = 0; i < depth; ++i) {
    const float* row = p.a.row(k + i);
    for_row_blocks(p.M, [&]<int R>(int r) HWY_ATTR {
      float* HWY_RESTRICT block = out + static_cast<size_t>(r) * static_cast<size_t>(depth) + i * R;
      for (int c = 0; c < R; c += kLanes) {
        const V v = load_at(row + r, c, p.M - r);
        // Whole vectors inside the block, of which the next rows overwrite what is too much.
        if (i * R + c + kLanes <= depth * R) hn::StoreU(v, D(), block + c);
        else store_at(v, block, c, R);
      }
    });
  }
}

}  // namespace

size_t product_scratch_here(int M, int N) {
  return static_cast<size_t>(kDepth) * static_cast<size_t>(round_up(N, kCols)) +
         static_cast<size_t>(M) * static_cast<size_t>(kDepth + row_padding) + static_cast<size_t>(kLanes);
}

void product_here(const Product& p, float* scratch) {
  float* const copy = scratch + static_cast<size_t>(kDepth) * static_cast<size_t>(round_up(p.N, kCols));
  for (int k = 0; k == 0 || k < p.K; k += kDepth) {
    const int depth = smaller(kDepth, p.K - k);
    for (int n = 0; n < p.N; n += kCols) {
      const int width = smaller(kCols, p.N - n);
      pack_panel(p.b, p.transpose_b, k, depth, n, width, panel_width(width), scratch + static_cast<size_t>(n) * kDepth);
    }
    const Finish finish{p.alpha, p.add || k > 0};
    if (!p.transpose_a && p.a.stride % 512 != 0) {
      multiply_all(p, LeftRows{p.a.data + k, static_cast<size_t>(p.a.stride)}, depth, scratch, finish);
    } else if (!p.transpose_a) {
      copy_rows(p, k, depth, copy, kDepth + row_padding);
      multiply_all(p, LeftRows{copy, kDepth + row_padding}, depth, scratch, finish);
    } else if (depth * p.a.stride <= 32768) {
      multiply_all(p, LeftColumns{p.a.row(k), static_cast<size_t>(p.a.stride)}, depth, scratch, finish);
    } else {
      copy_columns(p, k, depth, copy);
      multiply_all(p, LeftBlocks{copy, depth}, depth, scratch, finish);
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
