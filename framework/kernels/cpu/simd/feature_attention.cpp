// SPDX-License-Identifier: Apache-2.0
// Linear attention on feature maps, a tile of rows at a time: its features are made in cache, used by products of register blocks with the
// state, and made again in the backward, so that no array of features is ever in memory.
#include "framework/kernels/cpu/simd/feature_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/feature_attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/feature_tiles.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

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
    output_gradients(p, o, denominator, d_o, r0, rows, w.ldv, w.v);
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
