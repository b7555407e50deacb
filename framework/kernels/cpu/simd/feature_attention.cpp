// SPDX-License-Identifier: Apache-2.0
// Linear attention on feature maps, a tile of rows at a time: its features are made in cache, used by products of register blocks with the
// state, and made again in the backward, so that no array of features is ever in memory.
#include "framework/kernels/cpu/simd/feature_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/feature_attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/features.h"
#include "framework/kernels/cpu/simd/panels.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

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

int blocks_of(int n) { return (n + kCols - 1) / kCols; }

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

// Features of keys whose shifts are known, offset included. column_shift: u.shift in bits, for softmax.
HWY_INLINE void key_features(const FeatureHead& p, const FeatureChunk& u, int first, int rows, float offset, float shift,
                             const float* column_shift, Work& w) {
  start_features(p, u, first, rows, w);
  for (int r = 0; r < rows; ++r) {
    float* f = w.f + r * w.ldf;
    if (p.matrix_rows > 0) apply_matrix_map(p, log_scale(p) - own_term(p, w.info, r) - shift, offset, f);
    if (p.map == Feature::softmax) exponentiate(p.features, ColumnShift{column_shift}, f);
  }
}

// Scales what is summed so far, row by row of S, from the old shifts to the new ones.
HWY_INLINE void rescale(const FeatureHead& p, const float* HWY_RESTRICT old, const float* HWY_RESTRICT fresh, float* S, float* z) {
  const D d;
  alignas(64) float factor[kLanes];
  for (int r0 = 0; r0 < p.features; r0 += kLanes) {
    const V v = exp2(hn::Sub(hn::LoadU(d, old + r0), hn::LoadU(d, fresh + r0)));
    hn::Store(v, d, factor);
    for (int r = r0; r < smaller(p.features, r0 + kLanes); ++r) {
      if (factor[r - r0] == 1) continue;
      z[r] *= factor[r - r0];
      const V by = hn::Set(d, factor[r - r0]);
      for (int b = 0; b < blocks_of(p.dims); ++b)
        for (int c = 0; c < kCols; c += kLanes) {
          float* at = S + (static_cast<size_t>(b) * static_cast<size_t>(p.features) + static_cast<size_t>(r)) * kCols + c;
          hn::Store(hn::Mul(hn::Load(d, at), by), d, at);
        }
    }
  }
}

constexpr float kNone = -3.0e38f;  // the shift before the first key

// The shifts after one more tile, whose products are in w.f.
HWY_INLINE void raise_shifts(const FeatureHead& p, int rows, const float* old, float* HWY_RESTRICT fresh, const Work& w) {
  const D d;
  if (p.map == Feature::softmax) {
    for (int c = 0; c < p.features; c += kLanes) {
      V most = hn::LoadU(d, old + c);
      for (int r = 0; r < rows; ++r) most = hn::Max(most, load_at(w.f + r * w.ldf, c, p.features));
      hn::StoreU(most, d, fresh + c);
    }
    return;
  }
  float most = old[0];
  for (int r = 0; r < rows; ++r) {
    const float u = largest(p, w.f + r * w.ldf) - w.info.a[r];
    if (u > most) most = u;
  }
  for (int c = 0; c < p.features; c += kLanes) hn::StoreU(hn::Set(d, most), d, fresh + c);
}

void state_here(const FeatureHead& p, const FeatureChunk& u, float* part, float* scratch) {
  const D d;
  Work w(p, scratch);
  const FeaturePart at(p.features, p.dims, kCols);
  const bool exponential = random_exponential(p.map) || p.map == Feature::softmax;
  for (size_t i = 0; i < at.size; i += static_cast<size_t>(kLanes)) hn::Store(hn::Zero(d), d, part + i);
  float *S = part, *z = part + at.z, *shift = part + at.shift, *fresh = w.z;
  for (int c = 0; exponential && c < p.features; ++c) shift[c] = p.shifts_given ? u.shift[c] * kBitsPerNat : kNone;
  for (int r0 = 0; r0 < u.rows; r0 += feature_tile) {
    const int rows = smaller(feature_tile, u.rows - r0);
    start_features(p, u, r0, rows, w);
    if (exponential && !p.shifts_given) {
      raise_shifts(p, rows, shift, fresh, w);
      if (r0 > 0) rescale(p, shift, fresh, S, z);
      for (int c = 0; c < p.features; ++c) shift[c] = fresh[c];
    }
    for (int r = 0; r < rows; ++r) {
      float* f = w.f + r * w.ldf;
      if (p.matrix_rows > 0) apply_matrix_map(p, log_scale(p) - own_term(p, w.info, r) - (exponential ? shift[0] : 0), 0.f, f);
      if (p.map == Feature::softmax) exponentiate(p.features, ColumnShift{shift}, f);
    }
    prefetch_next(u, u.v, r0, p.dims);
    pack_with_last(u.v, r0, rows, p.dims, 0, w.ldv, w.v);
    column_sums(rows, p.features, w.f, static_cast<size_t>(w.ldf), true, z);
    column_sums(rows, p.dims, w.v, static_cast<size_t>(w.ldv), true, part + at.values);
    outer_panels(p.features, p.dims, rows, w.f, static_cast<size_t>(w.ldf), w.v, static_cast<size_t>(w.ldv), true, S, 0, p.features);
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

ConstRows state_rows(const FeatureHead& p, const float* state) { return {state, p.dims + 1}; }
void pack_z(const FeatureHead& p, const float* state, float* HWY_RESTRICT z) {
  for (int r = 0; r < p.features; ++r) z[r] = state[r * (p.dims + 1) + p.dims];
}

void output_here(const FeatureHead& p, const FeatureChunk& u, const float* state, Rows o, float* denominator, float* scratch) {
  const D d;
  Work w(p, scratch);
  pack_panels(state_rows(p, state), p.features, p.dims, false, 0, blocks_of(p.dims), w.panels);
  pack_z(p, state, w.z);
  for (int r0 = 0; r0 < u.rows; r0 += feature_tile) {
    const int rows = smaller(feature_tile, u.rows - r0);
    query_features(p, u, r0, rows, p.shifts_given, w);
    multiply_panels(rows, p.dims, p.features, w.f, static_cast<size_t>(w.ldf), w.panels, static_cast<size_t>(p.features * kCols), {}, w.out,
                    static_cast<size_t>(w.ldv));
    for (int r = 0; r < rows; ++r) {
      const float kept = dot(p.features, w.f + r * w.ldf, w.z) + (p.denominator == Denominate::add ? p.epsilon : 0);
      denominator[r0 + r] = kept;
      const V inverse = hn::Set(d, 1.f / divisor(p, kept));
      for (int c = 0; c < p.dims; c += kLanes) store_at(hn::Mul(load_at(w.out + r * w.ldv, c, p.dims), inverse), o.row(r0 + r), c, p.dims);
    }
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

// out[c] += sum over rows of weight[r] x[r][c].
void weighted_column_sums(int rows, int width, const float* x, int ldx, const float* weight, int ldw, float* out) {
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

void backward_queries_here(const FeatureHead& p, const FeatureChunk& u, const float* state, ConstRows o, const float* denominator,
                           ConstRows d_o, Rows dq, float* part, float* d_matrix, float* scratch) {
  const D d;
  Work w(p, scratch);
  const FeaturePart at(p.features, p.dims, kCols);
  float* z = part + at.z;
  for (size_t i = 0; i < at.size; i += static_cast<size_t>(kLanes)) hn::Store(hn::Zero(d), d, part + i);
  pack_panels(state_rows(p, state), p.dims + 1, p.features, true, 0, blocks_of(p.features), w.transposed);
  for (int r0 = 0; r0 < u.rows; r0 += feature_tile) {
    const int rows = smaller(feature_tile, u.rows - r0);
    query_features(p, u, r0, rows, true, w);
    prefetch_next(u, d_o, r0, p.dims);
    prefetch_next(u, o, r0, p.dims);
    pack_with_last(d_o, r0, rows, p.dims, 0, w.ldv, w.v);
    for (int r = 0; r < rows; ++r) {
      float* n = w.v + r * w.ldv;
      const float kept = denominator[r0 + r];
      const V inverse = hn::Set(d, 1.f / divisor(p, kept));
      for (int c = 0; c < p.dims; c += kLanes) hn::Store(hn::Mul(hn::Load(d, n + c), inverse), d, n + c);
      n[p.dims] = -divisor_slope(p, kept) * dot(p.dims, o.row(r0 + r), n);
    }
    multiply_panels(rows, p.features, p.dims + 1, w.v, static_cast<size_t>(w.ldv), w.transposed, static_cast<size_t>((p.dims + 1) * kCols),
                    {}, w.df, static_cast<size_t>(w.ldf));
    outer_panels(p.features, p.dims, rows, w.f, static_cast<size_t>(w.ldf), w.v, static_cast<size_t>(w.ldv), true, part, 0, p.features);
    weighted_column_sums(rows, p.features, w.f, w.ldf, w.v + p.dims, w.ldv, z);
    pull(p, u, false, r0, rows, dq, d_matrix, r0 > 0, w);
  }
}

void backward_keys_here(const FeatureHead& p, const FeatureChunk& u, const float* d_state, Rows dk, Rows dv, float* d_matrix,
                        float* scratch) {
  Work w(p, scratch);
  pack_panels(state_rows(p, d_state), p.features, p.dims, false, 0, blocks_of(p.dims), w.panels);
  pack_panels(state_rows(p, d_state), p.dims + 1, p.features, true, 0, blocks_of(p.features), w.transposed);
  if (p.map == Feature::softmax)
    for (int c = 0; c < p.features; ++c) w.z[c] = u.shift[c] * kBitsPerNat;
  const float shift = random_exponential(p.map) ? u.shift[0] * kBitsPerNat : 0;
  for (int r0 = 0; r0 < u.rows; r0 += feature_tile) {
    const int rows = smaller(feature_tile, u.rows - r0);
    key_features(p, u, r0, rows, p.offset, shift, w.z, w);
    Rows to{dv.row(r0), dv.stride};
    multiply_panels(rows, p.dims, p.features, w.f, static_cast<size_t>(w.ldf), w.panels, static_cast<size_t>(p.features * kCols), {},
                    to.data, static_cast<size_t>(to.stride));
    prefetch_next(u, u.v, r0, p.dims);
    pack_with_last(u.v, r0, rows, p.dims, 1, w.ldv, w.v);
    multiply_panels(rows, p.features, p.dims + 1, w.v, static_cast<size_t>(w.ldv), w.transposed, static_cast<size_t>((p.dims + 1) * kCols),
                    {}, w.df, static_cast<size_t>(w.ldf));
    pull(p, u, true, r0, rows, dk, d_matrix, r0 > 0, w);
  }
}

size_t scratch_here(const FeatureHead& p) { return Work(p, nullptr).used; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(scratch_here);
HWY_EXPORT(state_here);
HWY_EXPORT(output_here);
HWY_EXPORT(backward_queries_here);
HWY_EXPORT(backward_keys_here);

FeaturePart::FeaturePart(int features, int dims, int columns) {
  const auto up = [](int n, int to) { return static_cast<size_t>((n + to - 1) / to * to); };
  z = up(dims, columns) * static_cast<size_t>(features);
  z = (z + 15) / 16 * 16;
  shift = z + up(features, 16);
  values = shift + up(features, 16);
  size = values + up(dims, 16);
}

size_t feature_scratch(const FeatureHead& head) { return HWY_DYNAMIC_DISPATCH(scratch_here)(head); }
void feature_state(const FeatureHead& head, const FeatureChunk& chunk, float* part, float* scratch) {
  HWY_DYNAMIC_DISPATCH(state_here)(head, chunk, part, scratch);
}
void feature_output(const FeatureHead& head, const FeatureChunk& chunk, const float* state, Rows o, float* denominator, float* scratch) {
  HWY_DYNAMIC_DISPATCH(output_here)(head, chunk, state, o, denominator, scratch);
}
void feature_backward_queries(const FeatureHead& head, const FeatureChunk& chunk, const float* state, ConstRows o, const float* denominator,
                              ConstRows d_o, Rows dq, float* part, float* d_matrix, float* scratch) {
  HWY_DYNAMIC_DISPATCH(backward_queries_here)(head, chunk, state, o, denominator, d_o, dq, part, d_matrix, scratch);
}
void feature_backward_keys(const FeatureHead& head, const FeatureChunk& chunk, const float* d_state, Rows dk, Rows dv, float* d_matrix,
                           float* scratch) {
  HWY_DYNAMIC_DISPATCH(backward_keys_here)(head, chunk, d_state, dk, dv, d_matrix, scratch);
}

}  // namespace tapeformer::simd
#endif
