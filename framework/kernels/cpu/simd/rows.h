// SPDX-License-Identifier: Apache-2.0
// Passes over rows that are in cache: LayerNorm forward and backward, dropout, sums of columns, for the instruction set being compiled.
// Scratch rows have room for round_up(width, kCols) floats; what lies beyond the width is written as 0.
#if defined(TAPEFORMER_SIMD_ROWS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPEFORMER_SIMD_ROWS_H
#undef TAPEFORMER_SIMD_ROWS_H
#else
#define TAPEFORMER_SIMD_ROWS_H
#endif
#include "framework/kernels/cpu/simd/drop.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {

HWY_INLINE float sum_lanes(V v) { return hn::GetLane(hn::SumOfLanes(D(), v)); }

// v, with 0 in place of the elements from n on.
HWY_INLINE V first_only(V v, int n) {
  return HWY_LIKELY(n >= kLanes) ? v : hn::IfThenElseZero(hn::FirstN(D(), static_cast<size_t>(n < 0 ? 0 : n)), v);
}

// LayerNorm over K columns (gain null: the rows pass unchanged).
struct Norm {
  int K = 0;
  const float *gain = nullptr, *shift = nullptr;
};

HWY_INLINE void norm_statistics(const float* x, int K, float epsilon, float& mean, float& rstd) {
  const D d;
  V s = hn::Zero(d);
  for (int c = 0; c < K; c += kLanes) s = hn::Add(s, load_at(x, c, K));
  mean = sum_lanes(s) / static_cast<float>(K);
  const V m = hn::Set(d, mean);
  s = hn::Zero(d);
  for (int c = 0; c < K; c += kLanes) {
    const V t = first_only(hn::Sub(load_at(x, c, K), m), K - c);
    s = hn::MulAdd(t, t, s);
  }
  rstd = hn::GetLane(hn::Div(hn::Set(d, 1.f), hn::Sqrt(hn::Set(d, sum_lanes(s) / static_cast<float>(K) + epsilon))));
}

// h = (x - mean) rstd gain + shift, or x.
HWY_INLINE void norm_row(const Norm& p, const float* x, float mean, float rstd, float* h) {
  const D d;
  const int end = round_up(p.K, kCols);
  if (!p.gain) {
    for (int c = 0; c < end; c += kLanes) hn::Store(load_at(x, c, p.K), d, h + c);
    return;
  }
  const V m = hn::Set(d, mean), s = hn::Set(d, rstd);
  for (int c = 0; c < end; c += kLanes) {
    const V n = hn::Mul(hn::Sub(load_at(x, c, p.K), m), s);
    hn::Store(first_only(hn::MulAdd(n, load_at(p.gain, c, p.K), load_at(p.shift, c, p.K)), p.K - c), d, h + c);
  }
}

// dx (+)= rstd (g - avg(g) - h avg(g h)) with h = (x - mean) rstd and g = gain dh; without norm dx (+)= dh.
HWY_INLINE void norm_backward_row(const Norm& p, const float* x, float mean, float rstd, const float* dh, bool add, float* dx) {
  const D d;
  const int K = p.K;
  if (!p.gain) {
    for (int c = 0; c < K; c += kLanes) {
      const V v = load_at(dh, c, K);
      store_at(add ? hn::Add(load_at(dx, c, K), v) : v, dx, c, K);
    }
    return;
  }
  const V m = hn::Set(d, mean), s = hn::Set(d, rstd);
  V sum = hn::Zero(d), dot = hn::Zero(d);
  for (int c = 0; c < K; c += kLanes) {
    const V n = hn::Mul(hn::Sub(load_at(x, c, K), m), s), g = hn::Mul(load_at(dh, c, K), load_at(p.gain, c, K));
    sum = hn::Add(sum, g);
    dot = hn::MulAdd(g, n, dot);
  }
  const V a0 = hn::Set(d, sum_lanes(sum) / static_cast<float>(K)), a1 = hn::Set(d, sum_lanes(dot) / static_cast<float>(K));
  for (int c = 0; c < K; c += kLanes) {
    const V n = hn::Mul(hn::Sub(load_at(x, c, K), m), s), g = hn::Mul(load_at(dh, c, K), load_at(p.gain, c, K));
    const V v = hn::Mul(s, hn::Sub(g, hn::MulAdd(n, a1, a0)));
    store_at(add ? hn::Add(load_at(dx, c, K), v) : v, dx, c, K);
  }
}

// dgain (+)= sum over rows of dh (x - mean) rstd, dshift (+)= sum of dh; both have room for round_up(K, kLanes).
HWY_INLINE void norm_gradients(int rows, int K, ConstRows x, const float* mean, const float* rstd, const float* dh, size_t ldh, bool add,
                               float* dgain, float* dshift) {
  const D d;
  for (int c = 0; c < K; c += kLanes) {
    V g = add ? hn::Load(d, dgain + c) : hn::Zero(d), b = add ? hn::Load(d, dshift + c) : hn::Zero(d);
    for (int r = 0; r < rows; ++r) {
      const V v = load_at(dh + r * ldh, c, K);
      const V n = hn::Mul(hn::Sub(load_at(x.row(r), c, K), hn::Set(d, mean[r])), hn::Set(d, rstd[r]));
      g = hn::MulAdd(v, n, g);
      b = hn::Add(b, v);
    }
    hn::Store(g, d, dgain + c);
    hn::Store(b, d, dshift + c);
  }
}

// out[c] (+)= sum over rows of x, scratch rows.
HWY_INLINE void column_sums(int rows, int width, const float* x, size_t ldx, bool add, float* out) {
  const D d;
  int c = 0;
  for (; c + 4 * kLanes <= width; c += 4 * kLanes) {  // four sums hide the latency of an addition
    V s[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) s[i] = add ? hn::Load(d, out + c + i * kLanes) : hn::Zero(d);
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) s[i] = hn::Add(s[i], hn::LoadU(d, x + r * ldx + c + i * kLanes));
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) hn::Store(s[i], d, out + c + i * kLanes);
  }
  for (; c < width; c += kLanes) {
    V s = add ? hn::Load(d, out + c) : hn::Zero(d);
    for (int r = 0; r < rows; ++r) s = hn::Add(s, hn::LoadU(d, x + r * ldx + c));
    hn::Store(s, d, out + c);
  }
}

// z = x, dropped as row r; z is scratch.
HWY_INLINE void dropped_row(const Drop& drop, ptrdiff_t r, const float* x, int width, float* z) {
  const D d;
  const int end = round_up(width, kCols);
  if (drop.on()) drop.each(r, 0, end, [&](int c, Dropped some) HWY_ATTR { hn::Store(drop.apply(load_at(x, c, width), some), d, z + c); });
  else
    for (int c = 0; c < end; c += kLanes) hn::Store(load_at(x, c, width), d, z + c);
}

// y = residual + z, dropped as row r; z is scratch.
HWY_INLINE void residual_row(const Drop& drop, ptrdiff_t r, const float* z, const float* residual, int width, float* y) {
  const D d;
  if (drop.on())
    drop.each(r, 0, width, [&](int c, Dropped some) HWY_ATTR {
      store_at(hn::Add(drop.apply(hn::Load(d, z + c), some), load_at(residual, c, width)), y, c, width);
    });
  else
    for (int c = 0; c < width; c += kLanes) store_at(hn::Add(load_at(residual, c, width), hn::Load(d, z + c)), y, c, width);
}

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();
#endif
