// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/simd/weight_gradient.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/weight_gradient.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/products.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

constexpr int kStep = weight_gradient_step;
static_assert(64 % kWideCols == 0);

int rows_of_step(const WeightGradient& g, int64_t step) {
  const int64_t left = g.rows - step * kStep;
  return left < kStep ? static_cast<int>(left) : kStep;
}

// Columns m0 ... of the step's rows of X, in groups of a register block's rows: out[group][row][column of the group].
void pack_columns(ConstRows x, int64_t first, int rows, int m0, int M, float* out) {
  for_row_blocks<kWideRows>(M, [&]<int R>(int m) HWY_ATTR {
    const float* HWY_RESTRICT from = x.row(first) + m0 + m;
    float* HWY_RESTRICT group = out + static_cast<size_t>(m) * static_cast<size_t>(rows);
    for (int k = 0; k < rows; ++k, from += x.stride)
      for (int r = 0; r < R; ++r) group[k * R + r] = from[r];
  });
}

// W / 2 panels of the tile's sum, which are M rows each, (+)= X' Y over `rows` rows of one step.
template <int W>
void add_panels(int rows, int M, const float* x, const float* y, bool add, float* sum) {
  const size_t y_panel = static_cast<size_t>(rows) * kCols, sum_panel = static_cast<size_t>(M) * kCols;
  for_row_blocks<kWideRows>(M, [&]<int R>(int m) HWY_ATTR {
    float* out = sum + static_cast<size_t>(m) * kCols;
    Block<R, W> b = zero<R, W>();
    multiply<Left::columns, R, W>(x + static_cast<size_t>(m) * static_cast<size_t>(rows), R, y, kCols, rows, b, y_panel);
    store_sum<R, W>(b, add, out, kCols, sum_panel);
  });
}

}  // namespace

size_t packed_rows_size_here(int64_t rows, int N) { return static_cast<size_t>(rows) * static_cast<size_t>(round_up(N, kCols)); }

void pack_rows_here(const WeightGradient& g, int64_t step, float* packed) {
  const int rows = rows_of_step(g, step);
  float* out = packed + packed_rows_size_here(step * kStep, g.N);
  for (int n = 0; n < g.N; n += kCols, out += static_cast<size_t>(rows) * kCols)
    pack_panel(g.y, false, static_cast<int>(step) * kStep, rows, n, smaller(kCols, g.N - n), kCols, out);
}

size_t weight_gradient_scratch_here(int M, int N) { return static_cast<size_t>(M) * static_cast<size_t>(round_up(N, kCols) + kStep); }

void weight_gradient_tile_here(const WeightGradient& g, const float* packed, int m0, int M, int n0, int N, float* scratch) {
  float *sum = scratch, *x = scratch + static_cast<size_t>(M) * static_cast<size_t>(round_up(N, kCols));
  for (int64_t step = 0; step * kStep < g.rows; ++step) {
    const int rows = rows_of_step(g, step);
    pack_columns(g.x, step * kStep, rows, m0, M, x);
    const float* y = packed + packed_rows_size_here(step * kStep, g.N) + static_cast<size_t>(n0) * static_cast<size_t>(rows);
    for (int n = 0; n < N; n += kWideCols) {
      const float* panel = y + static_cast<size_t>(n) * static_cast<size_t>(rows);
      float* of_panel = sum + static_cast<size_t>(n) * static_cast<size_t>(M);
      if (N - n > kCols) add_panels<kWide>(rows, M, x, panel, step > 0, of_panel);
      else add_panels<2>(rows, M, x, panel, step > 0, of_panel);
    }
  }
  for (int m = 0; m < M; ++m) {
    float* row = g.out.row(m0 + m) + n0;
    for (int n = 0; n < N; n += kLanes) {
      const V s =
          hn::LoadU(D(), sum + (static_cast<size_t>(n / kCols) * static_cast<size_t>(M) + static_cast<size_t>(m)) * kCols + n % kCols);
      store_at(hn::Add(s, load_at(row, n, N)), row, n, N);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(packed_rows_size_here);
HWY_EXPORT(pack_rows_here);
HWY_EXPORT(weight_gradient_scratch_here);
HWY_EXPORT(weight_gradient_tile_here);

size_t packed_rows_size(int64_t rows, int N) { return HWY_DYNAMIC_DISPATCH(packed_rows_size_here)(rows, N); }
void pack_rows(const WeightGradient& g, int64_t step, float* packed) { HWY_DYNAMIC_DISPATCH(pack_rows_here)(g, step, packed); }
size_t weight_gradient_scratch(int M, int N) { return HWY_DYNAMIC_DISPATCH(weight_gradient_scratch_here)(M, N); }
void weight_gradient_tile(const WeightGradient& g, const float* packed, int m0, int M, int n0, int N, float* scratch) {
  HWY_DYNAMIC_DISPATCH(weight_gradient_tile_here)(g, packed, m0, M, n0, N, scratch);
}

}  // namespace tapeformer::simd
#endif
