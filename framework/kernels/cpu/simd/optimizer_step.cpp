// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/simd/optimizer_step.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/optimizer_step.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/tile.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

// clip(scale g) + decay p. Comparisons, not min and max: a NaN stays one.
HWY_INLINE V scaled(V g, V p, float scale, float clip, float decay) {
  const D d;
  g = hn::Mul(g, hn::Set(d, scale));
  if (clip > 0) {
    const V most = hn::Set(d, clip), least = hn::Set(d, -clip);
    g = hn::IfThenElse(hn::Gt(g, most), most, hn::IfThenElse(hn::Lt(g, least), least, g));
  }
  return decay == 0 ? g : hn::MulAdd(hn::Set(d, decay), p, g);
}

HWY_INLINE V load_left(const float* p, ptrdiff_t left) {
  return HWY_LIKELY(left >= kLanes) ? hn::LoadU(D(), p) : load_some(p, static_cast<int>(left));
}
HWY_INLINE void store_left(V v, float* p, ptrdiff_t left) {
  if (HWY_LIKELY(left >= kLanes)) hn::StoreU(v, D(), p);
  else store_some(v, p, static_cast<int>(left));
}

}  // namespace

void adam_here(const AdamPass& s, ptrdiff_t n, const float* gradient, float* parameter, float* exp_avg, float* exp_avg_sq) {
  const D d;
  for (ptrdiff_t i = 0; i < n; i += kLanes) {
    const ptrdiff_t left = n - i;
    const V p = load_left(parameter + i, left), g = scaled(load_left(gradient + i, left), p, s.scale, s.clip, s.decay);
    const V m = hn::MulAdd(hn::Set(d, s.beta1), load_left(exp_avg + i, left), hn::Mul(hn::Set(d, s.one_minus_beta1), g));
    const V v = hn::MulAdd(hn::Set(d, s.beta2), load_left(exp_avg_sq + i, left), hn::Mul(hn::Mul(hn::Set(d, s.one_minus_beta2), g), g));
    const V below = hn::MulAdd(hn::Sqrt(v), hn::Set(d, s.root), hn::Set(d, s.epsilon));
    const V step = hn::Div(hn::Mul(hn::Set(d, s.step), m), below);
    store_left(m, exp_avg + i, left);
    store_left(v, exp_avg_sq + i, left);
    store_left(hn::Sub(hn::Mul(hn::Set(d, s.keep), p), step), parameter + i, left);
  }
}

void sgd_here(const SgdPass& s, ptrdiff_t n, const float* gradient, float* parameter, float* momentum) {
  const D d;
  for (ptrdiff_t i = 0; i < n; i += kLanes) {
    const ptrdiff_t left = n - i;
    const V p = load_left(parameter + i, left);
    V b = scaled(load_left(gradient + i, left), p, s.scale, s.clip, s.decay);
    if (momentum) {
      b = hn::MulAdd(hn::Set(d, s.momentum), load_left(momentum + i, left), b);
      store_left(b, momentum + i, left);
    }
    store_left(hn::NegMulAdd(hn::Set(d, s.rate), b, p), parameter + i, left);
  }
}

void average_here(float decay, float rest, ptrdiff_t n, const float* value, float* average) {
  const D d;
  for (ptrdiff_t i = 0; i < n; i += kLanes) {
    const ptrdiff_t left = n - i;
    const V kept = hn::Mul(hn::Set(d, decay), load_left(average + i, left));
    store_left(hn::MulAdd(hn::Set(d, rest), load_left(value + i, left), kept), average + i, left);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(adam_here);
HWY_EXPORT(sgd_here);
HWY_EXPORT(average_here);

void adam_pass(const AdamPass& s, ptrdiff_t n, const float* gradient, float* parameter, float* exp_avg, float* exp_avg_sq) {
  HWY_DYNAMIC_DISPATCH(adam_here)(s, n, gradient, parameter, exp_avg, exp_avg_sq);
}
void sgd_pass(const SgdPass& s, ptrdiff_t n, const float* gradient, float* parameter, float* momentum) {
  HWY_DYNAMIC_DISPATCH(sgd_here)(s, n, gradient, parameter, momentum);
}
void average_pass(float decay, float rest, ptrdiff_t n, const float* value, float* average) {
  HWY_DYNAMIC_DISPATCH(average_here)(decay, rest, n, value, average);
}

}  // namespace tapeformer::simd
#endif
