// SPDX-License-Identifier: Apache-2.0
// The transforms sort themselves (Stockham 1966): a pass of radix r reads r strands of one array and writes the other.
#include "framework/kernels/cpu/simd/fourier.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/fourier.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/tile.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

constexpr size_t kPair = 2 * static_cast<size_t>(kLanes);  // floats of a value: real parts, imaginary parts

struct Complex {
  V re, im;
};
HWY_INLINE Complex load_pair(const float* p) { return {hn::Load(D(), p), hn::Load(D(), p + kLanes)}; }
HWY_INLINE void store_pair(const Complex& z, float* p) {
  hn::Store(z.re, D(), p);
  hn::Store(z.im, D(), p + kLanes);
}
HWY_INLINE Complex operator+(const Complex& a, const Complex& b) { return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)}; }
HWY_INLINE Complex operator-(const Complex& a, const Complex& b) { return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)}; }
// -i z
HWY_INLINE Complex turned(const Complex& z) { return {z.im, hn::Neg(z.re)}; }
// z w for a pair w in memory.
HWY_INLINE Complex times(const Complex& z, const float* w) {
  const D d;
  const V re = hn::Set(d, w[0]), im = hn::Set(d, w[1]);
  return {hn::NegMulAdd(z.im, im, hn::Mul(z.re, re)), hn::MulAdd(z.im, re, hn::Mul(z.re, im))};
}

// a_k = sum over j of a_j exp(-2 pi i j k / R). `unit` is roots of unity, `step` apart for the R-th ones.
template <int R>
HWY_INLINE void butterfly(Complex (&a)[R], const float* unit, ptrdiff_t step) {
  if constexpr (R == 2) {
    const Complex sum = a[0] + a[1];
    a[1] = a[0] - a[1];
    a[0] = sum;
  } else if constexpr (R == 4) {
    const Complex s = a[0] + a[2], d = a[0] - a[2], t = a[1] + a[3], u = turned(a[1] - a[3]);
    a[0] = s + t;
    a[1] = d + u;
    a[2] = s - t;
    a[3] = d - u;
  } else {
    // Sums and differences of conjugate strands: a_j +- a_(R - j).
    const D d;
    constexpr int half = R / 2;
    Complex sum[half], difference[half], total = a[0];
    for (int j = 0; j < half; ++j) {
      sum[j] = a[j + 1] + a[R - 1 - j];
      difference[j] = turned(a[j + 1] - a[R - 1 - j]);
      total = total + sum[j];
    }
    for (int k = 1; k <= half; ++k) {
      Complex even = a[0], odd{hn::Zero(d), hn::Zero(d)};
      for (int j = 0; j < half; ++j) {
        const float* w = unit + 2 * step * ((j + 1) * k % R);
        const V c = hn::Set(d, w[0]), s = hn::Set(d, -w[1]);
        even = {hn::MulAdd(c, sum[j].re, even.re), hn::MulAdd(c, sum[j].im, even.im)};
        odd = {hn::MulAdd(s, difference[j].re, odd.re), hn::MulAdd(s, difference[j].im, odd.im)};
      }
      a[k] = even + odd;
      a[R - k] = even - odd;
    }
    a[0] = total;
  }
}

// `stride` values lie between neighbours of a transform of n_left = smooth / stride values.
template <int R>
HWY_INLINE void pass(const float* HWY_RESTRICT x, float* HWY_RESTRICT y, const FourierTransform& t, int stride) {
  const ptrdiff_t strand = t.smooth / R, parts = strand / stride, unit = t.smooth / R;
  for (ptrdiff_t p = 0; p < parts; ++p) {
    const float* roots = t.roots + 2 * p * stride;  // exp(-2 pi i p / n_left)
    for (ptrdiff_t q = 0; q < stride; ++q) {
      Complex a[R];
#pragma GCC unroll 8
      for (int j = 0; j < R; ++j) a[j] = load_pair(x + static_cast<size_t>(q + stride * p + strand * j) * kPair);
      butterfly<R>(a, t.roots, unit);
      float* const to = y + static_cast<size_t>(q + stride * R * p) * kPair;
      store_pair(a[0], to);
#pragma GCC unroll 8
      for (int k = 1; k < R; ++k)
        store_pair(p == 0 ? a[k] : times(a[k], roots + 2 * (k - 1) * p * stride), to + static_cast<size_t>(stride * k) * kPair);
    }
  }
}

// Transforms x in place; returns x or y, whichever holds the result.
HWY_INLINE float* transform(float* x, float* y, const FourierTransform& t) {
  int stride = 1;
  for (int i = 0; i < t.radix_count; ++i) {
    switch (t.radices[i]) {
      case 2:
        pass<2>(x, y, t, stride);
        break;
      case 3:
        pass<3>(x, y, t, stride);
        break;
      case 4:
        pass<4>(x, y, t, stride);
        break;
      case 5:
        pass<5>(x, y, t, stride);
        break;
      default:
        pass<7>(x, y, t, stride);
        break;
    }
    stride *= t.radices[i];
    float* const held = x;
    x = y;
    y = held;
  }
  return x;
}

HWY_INLINE Complex conjugate(const Complex& z) { return {z.re, hn::Neg(z.im)}; }

}  // namespace

int fourier_columns_here() { return kLanes; }
size_t fourier_scratch_here(const FourierTransform& t) { return 2 * kPair * static_cast<size_t>(t.smooth < 1 ? 1 : t.smooth); }

const float* fourier_here(const FourierTransform& t, ConstRows real, ConstRows imaginary, int rows, int columns, float* scratch) {
  float *x = scratch, *y = scratch + kPair * static_cast<size_t>(t.smooth);
  for (int r = 0; r < rows; ++r) {
    const Complex z{load_at(real.row(r), 0, columns), load_at(imaginary.row(r), 0, columns)};
    store_pair(t.chirp ? times(z, t.chirp + 2 * r) : z, x + static_cast<size_t>(r) * kPair);
  }
  const D d;
  for (size_t i = static_cast<size_t>(rows) * kPair; i < static_cast<size_t>(t.smooth) * kPair; i += kLanes) hn::Store(hn::Zero(d), d, x + i);
  float* result = transform(x, y, t);
  if (!t.chirp) return result;
  // The convolution with the chirp: an inverse transform is the conjugate of the transform of the conjugate.
  for (int k = 0; k < t.smooth; ++k) {
    float* const z = result + static_cast<size_t>(k) * kPair;
    store_pair(conjugate(times(load_pair(z), t.chirp_factor + 2 * k)), z);
  }
  result = transform(result, result == x ? y : x, t);
  for (int k = 0; k < t.length; ++k) {
    float* const z = result + static_cast<size_t>(k) * kPair;
    store_pair(times(conjugate(load_pair(z)), t.chirp + 2 * k), z);
  }
  return result;
}

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(fourier_columns_here);
HWY_EXPORT(fourier_scratch_here);
HWY_EXPORT(fourier_here);
int fourier_columns() { return HWY_DYNAMIC_DISPATCH(fourier_columns_here)(); }
size_t fourier_scratch(const FourierTransform& t) { return HWY_DYNAMIC_DISPATCH(fourier_scratch_here)(t); }
const float* fourier(const FourierTransform& t, ConstRows real, ConstRows imaginary, int rows, int columns, float* scratch) {
  return HWY_DYNAMIC_DISPATCH(fourier_here)(t, real, imaginary, rows, columns, scratch);
}

}  // namespace tapeformer::simd
#endif
