// SPDX-License-Identifier: Apache-2.0
// Elementary functions of whole vectors, for the instruction set being compiled: exp2, the normal distribution function, GELU and ReLU.
#if defined(TAPEFORMER_SIMD_MATH_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPEFORMER_SIMD_MATH_H
#undef TAPEFORMER_SIMD_MATH_H
#else
#define TAPEFORMER_SIMD_MATH_H
#endif
#include "framework/kernels/cpu/simd/tile.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {

// max(x, low) and min(x, high) that leave a NaN a NaN: on x86 the second operand of the hardware's decides, the scalar fallback compares.
HWY_INLINE V not_below(V x, float low) {
  const D d;
#if HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, low)), hn::Set(d, low), x);
#else
  return hn::Max(hn::Set(d, low), x);
#endif
}
HWY_INLINE V not_above(V x, float high) {
  const D d;
#if HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, high)), hn::Set(d, high), x);
#else
  return hn::Min(hn::Set(d, high), x);
#endif
}

// 2^x for x <= 127; NaN for NaN; exactly 0 below -126.5. Relative error below 2e-7.
HWY_INLINE V exp2(V x) {
  const D d;
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 12582912.f + 127.f);  // 1.5 * 2^23 + the exponent's bias: the low bits become n + 127
  x = not_below(x, -127.f);
  const V t = hn::Add(x, magic);
  const V f = hn::Sub(x, hn::Sub(t, magic));
  V p = hn::Set(d, 1.327647196e-3f);
  p = hn::MulAdd(p, f, hn::Set(d, 9.675541503e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 5.550713275e-2f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.402211972e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 6.931469671e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.000000072f));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, t))));
}

HWY_INLINE V lowest() { return hn::Neg(hn::Inf(D())); }
HWY_INLINE V exponential(V x) { return exp2(hn::Mul(x, hn::Set(D(), 1.44269504088896341f))); }
// x, or NaN where sum is: Log of a NaN is not one.
HWY_INLINE V or_nan(V sum, V x) { return hn::IfThenElse(hn::IsNaN(sum), sum, x); }

// e^(-x^2/2), and the standard normal distribution function as 1 - e^(-x^2/2) t q(t) with t = 1 / (1 + 0.34 |x|): the form of Hastings
// (Abramowitz, Stegun 7.1.26) with two more terms, fitted to a relative error of 8e-8 of the tail up to |x| = 5.5.
struct Normal {
  V density, distribution;  // density without its factor 1 / sqrt(2 pi)
};
HWY_INLINE Normal normal(V x) {
  const D d;
  const V one = hn::Set(d, 1.f);
  const V e = exp2(hn::Mul(hn::Mul(x, x), hn::Set(d, -0.72134752f)));
  const V t = hn::Div(one, hn::MulAdd(hn::Abs(x), hn::Set(d, 0.34f), one));
  V q = hn::Set(d, 0.04712835597f);
  q = hn::MulAdd(q, t, hn::Set(d, -0.2102709702f));
  q = hn::MulAdd(q, t, hn::Set(d, 0.280928877f));
  q = hn::MulAdd(q, t, hn::Set(d, -0.04593227799f));
  q = hn::MulAdd(q, t, hn::Set(d, 0.1641103907f));
  q = hn::MulAdd(q, t, hn::Set(d, 0.1278117669f));
  q = hn::MulAdd(q, t, hn::Set(d, 0.1362238987f));
  const V tail = hn::Mul(hn::Mul(q, t), e);
  return {e, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail))};
}

// 1 / (1 + e^-x).
HWY_INLINE V sigmoid(V x) {
  const D d;
  const V one = hn::Set(d, 1.f);
  return hn::Div(one, hn::Add(one, exp2(not_above(hn::Mul(x, hn::Set(d, -1.44269504f)), 126.f))));
}

// An activation is a type with value(x) = f(x) and both(x) = f(x) and f'(x).
struct ValueSlope {
  V value, slope;
};
struct Identity {
  static HWY_INLINE V value(V x) { return x; }
  static HWY_INLINE ValueSlope both(V x) { return {x, hn::Set(D(), 1.f)}; }
};
// A NaN stays a NaN: max(x, 0) of the hardware would turn it into 0.
struct Relu {
  static HWY_INLINE V value(V x) { return hn::IfThenElse(hn::Lt(x, hn::Zero(D())), hn::Zero(D()), x); }
  static HWY_INLINE ValueSlope both(V x) { return {value(x), hn::IfThenElseZero(hn::Gt(x, hn::Zero(D())), hn::Set(D(), 1.f))}; }
};
struct Gelu {
  static HWY_INLINE V value(V x) { return hn::Mul(x, normal(x).distribution); }
  static HWY_INLINE ValueSlope both(V x) {
    const Normal n = normal(x);
    return {hn::Mul(x, n.distribution), hn::MulAdd(hn::Mul(x, hn::Set(D(), 0.3989422804f)), n.density, n.distribution)};
  }
};
// x sigmoid(2 y) with y = sqrt(2/pi) (x + 0.044715 x^3), which equals x (1 + tanh y) / 2.
struct GeluTanh {
  static HWY_INLINE V twice_y(V x, V xx) {
    return hn::Mul(x, hn::MulAdd(xx, hn::Set(D(), 2 * 0.7978845608f * 0.044715f), hn::Set(D(), 2 * 0.7978845608f)));
  }
  static HWY_INLINE V value(V x) { return hn::Mul(x, sigmoid(twice_y(x, hn::Mul(x, x)))); }
  static HWY_INLINE ValueSlope both(V x) {
    const D d;
    const V xx = hn::Mul(x, x), s = sigmoid(twice_y(x, xx));
    const V dy = hn::MulAdd(xx, hn::Set(d, 6 * 0.7978845608f * 0.044715f), hn::Set(d, 2 * 0.7978845608f));
    const V xs = hn::Mul(x, s);
    return {xs, hn::MulAdd(hn::Mul(xs, hn::Sub(hn::Set(d, 1.f), s)), dy, s)};
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();
#endif
