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

constexpr int kDepth = 256;  // rows of a panel that are used at a time: at most 32 KiB

template <int R>
HWY_INLINE Block<R> load_edge(const float* c, size_t ldc, int width) {
  Block<R> b;
  for (int r = 0; r < R; ++r) {
    b.v[r][0] = load_at(c + r * ldc, 0, width);
    b.v[r][1] = load_at(c + r * ldc, kLanes, width);
  }
  return b;
}
template <int R>
HWY_INLINE void store_edge(const Block<R>& b, float* c, size_t ldc, int width) {
  for (int r = 0; r < R; ++r) {
    store_at(b.v[r][0], c + r * ldc, 0, width);
    store_at(b.v[r][1], c + r * ldc, kLanes, width);
  }
}

// One panel, `width` <= kCols columns of the result.
template <bool edge>
HWY_INLINE void multiply_panel(int rows, int width, int K, const float* x, size_t ldx, const float* panel, bool add, const V (&bias)[2],
                               float* out, size_t ldo) {
  for_row_blocks(rows, [&]<int R>(int r) HWY_ATTR {
    float* o = out + r * ldo;
    Block<R> b;
    if (add) {
      if constexpr (edge) b = load_edge<R>(o, ldo, width);
      else b = load<R>(o, ldo);
    } else {
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) {
        b.v[i][0] = bias[0];
        b.v[i][1] = bias[1];
      }
    }
    multiply<Left::rows, R>(x + r * ldx, ldx, panel, kCols, K, b);
    if constexpr (edge) store_edge<R>(b, o, ldo, width);
    else store<R>(b, o, ldo);
  });
}

}  // namespace

void multiply_panels(int rows, int N, int K, const float* x, size_t ldx, const float* panels, size_t panel_stride, Start start, float* out,
                     size_t ldo) {
  for (int k = 0; k == 0 || k < K; k += kDepth) {
    const int depth = smaller(kDepth, K - k);
    for (int n = 0; n < N; n += kCols) {
      const float* panel = panels + static_cast<size_t>(n / kCols) * panel_stride + static_cast<size_t>(k) * kCols;
      const bool add = start.add || k > 0;
      V bias[2] = {hn::Zero(D()), hn::Zero(D())};
      if (!add && start.bias) {
        bias[0] = load_at(start.bias, n, N);
        bias[1] = load_at(start.bias, n + kLanes, N);
      }
      if (n + kCols <= N) multiply_panel<false>(rows, kCols, depth, x + k, ldx, panel, add, bias, out + n, ldo);
      else multiply_panel<true>(rows, N - n, depth, x + k, ldx, panel, add, bias, out + n, ldo);
    }
  }
}

void outer_panels(int M, int N, int K, const float* x, size_t ldx, const float* y, size_t ldy, bool add, float* c, int m0, int M_all) {
  for (int n = 0; n < N; n += kCols) {
    float* panel = c + (static_cast<size_t>(n / kCols) * M_all + m0) * kCols;
    for_row_blocks(M, [&]<int R>(int r) HWY_ATTR {
      float* out = panel + static_cast<size_t>(r) * kCols;
      if (add)
        for (int i = 0; i < R * kCols; i += 16) __builtin_prefetch(out + i, 1);  // arrives while the sum is formed
      Block<R> b = zero<R>();
      multiply<Left::columns, R>(x + r, ldx, y + n, ldy, K, b);
      if (add) {
#pragma GCC unroll 12
        for (int i = 0; i < R; ++i) {
          b.v[i][0] = hn::Add(b.v[i][0], hn::Load(D(), out + i * kCols));
          b.v[i][1] = hn::Add(b.v[i][1], hn::Load(D(), out + i * kCols + kLanes));
        }
      }
      store<R>(b, out, kCols);
    });
  }
}

int columns_here() { return kCols; }

void pack_here(ConstRows w, int K, int N, bool transposed, int first, int last, float* out) {
  for (int p = first; p < last; ++p) {
    float* HWY_RESTRICT panel = out + static_cast<size_t>(p) * K * kCols;
    const int n0 = p * kCols, width = smaller(kCols, N - n0);
    if (transposed) {
      // Some rows of the panel at a time, so that its lines stay in the first-level cache while all columns write to them.
      for (int k0 = 0; k0 < K; k0 += 16) {
        const int k1 = smaller(K, k0 + 16);
        int c = 0;
        for (; c + 4 <= width && k1 - k0 == 16; c += 4)
          for (int k = k0; k < k1; k += 4)
            transpose4(w.row(n0 + c) + k, static_cast<size_t>(w.stride), panel + k * kCols + c, static_cast<size_t>(kCols));
        for (; c < width; ++c) {
          const float* HWY_RESTRICT from = w.row(n0 + c);
          for (int k = k0; k < k1; ++k) panel[k * kCols + c] = from[k];
        }
        for (int k = k0; k < k1; ++k)
          for (int c = width; c < kCols; ++c) panel[k * kCols + c] = 0;
      }
    } else {
      for (int k = 0; k < K; ++k) {
        hn::Store(load_at(w.row(k) + n0, 0, width), D(), panel + k * kCols);
        hn::Store(load_at(w.row(k) + n0, kLanes, width), D(), panel + k * kCols + kLanes);
      }
    }
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
