// SPDX-License-Identifier: Apache-2.0
// Sums that grow from row to row and are read at each: the state of causal attention on feature maps, downwards, and its gradient, upwards,
// for the instruction set being compiled. Three rows at a time add their products to an element and read it, so that no row sees another
// one's key too early and the element is loaded and stored once for the three.
#if defined(TAPEFORMER_SIMD_CAUSAL_SCAN_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPEFORMER_SIMD_CAUSAL_SCAN_H
#undef TAPEFORMER_SIMD_CAUSAL_SCAN_H
#else
#define TAPEFORMER_SIMD_CAUSAL_SCAN_H
#endif
#include "framework/kernels/cpu/simd/causal_features.h"
#include "framework/kernels/cpu/simd/feature_tiles.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {

// Besides what a tile has otherwise: the features of the other side, [n, e], sums over rows, factors, 1 / z (softmax).
struct CausalWork : Work {
  float *other, *n, *values, *factors, *inverse_z;
  int ld_factors;
  CausalWork(const FeatureHead& p, float* scratch) : Work(p, scratch), ld_factors(shifts_per_key(p) > 1 ? ldf : 1) {
    const auto take = [&](int rows, int ld) {
      float* const at = scratch ? scratch + used : nullptr;
      used += (static_cast<size_t>(rows) * static_cast<size_t>(ld) + 15) / 16 * 16;
      return at;
    };
    other = take(feature_tile, ldf);
    n = take(feature_tile, ldv);
    values = take(1, ldv);
    factors = take(feature_tile, ld_factors);
    inverse_z = take(1, ldf);
  }
  void swap_sides() {
    float* const mine = f;
    f = other;
    other = mine;
  }
};

// One operand of a scan: a row of it every `step` floats, backwards where that is negative.
struct ScanRows {
  const float* first;
  ptrdiff_t step;
  HWY_INLINE const float* row(int r) const { return first + r * step; }
};

// For each row r in order: X[a][b] += p_r[a] w_r[b], then out_r[b] = sum over a of c_r[a] X[a][b]. X has one panel for every kCols of b.
struct Scan {
  int depth, width;  // of a and b
  float* X;
  ScanRows p, w, c;
  float* out;
  ptrdiff_t out_step;
  bool features_first;  // a counts features, b channels; or the other way round
};

// What X is multiplied by before a row, because its sums are kept in the scale of that row's key: exp(-shift) downwards, where X is a sum
// of keys' features, exp(shift) upwards, where it is a gradient of them. Shifts do not fall from row to row (but by a rounding where a
// chunk begins), so factors are at most 1.
struct Scales {
  int count = 0;  // factors of a row: 0 (the map has no shifts), 1, or one for each feature
  ScanRows factors{nullptr, 0};
  uint8_t changes[feature_tile] = {};  // for each row of the scan

  // `first`: the shifts of the scan's first row, the next row's `step` further on (upwards negative); `before`: those of what X holds, null
  // if it is 0.
  HWY_INLINE void fill(const FeatureHead& p, int rows, const float* first, ptrdiff_t step, const float* before, const CausalWork& w) {
    const D d;
    count = shifts_per_key(p);
    factors = {w.factors, w.ld_factors};
    const V sign = hn::Set(d, step > 0 ? kBitsPerNat : -kBitsPerNat);
    for (int r = 0; r < rows && count > 0; ++r, before = first, first += step) {
      if (!before) continue;
      float* const to = w.factors + r * w.ld_factors;
      for (int c = 0; c < count; ++c) changes[r] |= first[c] != before[c];
      for (int c = 0; changes[r] && c < count; c += kLanes)
        store_at(exp2(not_above(hn::Mul(hn::Sub(load_at(before, c, count), load_at(first, c, count)), sign), 126.f)), to, c, count);
    }
  }
  HWY_INLINE V of_features(int r, int c) const { return count == 1 ? hn::Set(D(), *factors.row(r)) : load_at(factors.row(r), c, count); }
  HWY_INLINE void apply(int r, const Scan& s, int panel) const {
    const D d;
    float* const X = s.X + static_cast<ptrdiff_t>(panel) * s.depth * kCols;
    for (int a = 0; a < s.depth; ++a)
      for (int c = 0; c < kCols; c += kLanes) {
        const bool one = count == 1 || s.features_first;
        const int feature = panel * kCols + c;
        const V by = one               ? hn::Set(d, factors.row(r)[count == 1 ? 0 : a])
                     : feature < count ? load_at(factors.row(r), feature, count)
                                       : hn::Zero(d);
        hn::Store(hn::Mul(hn::Load(d, X + a * kCols + c), by), d, X + a * kCols + c);
      }
  }
  // x = x * the row's factors + y, for all features.
  HWY_INLINE void accumulate(int r, int n, const float* HWY_RESTRICT y, float* HWY_RESTRICT x) const {
    for (int c = 0; c < n; c += kLanes) {
      const V old = load_at(x, c, n);
      store_at(hn::Add(changes[r] ? hn::Mul(old, of_features(r, c)) : old, load_at(y, c, n)), x, c, n);
    }
  }
};

template <int R>
HWY_INLINE void scan_rows(const Scan& s, int first, int panel) {
  const D d;
  float* HWY_RESTRICT X = s.X + static_cast<ptrdiff_t>(panel) * s.depth * kCols;
  V w[R][2], sum[R][2];
  const float *p[R], *c[R];
#pragma GCC unroll 3
  for (int r = 0; r < R; ++r) {
    p[r] = s.p.row(first + r);
    c[r] = s.c.row(first + r);
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      w[r][j] = hn::LoadU(d, s.w.row(first + r) + panel * kCols + j * kLanes);
      sum[r][j] = hn::Zero(d);
    }
  }
  for (int a = 0; a < s.depth; ++a) {
    V x[2] = {hn::Load(d, X + a * kCols), hn::Load(d, X + a * kCols + kLanes)};
#pragma GCC unroll 3
    for (int r = 0; r < R; ++r) {
      const V pa = hn::Set(d, p[r][a]), ca = hn::Set(d, c[r][a]);
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        x[j] = hn::MulAdd(pa, w[r][j], x[j]);
        sum[r][j] = hn::MulAdd(ca, x[j], sum[r][j]);
      }
    }
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) hn::Store(x[j], d, X + a * kCols + j * kLanes);
  }
#pragma GCC unroll 3
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) hn::StoreU(sum[r][j], d, s.out + (first + r) * s.out_step + panel * kCols + j * kLanes);
}

// How rows are grouped does not change a byte: each element of X and each sum is one chain in the order of the rows and of a.
HWY_INLINE void scan(const Scan& s, int rows, const Scales& scales) {
  for (int panel = 0; panel < blocks_of(s.width); ++panel)
    for (int r = 0; r < rows;) {
      if (scales.changes[r]) scales.apply(r, s, panel);
      int group = 1;
      while (group < 3 && r + group < rows && !scales.changes[r + group]) ++group;
      if (group == 3) scan_rows<3>(s, r, panel);
      else if (group == 2) scan_rows<2>(s, r, panel);
      else scan_rows<1>(s, r, panel);
      r += group;
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();
#endif
