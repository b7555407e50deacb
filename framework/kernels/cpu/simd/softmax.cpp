// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/simd/softmax.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/math.h"
#include "framework/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

void softmax_row(int n, const float* x, float* y) {
  const D d;
  V most = lowest(), sum = hn::Zero(d);
  for (int c = 0; c < n; c += kLanes) {
    const V v = load_at(x, c, n);
    most = hn::Max(most, HWY_LIKELY(c + kLanes <= n) ? v : hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(n - c)), v, most));
  }
  most = hn::MaxOfLanes(d, most);
  for (int c = 0; c < n; c += kLanes) {
    const V e = exponential(hn::Sub(load_at(x, c, n), most));
    sum = hn::Add(sum, first_only(e, n - c));
    store_at(e, y, c, n);
  }
  const V factor = hn::Div(hn::Set(d, 1.f), hn::SumOfLanes(d, sum));
  for (int c = 0; c < n; c += kLanes) store_at(hn::Mul(load_at(y, c, n), factor), y, c, n);
}

void backward_row(int n, const float* dy, const float* y, bool add, float* dx) {
  const D d;
  V sum = hn::Zero(d);
  for (int c = 0; c < n; c += kLanes) sum = hn::MulAdd(load_at(dy, c, n), load_at(y, c, n), sum);
  sum = hn::SumOfLanes(d, sum);
  for (int c = 0; c < n; c += kLanes) {
    const V v = hn::Mul(load_at(y, c, n), hn::Sub(load_at(dy, c, n), sum));
    store_at(add ? hn::Add(load_at(dx, c, n), v) : v, dx, c, n);
  }
}

void softmax_here(int rows, int columns, ConstRows x, Rows y) {
  for (int r = 0; r < rows; ++r) softmax_row(columns, x.row(r), y.row(r));
}

void backward_here(int rows, int columns, ConstRows dy, ConstRows y, bool add, Rows dx) {
  for (int r = 0; r < rows; ++r) backward_row(columns, dy.row(r), y.row(r), add, dx.row(r));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(softmax_here);
HWY_EXPORT(backward_here);
void softmax(int rows, int columns, ConstRows x, Rows y) { HWY_DYNAMIC_DISPATCH(softmax_here)(rows, columns, x, y); }
void softmax_backward(int rows, int columns, ConstRows dy, ConstRows y, bool add, Rows dx) {
  HWY_DYNAMIC_DISPATCH(backward_here)(rows, columns, dy, y, add, dx);
}

}  // namespace tapeformer::simd
#endif
