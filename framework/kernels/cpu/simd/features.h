// SPDX-License-Identifier: Apache-2.0
// Feature maps of a tile of rows and their derivatives, for the instruction set being compiled. Exponents are kept in units of log 2.
#if defined(TAPEFORMER_SIMD_FEATURES_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPEFORMER_SIMD_FEATURES_H
#undef TAPEFORMER_SIMD_FEATURES_H
#else
#define TAPEFORMER_SIMD_FEATURES_H
#endif
#include "framework/kernels/cpu/simd/feature_attention.h"
#include "framework/kernels/cpu/simd/math.h"
#include "framework/kernels/cpu/simd/products.h"
#include "framework/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {

constexpr float kBitsPerNat = 1.44269504088896341f, kNatsPerBit = 0.693147180559945309f;

// sin and cos for |x| up to some thousands: reduced by multiples of pi / 2 in three parts, polynomials of Cephes on [-pi/4, pi/4].
HWY_INLINE void sine_cosine(V x, V& sine, V& cosine) {
  const D d;
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 12582912.f);  // 1.5 * 2^23: the low bits become the number of quarter turns
  const V t = hn::MulAdd(x, hn::Set(d, 0.636619772367581343f), magic);
  const V n = hn::Sub(t, magic);
  V r = hn::NegMulAdd(n, hn::Set(d, 1.5703125f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 4.837512969970703125e-4f), r);
  r = hn::NegMulAdd(n, hn::Set(d, 7.54978995489188216e-8f), r);
  const V z = hn::Mul(r, r);
  V s = hn::MulAdd(z, hn::Set(d, -1.9515295891e-4f), hn::Set(d, 8.3321608736e-3f));
  s = hn::MulAdd(s, z, hn::Set(d, -1.6666654611e-1f));
  s = hn::MulAdd(hn::Mul(s, z), r, r);
  V c = hn::MulAdd(z, hn::Set(d, 2.443315711809948e-5f), hn::Set(d, -1.388731625493765e-3f));
  c = hn::MulAdd(c, z, hn::Set(d, 4.166664568298827e-2f));
  c = hn::MulAdd(hn::Mul(c, z), z, hn::NegMulAdd(z, hn::Set(d, 0.5f), hn::Set(d, 1.f)));
  const auto turns = hn::BitCast(di, t), one = hn::Set(di, 1), two = hn::Set(di, 2);
  const auto odd = hn::MaskFromVec(hn::BitCast(d, hn::Neg(hn::And(turns, one))));
  const auto sign = [&](auto q) HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<30>(hn::And(q, two))); };
  sine = hn::Xor(hn::IfThenElse(odd, c, s), sign(turns));
  cosine = hn::Xor(hn::IfThenElse(odd, s, c), sign(hn::Add(turns, one)));
}

// What is known of a tile besides its features.
struct TileRows {
  alignas(64) float a[feature_tile];  // half the square of a scaled row (in bits); the length of a row; the sine of a row
  alignas(64) float b[feature_tile];  // the cosine of a row
};

constexpr int feature_width(int columns) { return round_up(columns, kCols) + row_padding; }

HWY_INLINE bool random_exponential(Feature map) { return map == Feature::positive || map == Feature::hyperbolic; }

// The input rows as the matrix takes them, zero up to round_up(input, kCols); the rows' own numbers.
HWY_INLINE void scale_input(const FeatureHead& p, const FeatureChunk& u, int first, int rows, float* HWY_RESTRICT out, TileRows& info) {
  const D d;
  const int ld = feature_width(p.input), end = round_up(p.input, kCols);
  for (int r = 0; r < rows; ++r) {
    const float* x = u.x.row(first + r);
    float* y = out + r * ld;
    V square = hn::Zero(d);
    for (int c = 0; c < end; c += kLanes) {
      const V v = c < p.input ? load_at(x, c, p.input) : hn::Zero(d);
      square = hn::MulAdd(v, v, square);
      hn::Store(v, d, y + c);
    }
    float scale = p.input_scale;
    if (random_exponential(p.map)) {
      info.a[r] = 0.5f * kBitsPerNat * p.input_scale * p.input_scale * sum_lanes(square);
    } else if (p.map == Feature::trigonometric) {
      info.a[r] = hn::GetLane(hn::Sqrt(hn::Set(d, sum_lanes(square))));
      scale = 1.f / (info.a[r] + p.added_length);
    }
    for (int c = 0; c < end; c += kLanes) hn::Store(hn::Mul(hn::Load(d, y + c), hn::Set(d, scale)), d, y + c);
  }
}

HWY_INLINE void row_waves(const FeatureChunk& u, int first, TileRows& info) {
  const D d;
  for (int r = 0; r < feature_tile; r += kLanes) {
    V s, c;
    sine_cosine(hn::Mul(hn::Iota(d, static_cast<float>(u.place + first + r + 1)), hn::Set(d, u.angle)), s, c);
    hn::Store(s, d, info.a + r);
    hn::Store(c, d, info.b + r);
  }
}

// The largest exponent of each row without the row's own term, as the maps with a matrix have it.
HWY_INLINE float largest(const FeatureHead& p, const float* u) {
  const D d;
  const int n = p.matrix_rows;
  V most = hn::Set(d, -3.0e38f), second = most;
  const bool pairs = p.map == Feature::hyperbolic;
  const auto at = [&](int c) HWY_ATTR { return pairs ? hn::Abs(hn::LoadU(d, u + c)) : hn::LoadU(d, u + c); };
  int c = 0;
  for (; c + 4 * kLanes <= n; c += 4 * kLanes) {
    most = hn::Max(most, hn::Max(at(c), at(c + kLanes)));
    second = hn::Max(second, hn::Max(at(c + 2 * kLanes), at(c + 3 * kLanes)));
  }
  most = hn::Max(most, second);
  for (; c < n; c += kLanes) {
    V v = load_at(u, c, n);
    if (p.map == Feature::hyperbolic) v = hn::Abs(v);
    if (HWY_UNLIKELY(c + kLanes > n)) v = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(n - c)), v, most);
    most = hn::Max(most, v);
  }
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

// f[0 .. features) from the products u = f[0 .. matrix_rows) of one row; `shift` is what exp's argument gets (in bits), offset comes on
// top.
HWY_INLINE void apply_matrix_map(const FeatureHead& p, float shift, float offset, float* HWY_RESTRICT f) {
  const D d;
  const int n = p.matrix_rows;
  const V t = hn::Set(d, shift), o = hn::Set(d, offset), scale = hn::Set(d, p.feature_scale);
  switch (p.map) {
    case Feature::positive:
      for (int c = 0; c < n; c += kLanes) store_at(hn::Add(exp2(hn::Add(hn::LoadU(d, f + c), t)), o), f, c, n);
      return;
    case Feature::hyperbolic:
      for (int c = 0; c < n; c += kLanes) {
        const V u = hn::LoadU(d, f + c);
        store_at(hn::Add(exp2(hn::Add(t, u)), o), f, c, n);
        store_at(hn::Add(exp2(hn::Sub(t, u)), o), f + n, c, n);
      }
      return;
    case Feature::relu:
      for (int c = 0; c < n; c += kLanes) store_at(hn::Add(Relu::value(hn::LoadU(d, f + c)), o), f, c, n);
      return;
    default:
      for (int c = 0; c < n; c += kLanes) {
        V s, k;
        sine_cosine(hn::LoadU(d, f + c), s, k);
        store_at(hn::Mul(s, scale), f, c, n);
        store_at(hn::Mul(k, scale), f + n, c, n);
      }
  }
}

// x + 1 or exp(x); NaN stays NaN.
HWY_INLINE V elu_plus_one(V x) {
  const V zero = hn::Zero(D());
  return hn::IfThenElse(hn::Lt(x, zero), exponential(hn::Min(x, zero)), hn::Add(x, hn::Set(D(), 1.f)));
}

// Features that come from x alone.
HWY_INLINE void apply_plain_map(const FeatureHead& p, const FeatureChunk& u, int first, int rows, const TileRows& info,
                                float* HWY_RESTRICT out) {
  const D d;
  const int ld = feature_width(p.features);
  for (int r = 0; r < rows; ++r) {
    const float* x = u.x.row(first + r);
    float* f = out + r * ld;
    for (int c = 0; c < p.input; c += kLanes) {
      const V v = load_at(x, c, p.input);
      if (p.map == Feature::cosine) {
        store_at(hn::Mul(Relu::value(v), hn::Set(d, info.a[r])), f, c, p.input);
        store_at(hn::Mul(Relu::value(v), hn::Set(d, info.b[r])), f + p.input, c, p.input);
      } else {
        const V bits = hn::Mul(v, hn::Set(d, kBitsPerNat));
        const V shown = p.map == Feature::softmax ? bits : p.map == Feature::elu ? elu_plus_one(v) : v;
        store_at(shown, f, c, p.features);
      }
    }
  }
}

// f = 2^(f - shift) for one row of logits in bits, the shift being one for all or one a column.
template <class Shift>
HWY_INLINE void exponentiate(int n, const Shift& shift, float* HWY_RESTRICT f) {
  for (int c = 0; c < n; c += kLanes) store_at(exp2(not_above(hn::Sub(load_at(f, c, n), shift(c)), 126.f)), f, c, n);
}
struct OneShift {
  float value;
  HWY_INLINE V operator()(int) const { return hn::Set(D(), value); }
};
struct ColumnShift {
  const float* values;
  HWY_INLINE V operator()(int c) const { return hn::LoadU(D(), values + c); }
};

// log2 of the sum of 2^f over one row.
HWY_INLINE float row_log_sum(int n, const float* f) {
  const D d;
  V most = hn::Set(d, -3.0e38f), sum = hn::Zero(d);
  for (int c = 0; c < n; c += kLanes) {
    V v = load_at(f, c, n);
    if (HWY_UNLIKELY(c + kLanes > n)) v = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(n - c)), v, most);
    most = hn::Max(most, v);
  }
  most = hn::MaxOfLanes(d, most);
  for (int c = 0; c < n; c += kLanes) sum = hn::Add(sum, first_only(exp2(hn::Sub(load_at(f, c, n), most)), n - c));
  return hn::GetLane(most) + __builtin_log2f(sum_lanes(sum));
}

// Turns df into the gradient of what the map was applied to: of the products with the matrix (the first matrix_rows columns), or of x.
// Returns the sum of <df, exp part> that the rows' squares get.
HWY_INLINE float pull_row(const FeatureHead& p, bool keys, float offset, const float* HWY_RESTRICT f, float* HWY_RESTRICT df) {
  const D d;
  const int n = p.matrix_rows;
  const V o = hn::Set(d, offset);
  V total = hn::Zero(d);
  switch (p.map) {
    case Feature::positive: {
      V second = hn::Zero(d);
      int c = 0;
      for (; c + 2 * kLanes <= n; c += 2 * kLanes) {
        const V a = hn::Mul(hn::LoadU(d, df + c), hn::Sub(hn::LoadU(d, f + c), o));
        const V b = hn::Mul(hn::LoadU(d, df + c + kLanes), hn::Sub(hn::LoadU(d, f + c + kLanes), o));
        total = hn::Add(total, a);
        second = hn::Add(second, b);
        hn::StoreU(a, d, df + c);
        hn::StoreU(b, d, df + c + kLanes);
      }
      total = hn::Add(total, second);
      for (; c < n; c += kLanes) {
        const V h = first_only(hn::Mul(load_at(df, c, n), hn::Sub(load_at(f, c, n), o)), n - c);
        total = hn::Add(total, h);
        store_at(h, df, c, n);
      }
      break;
    }
    case Feature::hyperbolic:
      for (int c = 0; c < n; c += kLanes) {
        const V a = first_only(hn::Mul(load_at(df, c, n), hn::Sub(load_at(f, c, n), o)), n - c);
        const V b = first_only(hn::Mul(load_at(df + n, c, n), hn::Sub(load_at(f + n, c, n), o)), n - c);
        total = hn::Add(total, hn::Add(a, b));
        store_at(hn::Sub(a, b), df, c, n);
      }
      break;
    case Feature::relu:
      for (int c = 0; c < n; c += kLanes) store_at(hn::IfThenElseZero(hn::Gt(load_at(f, c, n), o), load_at(df, c, n)), df, c, n);
      break;
    case Feature::trigonometric:
      for (int c = 0; c < n; c += kLanes)
        store_at(hn::NegMulAdd(load_at(df + n, c, n), load_at(f, c, n), hn::Mul(load_at(df, c, n), load_at(f + n, c, n))), df, c, n);
      break;
    case Feature::softmax:
      for (int c = 0; c < p.features; c += kLanes) {
        const V h = first_only(hn::Mul(load_at(df, c, p.features), load_at(f, c, p.features)), p.features - c);
        total = hn::Add(total, h);
        store_at(h, df, c, p.features);
      }
      if (!keys) {
        const V sum = hn::SumOfLanes(d, total);
        for (int c = 0; c < p.features; c += kLanes)
          store_at(hn::NegMulAdd(sum, load_at(f, c, p.features), load_at(df, c, p.features)), df, c, p.features);
      }
      break;
    case Feature::elu:  // the slope is 1 where f >= 1, and f itself where x < 0
      for (int c = 0; c < p.features; c += kLanes)
        store_at(hn::Mul(load_at(df, c, p.features), hn::Min(load_at(f, c, p.features), hn::Set(d, 1.f))), df, c, p.features);
      break;
    default:
      break;
  }
  return sum_lanes(total);
}

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();
#endif
