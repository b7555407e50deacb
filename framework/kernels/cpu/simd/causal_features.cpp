// SPDX-License-Identifier: Apache-2.0
// Causal attention on feature maps, a tile of rows at a time: features are made in cache, and scans carry the state through the tile.
#include "framework/kernels/cpu/simd/causal_features.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/causal_features.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/causal_scan.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE float* key_shifts(const FeatureHead& p, const CausalChunk& u, int row) { return u.k.shift + row * shifts_per_key(p); }

// Features of keys, each scaled with its own shifts and without offset: the largest exponents so far, unless shifts are given.
HWY_INLINE void causal_key_features(const FeatureHead& p, const CausalChunk& u, int first, int rows, bool given, Work& w) {
  const D d;
  start_features(p, u.k, first, rows, w);
  const bool softmax = p.map == Feature::softmax;
  for (int r = 0; r < rows && (p.matrix_rows > 0 || softmax); ++r) {
    float* f = w.f + r * w.ldf;
    float* const at = key_shifts(p, u, first + r);
    const float* const before = first + r > 0 ? at - shifts_per_key(p) : u.neighbour;
    if (softmax) {
      const float* const x = u.k.x.row(first + r);
      for (int c = 0; c < p.features; c += kLanes) {
        if (!given) {
          const V own = load_at(x, c, p.features);
          store_at(before ? hn::Max(own, load_at(before, c, p.features)) : own, at, c, p.features);
        }
        const V shift = hn::Mul(load_at(at, c, p.features), hn::Set(d, kBitsPerNat));
        store_at(exp2(not_above(hn::Sub(load_at(f, c, p.features), shift), 126.f)), f, c, p.features);
      }
      continue;
    }
    float shift = 0;
    if (random_exponential(p.map)) {
      if (!given) {
        const float own = (largest(p, f) - w.info.a[r]) * kNatsPerBit;
        *at = before && *before >= own ? *before : own;
      }
      shift = log_scale(p) - w.info.a[r] - *at * kBitsPerNat;
    }
    apply_matrix_map(p, shift, 0.f, f);
  }
}

HWY_INLINE float sum_of(const float* x, int n) {
  V sum = hn::Zero(D());
  for (int c = 0; c < n; c += kLanes) sum = hn::Add(sum, load_at(x, c, n));
  return sum_lanes(sum);
}
// x += by y for n floats.
HWY_INLINE void add_scaled(float* HWY_RESTRICT x, float by, const float* HWY_RESTRICT y, int n) {
  const D d;
  for (int c = 0; c < n; c += kLanes) store_at(hn::MulAdd(hn::Set(d, by), load_at(y, c, n), load_at(x, c, n)), x, c, n);
}
HWY_INLINE void add_constant(float* HWY_RESTRICT x, float by, int n) {
  const D d;
  for (int c = 0; c < n; c += kLanes) store_at(hn::Add(load_at(x, c, n), hn::Set(d, by)), x, c, n);
}

// The last row of a state: the sum of [v, 1] before a chunk, or of n times the features' sum after it.
void load_values(const FeatureHead& p, const float* state, CausalWork& w) {
  for (int c = 0; c <= p.dims; ++c) w.values[c] = state[p.features * (p.dims + 1) + c];
}
Scales downward_scales(const FeatureHead& p, const CausalChunk& u, int first, int rows, const CausalWork& w) {
  Scales out;
  const int count = shifts_per_key(p);
  if (count > 0) out.fill(p, rows, key_shifts(p, u, first), count, first > 0 ? key_shifts(p, u, first - 1) : u.neighbour, w);
  return out;
}
// f / z in place of f, row by row, and 1 / z.
HWY_INLINE void divide_by_sum(const FeatureHead& p, const float* HWY_RESTRICT z, float* HWY_RESTRICT f, float* HWY_RESTRICT inverse) {
  const D d;
  for (int c = 0; c < p.features; c += kLanes) {
    const V by = hn::Div(hn::Set(d, 1.f), load_at(z, c, p.features));
    store_at(by, inverse, c, p.features);
    store_at(hn::Mul(load_at(f, c, p.features), by), f, c, p.features);
  }
}

void output_here(const FeatureHead& p, const CausalChunk& u, const float* state, Rows o, float* denominator, float* scratch) {
  const D d;
  CausalWork w(p, scratch);
  pack_panels(state_rows(p, state), p.features, p.dims, false, 0, blocks_of(p.dims), w.panels);
  pack_z(p, state, w.z);
  load_values(p, state, w);
  for (int r0 = 0; r0 < u.q.rows; r0 += feature_tile) {
    const int rows = smaller(feature_tile, u.q.rows - r0);
    causal_key_features(p, u, r0, rows, p.shifts_given, w);
    w.swap_sides();
    query_features(p, u.q, r0, rows, p.shifts_given, w);
    prefetch_next(u.k, u.k.v, r0, p.dims);
    pack_with_last(u.k.v, r0, rows, p.dims, 1, w.ldv, w.v);
    const Scales scales = downward_scales(p, u, r0, rows, w);
    for (int r = 0; r < rows; ++r) {
      scales.accumulate(r, p.features, w.other + r * w.ldf, w.z);
      if (p.map == Feature::softmax) divide_by_sum(p, w.z, w.f + r * w.ldf, w.inverse_z);
      denominator[r0 + r] = dot(p.features, w.f + r * w.ldf, w.z);
    }
    scan({p.features, p.dims, w.panels, {w.other, w.ldf}, {w.v, w.ldv}, {w.f, w.ldf}, w.out, w.ldv, true}, rows, scales);
    for (int r = 0; r < rows; ++r) {
      float *const out = w.out + r * w.ldv, &kept = denominator[r0 + r];
      if (p.offset != 0) {
        const float all = p.offset * sum_of(w.f + r * w.ldf, p.features);
        add_scaled(w.values, 1, w.v + r * w.ldv, p.dims + 1);
        add_scaled(out, all, w.values, p.dims);
        kept += all * w.values[p.dims];
      }
      if (p.denominator == Denominate::add) kept += p.epsilon;
      const V inverse = hn::Set(d, 1.f / divisor(p, kept));
      for (int c = 0; c < p.dims; c += kLanes) store_at(hn::Mul(load_at(out, c, p.dims), inverse), o.row(r0 + r), c, p.dims);
    }
  }
}

// From the gradient of f / z in df to that of f; what z gets goes to `of_z`.
HWY_INLINE void pull_division(const FeatureHead& p, const float* HWY_RESTRICT reader, const float* HWY_RESTRICT inverse,
                              float* HWY_RESTRICT df, float* HWY_RESTRICT of_z) {
  for (int c = 0; c < p.features; c += kLanes) {
    const V to_f = hn::Mul(load_at(df, c, p.features), load_at(inverse, c, p.features));
    store_at(hn::Neg(hn::Mul(to_f, load_at(reader, c, p.features))), of_z, c, p.features);
    store_at(to_f, df, c, p.features);
  }
}

// What the queries of a tile give to the gradient of all that stands before the chunk, in the scale of the chunk's first key.
HWY_INLINE void add_to_part(const FeatureHead& p, const CausalChunk& u, int first, int rows, float* part, CausalWork& w) {
  const D d;
  const FeaturePart at(p.features, p.dims, kCols);
  const int count = shifts_per_key(p);
  for (int r = 0; r < rows; ++r) {
    const float* const f = w.f + r * w.ldf;
    const float* const reads = count > 1 ? u.readers.row(first + r) : f;
    const float *scale = u.k.shift, *now = key_shifts(p, u, first + r);
    for (int c = 0; c < p.features; c += kLanes) {
      V by = hn::Set(d, 1.f);
      if (count > 0) {
        const V fall = count == 1 ? hn::Set(d, *scale - *now) : hn::Sub(load_at(scale, c, count), load_at(now, c, count));
        by = exp2(not_above(hn::Mul(fall, hn::Set(d, kBitsPerNat)), 126.f));
      }
      // The key's features are done with.
      store_at(hn::Mul(load_at(reads, c, p.features), by), w.other + r * w.ldf, c, p.features);
      if (count <= 1) continue;
      float* const z = part + at.z;
      store_at(hn::MulAdd(load_at(u.z_gradients.row(first + r), c, p.features), by, load_at(z, c, p.features)), z, c, p.features);
    }
    if (p.offset != 0) add_scaled(part + at.values, sum_of(f, p.features), w.n + r * w.ldv, p.dims);
  }
  outer_panels(p.features, p.dims, rows, w.other, static_cast<size_t>(w.ldf), w.n, static_cast<size_t>(w.ldv), true, part, 0, p.features);
  if (count <= 1) weighted_column_sums(rows, p.features, w.other, w.ldf, w.n + p.dims, w.ldv, part + at.z);
}

void backward_queries_here(const FeatureHead& p, const CausalChunk& u, const float* state, ConstRows o, const float* denominator,
                           ConstRows d_o, Rows dq, float* part, float* d_matrix, float* scratch) {
  const D d;
  CausalWork w(p, scratch);
  const FeaturePart at(p.features, p.dims, kCols);
  const bool softmax = p.map == Feature::softmax;
  for (size_t i = 0; part && i < at.size; i += static_cast<size_t>(kLanes)) hn::Store(hn::Zero(d), d, part + i);
  pack_panels(state_rows(p, state), p.dims + 1, p.features, true, 0, blocks_of(p.features), w.transposed);
  pack_z(p, state, w.z);
  load_values(p, state, w);
  for (int r0 = 0; r0 < u.q.rows; r0 += feature_tile) {
    const int rows = smaller(feature_tile, u.q.rows - r0);
    causal_key_features(p, u, r0, rows, true, w);
    w.swap_sides();
    query_features(p, u.q, r0, rows, true, w);
    prefetch_next(u.q, d_o, r0, p.dims);
    prefetch_next(u.q, o, r0, p.dims);
    output_gradients(p, o, denominator, d_o, r0, rows, w.ldv, w.n);
    prefetch_next(u.k, u.k.v, r0, p.dims);
    pack_with_last(u.k.v, r0, rows, p.dims, 1, w.ldv, w.v);
    const Scales scales = downward_scales(p, u, r0, rows, w);
    scan({p.dims + 1, p.features, w.transposed, {w.v, w.ldv}, {w.other, w.ldf}, {w.n, w.ldv}, w.df, w.ldf, false}, rows, scales);
    for (int r = 0; r < rows; ++r) {
      float *f = w.f + r * w.ldf, *df = w.df + r * w.ldf, *g = w.other + r * w.ldf, *n = w.n + r * w.ldv;
      if (softmax) {
        float *const reader = u.readers.row(r0 + r), *const of_z = u.z_gradients.row(r0 + r);
        scales.accumulate(r, p.features, g, w.z);
        for (int c = 0; c < p.features; c += kLanes) store_at(load_at(f, c, p.features), reader, c, p.features);
        divide_by_sum(p, w.z, reader, w.inverse_z);
        pull_division(p, reader, w.inverse_z, df, of_z);
      }
      if (p.offset != 0) {
        add_scaled(w.values, 1, w.v + r * w.ldv, p.dims + 1);
        add_constant(df, p.offset * dot(p.dims + 1, w.values, n), p.features);
      }
    }
    if (part) add_to_part(p, u, r0, rows, part, w);
    pull(p, u.q, false, r0, rows, dq, d_matrix, r0 > 0, w);
  }
}

void backward_keys_here(const FeatureHead& p, const CausalChunk& u, const float* d_state, ConstRows o, const float* denominator,
                        ConstRows d_o, Rows dk, Rows dv, float* d_matrix, float* scratch) {
  const D d;
  CausalWork w(p, scratch);
  FeatureHead plain = p;
  plain.offset = 0;
  const bool softmax = p.map == Feature::softmax;
  pack_panels(state_rows(p, d_state), p.features, p.dims, false, 0, blocks_of(p.dims), w.panels);
  pack_panels(state_rows(p, d_state), p.dims + 1, p.features, true, 0, blocks_of(p.features), w.transposed);
  load_values(p, d_state, w);
  for (int c = 0; c < round_up(p.features, kLanes); c += kLanes) hn::Store(hn::Zero(d), d, w.z + c);
  const float* before = u.neighbour;
  const int end = (u.q.rows + feature_tile - 1) / feature_tile * feature_tile;
  for (int r0 = end - feature_tile; r0 >= 0; r0 -= feature_tile) {
    const int rows = smaller(feature_tile, u.q.rows - r0), last = rows - 1;
    if (softmax) {
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < p.features; c += kLanes)
          store_at(load_at(u.readers.row(r0 + r), c, p.features), w.f + r * w.ldf, c, p.features);
    } else {
      query_features(p, u.q, r0, rows, true, w);
    }
    w.swap_sides();
    causal_key_features(p, u, r0, rows, true, w);
    output_gradients(p, o, denominator, d_o, r0, rows, w.ldv, w.n);
    pack_with_last(u.k.v, r0, rows, p.dims, 1, w.ldv, w.v);
    Scales scales;
    if (const int count = shifts_per_key(p); count > 0) {
      scales.fill(p, rows, key_shifts(p, u, r0 + last), -count, before, w);
      before = key_shifts(p, u, r0);
    }
    const auto upwards = [&](const float* x, int ld) { return ScanRows{x + last * ld, -ld}; };
    const ScanRows f = upwards(w.other, w.ldf), g = upwards(w.f, w.ldf), n = upwards(w.n, w.ldv), v = upwards(w.v, w.ldv);
    scan({p.dims + 1, p.features, w.transposed, n, f, v, w.df + last * w.ldf, -w.ldf, false}, rows, scales);
    scan({p.features, p.dims, w.panels, f, n, g, w.out + last * w.ldv, -w.ldv, true}, rows, scales);
    for (int r = last; r >= 0; --r) {
      float* const out = w.out + r * w.ldv;
      if (p.offset != 0) {
        add_scaled(w.values, sum_of(w.other + r * w.ldf, p.features), w.n + r * w.ldv, p.dims);
        add_scaled(out, p.offset, w.values, p.dims);
      }
      if (softmax) {
        scales.accumulate(last - r, p.features, u.z_gradients.row(r0 + r), w.z);
        add_scaled(w.df + r * w.ldf, 1, w.z, p.features);
      }
      for (int c = 0; c < p.dims; c += kLanes) store_at(load_at(out, c, p.dims), dv.row(r0 + r), c, p.dims);
    }
    pull(plain, u.k, true, r0, rows, dk, d_matrix, r0 + feature_tile < end, w);
  }
}

size_t scratch_here(const FeatureHead& p) { return CausalWork(p, nullptr).used; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(scratch_here);
HWY_EXPORT(output_here);
HWY_EXPORT(backward_queries_here);
HWY_EXPORT(backward_keys_here);

size_t causal_scratch(const FeatureHead& head) { return HWY_DYNAMIC_DISPATCH(scratch_here)(head); }
void causal_output(const FeatureHead& head, const CausalChunk& chunk, const float* state, Rows o, float* denominator, float* scratch) {
  HWY_DYNAMIC_DISPATCH(output_here)(head, chunk, state, o, denominator, scratch);
}
void causal_backward_queries(const FeatureHead& head, const CausalChunk& chunk, const float* state, ConstRows o, const float* denominator,
                             ConstRows d_o, Rows dq, float* part, float* d_matrix, float* scratch) {
  HWY_DYNAMIC_DISPATCH(backward_queries_here)(head, chunk, state, o, denominator, d_o, dq, part, d_matrix, scratch);
}
void causal_backward_keys(const FeatureHead& head, const CausalChunk& chunk, const float* d_state, ConstRows o, const float* denominator,
                          ConstRows d_o, Rows dk, Rows dv, float* d_matrix, float* scratch) {
  HWY_DYNAMIC_DISPATCH(backward_keys_here)(head, chunk, d_state, o, denominator, d_o, dk, dv, d_matrix, scratch);
}

}  // namespace tapeformer::simd
#endif
