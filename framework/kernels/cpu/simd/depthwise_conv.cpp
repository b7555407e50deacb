// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/simd/depthwise_conv.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/depthwise_conv.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/tile.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

constexpr int kTogether = 8;  // rows of y, or taps, that are summed at once

// R rows of y from row r on, which all have the taps t0 ... t1 - 1.
template <int R>
HWY_INLINE void convolve(const DepthwiseConv& p, ptrdiff_t r, int t0, int t1) {
  const D d;
  const ptrdiff_t centre = (p.taps - 1) / 2;
  for (int c = 0; c < p.columns; c += kLanes) {
    V sum[R];
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) sum[i] = hn::Zero(d);
    for (int t = t0; t < t1; ++t) {
      const V w = hn::Set(d, p.kernel[t]);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) sum[i] = hn::MulAdd(w, load_at(p.x.row(r + i + t - centre), c, p.columns), sum[i]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      float* y = p.y.row(r + i);
      store_at(p.add ? hn::Add(load_at(y, c, p.columns), sum[i]) : sum[i], y, c, p.columns);
    }
  }
}

// Rows whose taps all lie inside the sequence.
struct Inside {
  ptrdiff_t first, last;
  Inside(const DepthwiseConv& p, ptrdiff_t from, ptrdiff_t to) : first((p.taps - 1) / 2), last(p.rows - (p.taps - 1) / 2) {
    if (first < from) first = from;
    if (last > to) last = to;
    if (last < first) last = first = from;
  }
};

int first_tap(const DepthwiseConv& p, ptrdiff_t r) {
  const ptrdiff_t t = (p.taps - 1) / 2 - r;
  return t > 0 ? static_cast<int>(t) : 0;
}
int end_tap(const DepthwiseConv& p, ptrdiff_t r) {
  const ptrdiff_t t = p.rows - r + (p.taps - 1) / 2;
  return t < p.taps ? static_cast<int>(t) : p.taps;
}

void depthwise_conv_here(const DepthwiseConv& p, ptrdiff_t first, ptrdiff_t last) {
  const Inside inside(p, first, last);
  for (ptrdiff_t r = first; r < last;)
    if (r >= inside.first && r + kTogether <= inside.last) {
      convolve<kTogether>(p, r, 0, p.taps);
      r += kTogether;
    } else {
      convolve<1>(p, r, first_tap(p, r), end_tap(p, r));
      ++r;
    }
}

// Adds dy_r x to the sums of the taps t ... t + K - 1.
template <int K>
HWY_INLINE void add_products(const DepthwiseConv& p, ConstRows dy, ptrdiff_t r, int t, V (&sum)[K]) {
  const ptrdiff_t centre = (p.taps - 1) / 2;
  for (int c = 0; c < p.columns; c += kLanes) {
    const V g = load_at(dy.row(r), c, p.columns);
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) sum[k] = hn::MulAdd(g, load_at(p.x.row(r + t + k - centre), c, p.columns), sum[k]);
  }
}

void depthwise_conv_weight_here(const DepthwiseConv& p, ConstRows dy, ptrdiff_t first, ptrdiff_t last, float* sums) {
  const D d;
  int t = 0;
  for (; t + kTogether <= p.taps; t += kTogether) {
    V sum[kTogether];
#pragma GCC unroll 8
    for (int k = 0; k < kTogether; ++k) sum[k] = hn::Zero(d);
    for (ptrdiff_t r = first; r < last; ++r)
      if (first_tap(p, r) <= t && t + kTogether <= end_tap(p, r)) {
        add_products<kTogether>(p, dy, r, t, sum);
      } else {
        for (int k = 0; k < kTogether; ++k) {
          V one[1] = {sum[k]};
          if (first_tap(p, r) <= t + k && t + k < end_tap(p, r)) add_products<1>(p, dy, r, t + k, one);
          sum[k] = one[0];
        }
      }
    for (int k = 0; k < kTogether; ++k) sums[t + k] = hn::GetLane(hn::SumOfLanes(d, sum[k]));
  }
  for (; t < p.taps; ++t) {
    V sum[1] = {hn::Zero(d)};
    for (ptrdiff_t r = first; r < last; ++r)
      if (first_tap(p, r) <= t && t < end_tap(p, r)) add_products<1>(p, dy, r, t, sum);
    sums[t] = hn::GetLane(hn::SumOfLanes(d, sum[0]));
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(depthwise_conv_here);
HWY_EXPORT(depthwise_conv_weight_here);
void depthwise_conv(const DepthwiseConv& call, ptrdiff_t first, ptrdiff_t last) {
  HWY_DYNAMIC_DISPATCH(depthwise_conv_here)(call, first, last);
}
void depthwise_conv_weight(const DepthwiseConv& call, ConstRows dy, ptrdiff_t first, ptrdiff_t last, float* sums) {
  HWY_DYNAMIC_DISPATCH(depthwise_conv_weight_here)(call, dy, first, last, sums);
}

}  // namespace tapeformer::simd
#endif
