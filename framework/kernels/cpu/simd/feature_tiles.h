// SPDX-License-Identifier: Apache-2.0
// Tiles of rows of linear attention on feature maps: their features, the gradients that reach them, and the way from there to the input,
// for the instruction set being compiled.
#if defined(TAPEFORMER_SIMD_FEATURE_TILES_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPEFORMER_SIMD_FEATURE_TILES_H
#undef TAPEFORMER_SIMD_FEATURE_TILES_H
#else
#define TAPEFORMER_SIMD_FEATURE_TILES_H
#endif
#include "framework/kernels/cpu/simd/features.h"
#include "framework/kernels/cpu/simd/panels.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {

// The widths and arrays of one call, cut from its scratch.
struct Work {
  int ldf, ldx, ldv;
  size_t used = 0;              // floats of scratch
  float *x, *f, *df, *v, *out;  // scaled input; features; their gradient; [v, 1] or [n, e]; results
  float *panels, *transposed, *z;
  TileRows info;

  // Without scratch only `used` is found.
  Work(const FeatureHead& p, float* scratch) : ldf(feature_width(p.features)), ldx(feature_width(p.input)), ldv(feature_width(p.dims + 1)) {
    const auto take = [&](size_t floats) {
      float* const at = scratch ? scratch + used : nullptr;
      used += (floats + 15) / 16 * 16;
      return at;
    };
    const auto tile = [&](int ld) { return take(static_cast<size_t>(feature_tile) * static_cast<size_t>(ld)); };
    x = tile(ldx);
    f = tile(ldf);
    df = tile(ldf);
    v = tile(ldv);
    out = tile(ldv > ldx ? ldv : ldx);
    panels = take(static_cast<size_t>(round_up(p.dims, kCols)) * static_cast<size_t>(p.features));
    transposed = take(static_cast<size_t>(round_up(p.features, kCols)) * static_cast<size_t>(p.dims + 1));
    z = take(static_cast<size_t>(ldf));
  }
};

constexpr int blocks_of(int n) { return (n + kCols - 1) / kCols; }

// Asks for the rows of the tile after the one at `first`: a head's columns are too few lines a row for the hardware to guess.
HWY_INLINE void prefetch_next(const FeatureChunk& u, ConstRows x, int first, int columns) {
  const int last = smaller(u.rows, first + 2 * feature_tile);
  for (int r = first + feature_tile; r < last; ++r)
    for (int c = 0; c < columns; c += 16) __builtin_prefetch(x.row(r) + c);
}

// out[r] = [x[r], last[r]], zero up to kCols.
HWY_INLINE void pack_with_last(ConstRows x, int first, int rows, int dims, float last, int ld, float* HWY_RESTRICT out) {
  const D d;
  for (int r = 0; r < rows; ++r) {
    float* row = out + r * ld;
    for (int c = 0; c < round_up(dims + 1, kCols); c += kLanes)
      hn::Store(c < dims ? load_at(x.row(first + r), c, dims) : hn::Zero(d), d, row + c);
    row[dims] = last;
  }
}

// The products of the matrix with the scaled input, or what the map makes of x alone; exp is still to come.
HWY_INLINE void start_features(const FeatureHead& p, const FeatureChunk& u, int first, int rows, Work& w) {
  prefetch_next(u, u.x, first, p.input);
  if (p.map == Feature::cosine) row_waves(u, first, w.info);
  if (p.matrix_rows == 0) return apply_plain_map(p, u, first, rows, w.info, w.f);
  scale_input(p, u, first, rows, w.x, w.info);
  multiply_panels(rows, p.matrix_rows, p.input, w.x, static_cast<size_t>(w.ldx), p.panels, static_cast<size_t>(p.input * kCols), {}, w.f,
                  static_cast<size_t>(w.ldf));
}

// log2 of the factor of all features, which exp's argument gets.
HWY_INLINE float log_scale(const FeatureHead& p) { return __builtin_log2f(p.feature_scale); }
HWY_INLINE float own_term(const FeatureHead& p, const TileRows& info, int r) { return random_exponential(p.map) ? info.a[r] : 0; }

// Features of queries, offset included. Shifts are written unless they are given.
HWY_INLINE void query_features(const FeatureHead& p, const FeatureChunk& u, int first, int rows, bool given, Work& w) {
  start_features(p, u, first, rows, w);
  for (int r = 0; r < rows; ++r) {
    float* f = w.f + r * w.ldf;
    const float own = own_term(p, w.info, r);
    float shift = 0;
    if (random_exponential(p.map)) {
      if (!given) u.shift[first + r] = (largest(p, f) - own) * kNatsPerBit;
      shift = log_scale(p) - own - u.shift[first + r] * kBitsPerNat;
    }
    if (p.matrix_rows > 0) apply_matrix_map(p, shift, p.offset, f);
    if (p.map != Feature::softmax) continue;
    if (!given) u.shift[first + r] = row_log_sum(p.features, f) * kNatsPerBit;
    exponentiate(p.features, OneShift{u.shift[first + r] * kBitsPerNat}, f);
  }
}

HWY_INLINE float dot(int n, const float* a, const float* b) {
  const D d;
  V sum = hn::Zero(d), second = sum;
  int c = 0;
  for (; c + 2 * kLanes <= n; c += 2 * kLanes) {
    sum = hn::MulAdd(hn::LoadU(d, a + c), hn::LoadU(d, b + c), sum);
    second = hn::MulAdd(hn::LoadU(d, a + c + kLanes), hn::LoadU(d, b + c + kLanes), second);
  }
  sum = hn::Add(sum, second);
  for (; c + kLanes <= n; c += kLanes) sum = hn::MulAdd(hn::LoadU(d, a + c), hn::LoadU(d, b + c), sum);
  if (c < n) sum = hn::MulAdd(load_some(a + c, n - c), load_some(b + c, n - c), sum);
  return sum_lanes(sum);
}

// z . f as it is kept to what o is divided by.
HWY_INLINE float divisor(const FeatureHead& p, float kept) {
  if (p.denominator == Denominate::none) return 1;
  if (p.denominator == Denominate::add) return kept;
  const float size = kept < 0 ? -kept : kept;
  return size < p.epsilon ? p.epsilon : size;
}
// The sign with which z . f stands in the divisor, 0 where it does not.
HWY_INLINE float divisor_slope(const FeatureHead& p, float kept) {
  if (p.denominator == Denominate::none) return 0;
  if (p.denominator == Denominate::add) return 1;
  return kept > p.epsilon ? 1.f : kept < -p.epsilon ? -1.f : kept != kept ? kept : 0.f;
}

HWY_INLINE ConstRows state_rows(const FeatureHead& p, const float* state) { return {state, p.dims + 1}; }
HWY_INLINE void pack_z(const FeatureHead& p, const float* state, float* HWY_RESTRICT z) {
  for (int r = 0; r < p.features; ++r) z[r] = state[r * (p.dims + 1) + p.dims];
}

// [n, e] of the kernel's formula for a tile: do / den, and -<do, o> / den as far as the divisor has z . f in it.
HWY_INLINE void output_gradients(const FeatureHead& p, ConstRows o, const float* denominator, ConstRows d_o, int first, int rows, int ld,
                                 float* HWY_RESTRICT out) {
  const D d;
  pack_with_last(d_o, first, rows, p.dims, 0, ld, out);
  for (int r = 0; r < rows; ++r) {
    float* n = out + r * ld;
    const float kept = denominator[first + r];
    const V inverse = hn::Set(d, 1.f / divisor(p, kept));
    for (int c = 0; c < p.dims; c += kLanes) hn::Store(hn::Mul(hn::Load(d, n + c), inverse), d, n + c);
    n[p.dims] = -divisor_slope(p, kept) * dot(p.dims, o.row(first + r), n);
  }
}

// out[c] += sum over rows of weight[r] x[r][c].
HWY_INLINE void weighted_column_sums(int rows, int width, const float* x, int ldx, const float* weight, int ldw, float* out) {
  const D d;
  for (int c = 0; c < width; c += 4 * kLanes) {
    const int vectors = smaller(4, (width - c + kLanes - 1) / kLanes);
    V sum[4];
    for (int i = 0; i < 4; ++i) sum[i] = i < vectors ? hn::Load(d, out + c + i * kLanes) : hn::Zero(d);
    for (int r = 0; r < rows; ++r) {
      const V by = hn::Set(d, weight[r * ldw]);
      const float* row = x + r * ldx + c;
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sum[i] = hn::MulAdd(by, hn::LoadU(d, row + smaller(i, vectors - 1) * kLanes), sum[i]);
    }
    for (int i = 0; i < vectors; ++i) hn::Store(sum[i], d, out + c + i * kLanes);
  }
}

// From df in w.df to dx of a tile and the matrix's gradient.
HWY_INLINE void pull(const FeatureHead& p, const FeatureChunk& u, bool keys, int first, int rows, Rows dx, float* d_matrix, bool add,
                     Work& w) {
  const D d;
  alignas(64) float total[feature_tile];
  for (int r = 0; r < rows; ++r) total[r] = pull_row(p, keys, p.offset, w.f + r * w.ldf, w.df + r * w.ldf);
  if (p.matrix_rows > 0) {
    multiply_panels(rows, p.input, p.matrix_rows, w.df, static_cast<size_t>(w.ldf), p.back_panels,
                    static_cast<size_t>(p.matrix_rows * kCols), {}, w.out, static_cast<size_t>(w.ldx));
    if (d_matrix)
      outer_panels(p.matrix_rows, p.input, rows, w.df, static_cast<size_t>(w.ldf), w.x, static_cast<size_t>(w.ldx), add, d_matrix, 0,
                   p.matrix_rows);
  }
  for (int r = 0; r < rows; ++r) {
    float* to = dx.row(first + r);
    const float *x = w.x + r * w.ldx, *g = w.out + r * w.ldx, *df = w.df + r * w.ldf;
    // dx = factor * g - x_factor * x, x scaled as the map has it.
    float factor = p.input_scale, x_factor = 0;
    if (random_exponential(p.map)) x_factor = total[r] * p.input_scale;
    if (p.map == Feature::trigonometric) {
      const float length = w.info.a[r];
      factor = 1.f / (length + p.added_length);
      x_factor = length > 0 ? dot(p.input, x, g) / length : 0;
    }
    for (int c = 0; c < p.input; c += kLanes) {
      V v;
      if (p.matrix_rows > 0) {
        v = hn::NegMulAdd(load_at(x, c, p.input), hn::Set(d, x_factor), hn::Mul(load_at(g, c, p.input), hn::Set(d, factor)));
      } else if (p.map == Feature::cosine) {
        const V both = hn::MulAdd(load_at(df, c, p.input), hn::Set(d, w.info.a[r]),
                                  hn::Mul(load_at(df + p.input, c, p.input), hn::Set(d, w.info.b[r])));
        v = hn::IfThenElseZero(hn::Gt(load_at(u.x.row(first + r), c, p.input), hn::Zero(d)), both);
      } else {
        v = load_at(df, c, p.input);
      }
      store_at(v, to, c, p.input);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();
#endif
