// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/simd/panels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/panels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/products.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

constexpr int kDepth = 512 / kWide;  // rows of the panels that are used at a time: at most 32 KiB

template <int R, int W>
HWY_INLINE Block<R, W> load_edge(const float* c, size_t ldc, int width) {
  Block<R, W> b;
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < W; ++j) b.v[r][j] = load_at(c + r * ldc, j * kLanes, width);
  return b;
}
template <int R, int W>
HWY_INLINE void store_edge(const Block<R, W>& b, float* c, size_t ldc, int width) {
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < W; ++j) store_at(b.v[r][j], c + r * ldc, j * kLanes, width);
}

// W / 2 panels, `width` columns of the result.
template <int W, bool edge>
HWY_INLINE void multiply_panel(int rows, int width, int K, const float* x, size_t ldx, const float* panel, size_t panel_stride, bool add,
                               const float* start, float* out, size_t ldo) {
  V bias[W];
  for (int j = 0; j < W; ++j) bias[j] = start ? load_at(start, j * kLanes, width) : hn::Zero(D());
  for_row_blocks<kRows * 2 / W>(rows, [&]<int R>(int r) HWY_ATTR {
    float* o = out + r * ldo;
    for (int i = r + R; i < smaller(rows, r + 2 * R); ++i)  // the next block's arrive while this one is worked on
      for (int c = 0; c < W * kLanes; c += 16) __builtin_prefetch(out + i * ldo + c, 1);
    Block<R, W> b;
    if (add) {
      if constexpr (edge) b = load_edge<R, W>(o, ldo, width);
      else b = load<R, W>(o, ldo);
    } else {
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < W; ++j) b.v[i][j] = bias[j];
    }
    multiply<Left::rows, R, W>(x + r * ldx, ldx, panel, kCols, K, b, panel_stride);
    if constexpr (edge) store_edge<R, W>(b, o, ldo, width);
    else store<R, W>(b, o, ldo);
  });
}

template <int W>
HWY_INLINE void multiply_panel_of(int rows, int width, int K, const float* x, size_t ldx, const float* panel, size_t panel_stride, bool add,
                                  const float* start, float* out, size_t ldo) {
  if (width == W * kLanes) multiply_panel<W, false>(rows, width, K, x, ldx, panel, panel_stride, add, start, out, ldo);
  else multiply_panel<W, true>(rows, width, K, x, ldx, panel, panel_stride, add, start, out, ldo);
}

}  // namespace

void multiply_panels(int rows, int N, int K, const float* x, size_t ldx, const float* panels, size_t panel_stride, Start start, float* out,
                     size_t ldo) {
  for (int k = 0; k == 0 || k < K; k += kDepth) {
    const int depth = smaller(kDepth, K - k);
    const bool add = start.add || k > 0;
    for (int n = 0; n < N; n += kWideCols) {
      const float* panel = panels + static_cast<size_t>(n / kCols) * panel_stride + static_cast<size_t>(k) * kCols;
      const float* bias = !add && start.bias ? start.bias + n : nullptr;
      const int width = smaller(kWideCols, N - n);
      if (width > kCols) multiply_panel_of<kWide>(rows, width, depth, x + k, ldx, panel, panel_stride, add, bias, out + n, ldo);
      else multiply_panel_of<2>(rows, width, depth, x + k, ldx, panel, panel_stride, add, bias, out + n, ldo);
    }
  }
}

namespace {

// W / 2 panels of C, `panel_stride` floats apart.
template <int W>
HWY_INLINE void outer_panel(int M, int K, const float* x, size_t ldx, const float* y, size_t ldy, bool add, float* c, size_t panel_stride) {
  for_row_blocks<kRows * 2 / W>(M, [&]<int R>(int r) HWY_ATTR {
    float* out = c + static_cast<size_t>(r) * kCols;
    if (add)
      for (int j = 0; j < W; j += 2)
        for (int i = 0; i < R * kCols; i += 16)
          __builtin_prefetch(out + vector_at(j, panel_stride) + i, 1);  // arrives while the sum is formed
    Block<R, W> b = zero<R, W>();
    multiply<Left::columns, R, W>(x + r, ldx, y, ldy, K, b);
    store_sum<R, W>(b, add, out, kCols, panel_stride);
  });
}

}  // namespace

void outer_panels(int M, int N, int K, const float* x, size_t ldx, const float* y, size_t ldy, bool add, float* c, int m0, int M_all) {
  const size_t panel_stride = static_cast<size_t>(M_all) * kCols;
  for (int n = 0; n < N; n += kWideCols) {
    float* panel = c + static_cast<size_t>(n / kCols) * panel_stride + static_cast<size_t>(m0) * kCols;
    if (N - n > kCols) outer_panel<kWide>(M, K, x, ldx, y + n, ldy, add, panel, panel_stride);
    else outer_panel<2>(M, K, x, ldx, y + n, ldy, add, panel, panel_stride);
  }
}

int columns_here() { return kCols; }

void pack_here(ConstRows w, int K, int N, bool transposed, int first, int last, float* out) {
  for (int p = first; p < last; ++p) {
    const int n = p * kCols;
    pack_panel(w, transposed, 0, K, n, smaller(kCols, N - n), kCols, out + static_cast<size_t>(p) * K * kCols);
  }
}

void add_panel_parts_here(const float* part, size_t part_stride, int parts, int M, int N, int first, int last, Rows out) {
  for (int p = first; p < last; ++p)
    for (int m = 0; m < M; ++m) {
      const float* from = part + (static_cast<size_t>(p) * M + m) * kCols;
      V a = hn::Load(D(), from), b = hn::Load(D(), from + kLanes);
      for (int s = 1; s < parts; ++s) {
        a = hn::Add(a, hn::Load(D(), from + s * part_stride));
        b = hn::Add(b, hn::Load(D(), from + s * part_stride + kLanes));
      }
      float* row = out.row(m);
      const int n = p * kCols;
      store_at(hn::Add(a, load_at(row, n, N)), row, n, N);
      store_at(hn::Add(b, load_at(row, n + kLanes, N)), row, n + kLanes, N);
    }
}

void add_vector_parts_here(const float* part, size_t part_stride, int parts, int n, float* out) {
  for (int c = 0; c < n; c += kLanes) {
    V a = hn::Load(D(), part + c);
    for (int s = 1; s < parts; ++s) a = hn::Add(a, hn::Load(D(), part + s * part_stride + c));
    store_at(hn::Add(a, load_at(out, c, n)), out, c, n);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(columns_here);
HWY_EXPORT(pack_here);
HWY_EXPORT(add_panel_parts_here);
HWY_EXPORT(add_vector_parts_here);

int panel_columns() { return HWY_DYNAMIC_DISPATCH(columns_here)(); }
void pack_panels(ConstRows w, int K, int N, bool transposed, int first, int last, float* out) {
  HWY_DYNAMIC_DISPATCH(pack_here)(w, K, N, transposed, first, last, out);
}
void add_panel_parts(const float* part, size_t part_stride, int parts, int M, int N, int first, int last, Rows out) {
  HWY_DYNAMIC_DISPATCH(add_panel_parts_here)(part, part_stride, parts, M, N, first, last, out);
}
void add_vector_parts(const float* part, size_t part_stride, int parts, int n, float* out) {
  HWY_DYNAMIC_DISPATCH(add_vector_parts_here)(part, part_stride, parts, n, out);
}

}  // namespace tapeformer::simd
#endif
