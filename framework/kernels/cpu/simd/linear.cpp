// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/simd/linear.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/linear.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/products.h"
#include "framework/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

int width_in_scratch(int n) { return round_up(n, kCols) + row_padding; }

// Rows 2 KiB apart, or a multiple of that, share few cache sets: such rows are copied before a product reads twelve of them side by side.
bool reads_badly(ptrdiff_t stride) { return stride % 512 == 0; }

}  // namespace

size_t linear_scratch_here(const LinearRows& p, int rows) {
  return static_cast<size_t>(rows) * static_cast<size_t>(width_in_scratch(p.K) + width_in_scratch(p.N));
}

void linear_rows_here(const LinearRows& p, ptrdiff_t first, int rows, float* scratch) {
  const size_t ldh = static_cast<size_t>(width_in_scratch(p.K)), ldz = static_cast<size_t>(width_in_scratch(p.N));
  float *h = scratch, *z = h + rows * ldh;
  const Norm norm{p.K, p.gain, p.shift};
  const float* left = p.x.row(first);
  size_t ld = static_cast<size_t>(p.x.stride);
  if (p.gain || reads_badly(p.x.stride)) {
    for (int r = 0; r < rows; ++r) {
      const float* x = p.x.row(first + r);
      float mean = 0, rstd = 0;
      if (p.gain) {
        norm_statistics(x, p.K, p.epsilon, mean, rstd);
        p.mean[first + r] = mean;
        p.rstd[first + r] = rstd;
      }
      norm_row(norm, x, mean, rstd, h + r * ldh);
    }
    left = h;
    ld = ldh;
  }
  const size_t panel_stride = static_cast<size_t>(p.K) * kCols;
  if (!p.residual) {
    multiply_panels(rows, p.N, p.K, left, ld, p.panels, panel_stride, {false, p.bias}, p.y.row(first), static_cast<size_t>(p.y.stride));
    return;
  }
  multiply_panels(rows, p.N, p.K, left, ld, p.panels, panel_stride, {false, p.bias}, z, ldz);
  const Drop drop(p.dropout);
  for (int r = 0; r < rows; ++r) residual_row(drop, first + r, z + r * ldz, p.residual.row(first + r), p.N, p.y.row(first + r));
}

size_t linear_backward_scratch_here(const LinearBackwardRows& p, int rows) {
  const int kept = p.dz ? 0 : width_in_scratch(p.K) + width_in_scratch(p.N);
  return static_cast<size_t>(rows) * static_cast<size_t>(width_in_scratch(p.K) + kept);
}

void linear_backward_rows_here(const LinearBackwardRows& p, ptrdiff_t first, int rows, float* part, bool add, float* scratch) {
  const size_t ldk = static_cast<size_t>(width_in_scratch(p.K)), ldn = static_cast<size_t>(width_in_scratch(p.N));
  float* const dh = scratch;
  const Rows dz = p.dz ? Rows{p.dz.row(first), p.dz.stride} : Rows{dh + rows * ldk, static_cast<ptrdiff_t>(ldn)};
  const Rows h = p.h ? Rows{p.h.row(first), p.h.stride} : Rows{dz.data + rows * ldn, static_cast<ptrdiff_t>(ldk)};
  const size_t ldz = static_cast<size_t>(dz.stride), ldh = static_cast<size_t>(h.stride);
  const Norm norm{p.K, p.gain, p.shift};
  const Drop drop(p.dropout);
  for (int r = 0; r < rows; ++r) dropped_row(drop, first + r, p.dy.row(first + r), p.N, dz.row(r));
  const LinearPart at(p.K, p.N, kCols, !p.dz);
  if (p.x) {
    for (int r = 0; r < rows; ++r)
      norm_row(norm, p.x.row(first + r), p.gain ? p.mean[first + r] : 0, p.gain ? p.rstd[first + r] : 0, h.row(r));
    column_sums(rows, p.N, dz.data, ldz, add, part + at.dbias);
    if (!p.dz) outer_panels(p.N, p.K, rows, dz.data, ldz, h.data, ldh, add, part + at.dw, 0, p.N);
  }
  if (!p.panels) return;
  const size_t panel_stride = static_cast<size_t>(p.N) * kCols;
  if (!p.gain) {
    multiply_panels(rows, p.K, p.N, dz.data, ldz, p.panels, panel_stride, {p.add, nullptr}, p.dx.row(first),
                    static_cast<size_t>(p.dx.stride));
    return;
  }
  multiply_panels(rows, p.K, p.N, dz.data, ldz, p.panels, panel_stride, {}, dh, ldk);
  norm_gradients(rows, p.K, {p.x.row(first), p.x.stride}, p.mean + first, p.rstd + first, dh, ldk, add, part + at.dgain, part + at.dshift);
  for (int r = 0; p.dx && r < rows; ++r)
    norm_backward_row(norm, p.x.row(first + r), p.mean[first + r], p.rstd[first + r], dh + r * ldk, p.add, p.dx.row(first + r));
}

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(linear_scratch_here);
HWY_EXPORT(linear_rows_here);
HWY_EXPORT(linear_backward_scratch_here);
HWY_EXPORT(linear_backward_rows_here);

LinearPart::LinearPart(int K, int N, int columns, bool weights) {
  const size_t k = static_cast<size_t>((K + columns - 1) / columns * columns),
               n = static_cast<size_t>((N + columns - 1) / columns * columns);
  dbias = weights ? k * static_cast<size_t>(N) : 0;
  dgain = dbias + n;
  dshift = dgain + k;
  size = (dshift + k + 15) / 16 * 16;
}

size_t linear_scratch(const LinearRows& p, int rows) { return HWY_DYNAMIC_DISPATCH(linear_scratch_here)(p, rows); }
void linear_rows(const LinearRows& p, ptrdiff_t first, int rows, float* scratch) {
  HWY_DYNAMIC_DISPATCH(linear_rows_here)(p, first, rows, scratch);
}
size_t linear_backward_scratch(const LinearBackwardRows& p, int rows) {
  return HWY_DYNAMIC_DISPATCH(linear_backward_scratch_here)(p, rows);
}
void linear_backward_rows(const LinearBackwardRows& p, ptrdiff_t first, int rows, float* part, bool add, float* scratch) {
  HWY_DYNAMIC_DISPATCH(linear_backward_rows_here)(p, first, rows, part, add, scratch);
}

}  // namespace tapeformer::simd
#endif
