// SPDX-License-Identifier: Apache-2.0
// Linear attention, 64 rows at a time: features and operands are packed in the first cache level, everything else is a product of register
// blocks with the state [D x D]. Each pass reads a row of q, k, v once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/linear_attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After foreach_target.h:
#include "framework/kernels/cpu/simd/attention_tile.h"
#include "framework/kernels/cpu/simd/linear_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

struct Sizes {
  int dim, columns, width;  // channels of a head; rounded up to vectors; floats between packed rows
  size_t head;              // floats of one head's packed state
  explicit Sizes(int head_dim)
      : dim(head_dim), columns(round_up(head_dim, kLanes)), width(linear_width(head_dim)), head(linear_state_floats(1, head_dim)) {}
  float* z(float* state) const { return state + dim * width; }
  const float* z(const float* state) const { return state + dim * width; }
};

// f(x) = elu(x) + 1; NaN stays NaN.
HWY_INLINE V feature(V x) {
  const D d;
  const V e = exp2(hn::Mul(hn::Min(x, hn::Zero(d)), hn::Set(d, 1.44269504088896341f)));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, hn::Add(x, hn::Set(d, 1.f)));
}
// f'(x) is 1 above 0, where f > 1, and f(x) below.
HWY_INLINE V slope(V f) { return hn::Min(hn::Set(D(), 1.f), f); }

// out[r][c] = f(x[r][c]), zero up to rows_up x columns.
HWY_INLINE void pack_features(const Sizes& s, ConstRows x, int rows, int rows_up, float* HWY_RESTRICT out) {
  const D d;
  for (int r = 0; r < rows_up; ++r)
    for (int c = 0; c < s.columns; c += kLanes) {
      V f = hn::Zero(d);
      if (r < rows) {
        f = feature(load_at(x.row(r), c, s.dim));
        if (c + kLanes > s.dim) f = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(s.dim - c)), f);
      }
      hn::Store(f, d, out + r * s.width + c);
    }
}

// C[rows x columns] = X Y, with X packed [rows][dim] and Y packed [dim][columns].
HWY_INLINE void rows_product(const Sizes& s, int rows, const float* x, const float* y, float* c) {
  for_strips(rows, [&]<int R>(int r) HWY_ATTR {
    for_columns(0, s.columns, [&]<int C>(int n) HWY_ATTR {
      Accumulators<R, C> b;
      clear(b);
      multiply<Left::rows, R, C>(x + r * s.width, s.width, y + n, s.width, s.dim, b);
      store(b, c + r * s.width + n, s.width);
    });
  });
}

// C[dim x columns] += X' Y over the rows of both.
HWY_INLINE void state_product(const Sizes& s, int rows, const float* x, const float* y, float* c) {
  const int whole = s.dim / kStripStep * kStripStep;
  add_product(whole, s.columns, rows, x, s.width, y, s.width, c, s.width);
  for (int r = whole; r < s.dim; ++r)
    for_columns(0, s.columns, [&]<int C>(int n) HWY_ATTR {
      Accumulators<1, C> b;
      load(b, c + r * s.width + n, s.width);
      multiply<Left::columns, 1, C>(x + r, s.width, y + n, s.width, rows, b);
      store(b, c + r * s.width + n, s.width);
    });
}

// out = the transpose of a packed [dim][dim].
HWY_INLINE void transpose(const Sizes& s, const float* x, float* HWY_RESTRICT out) {
  for (int r = 0; r < s.dim; ++r) {
    for (int c = 0; c < s.dim; ++c) out[r * s.width + c] = x[c * s.width + r];
    for (int c = s.dim; c < s.columns; ++c) out[r * s.width + c] = 0;
  }
}

// The state of the contract [dim][dim + 1], packed.
HWY_INLINE void pack_state(const Sizes& s, const float* state, float* HWY_RESTRICT out) {
  for (int r = 0; r < s.dim; ++r) {
    for (int c = 0; c < s.columns; ++c) out[r * s.width + c] = c < s.dim ? state[r * (s.dim + 1) + c] : 0;
    s.z(out)[r] = state[r * (s.dim + 1) + s.dim];
  }
  for (int c = s.dim; c < s.columns; ++c) s.z(out)[c] = 0;
}

HWY_INLINE V dot_row(const Sizes& s, const float* a, const float* b) {
  const D d;
  V sum = hn::Zero(d);
  for (int c = 0; c < s.columns; c += kLanes) sum = hn::MulAdd(hn::Load(d, a + c), hn::Load(d, b + c), sum);
  return hn::SumOfLanes(d, sum);
}

ConstRows at(ConstRows x, int row, int column) { return {x.row(row) + column, x.stride}; }
Rows at(Rows x, int row, int column) { return {x.row(row) + column, x.stride}; }

HWY_INLINE void zero_state(size_t floats, float* state) {
  for (size_t i = 0; i < floats; i += static_cast<size_t>(kLanes)) hn::Store(hn::Zero(D()), D(), state + i);
}

void StateTarget(const LinearChunk& u, float* state, float* scratch) {
  const D d;
  const Sizes s(u.head_dim);
  float *features = scratch, *values = features + kTile * s.width;
  zero_state(linear_state_floats(u.heads, u.head_dim), state);
  for (int r0 = 0; r0 < u.rows; r0 += kTile)
    for (int h = 0; h < u.heads; ++h) {
      const int rows = smaller(kTile, u.rows - r0);
      float* own = state + static_cast<size_t>(h) * s.head;
      pack_features(s, at(u.k, r0, h * s.dim), rows, rows, features);
      pack(at(u.v, r0, h * s.dim), rows, rows, s.dim, s.columns, 1.f, values, s.width);
      for (int c = 0; c < s.columns; c += kLanes) {
        V sum = hn::Load(d, s.z(own) + c);
        for (int r = 0; r < rows; ++r) sum = hn::Add(sum, hn::Load(d, features + r * s.width + c));
        hn::Store(sum, d, s.z(own) + c);
      }
      state_product(s, rows, features, values, own);
    }
}

void OutputTarget(const LinearChunk& u, const float* state, float epsilon, Rows o, float* denominator, ptrdiff_t denominator_stride,
                  float* scratch) {
  const D d;
  const Sizes s(u.head_dim);
  float *features = scratch, *numerator = features + kTile * s.width, *packed = numerator + kTile * s.width;
  for (int h = 0; h < u.heads; ++h)
    pack_state(s, state + static_cast<size_t>(h * s.dim) * static_cast<size_t>(s.dim + 1), packed + static_cast<size_t>(h) * s.head);
  for (int r0 = 0; r0 < u.rows; r0 += kTile)
    for (int h = 0; h < u.heads; ++h) {
      const int rows = smaller(kTile, u.rows - r0), rows_up = round_up(rows, kStripStep);
      const float* own = packed + static_cast<size_t>(h) * s.head;
      pack_features(s, at(u.q, r0, h * s.dim), rows, rows_up, features);
      rows_product(s, rows_up, features, own, numerator);
      const Rows out = at(o, r0, h * s.dim);
      for (int r = 0; r < rows; ++r) {
        const V sum = hn::Add(dot_row(s, features + r * s.width, s.z(own)), hn::Set(d, epsilon));
        denominator[h * denominator_stride + r0 + r] = hn::GetLane(sum);
        const V inverse = hn::Div(hn::Set(d, 1.f), sum);
        for (int c = 0; c < s.columns; c += kLanes)
          store_at(hn::Mul(hn::Load(d, numerator + r * s.width + c), inverse), out.row(r), c, s.dim);
      }
    }
}

void BackwardQueriesTarget(const LinearChunk& u, const float* state, ConstRows o, const float* denominator, ptrdiff_t denominator_stride,
                           ConstRows d_o, Rows dq, float* d_state, float* scratch) {
  const D d;
  const Sizes s(u.head_dim);
  float *features = scratch, *n = features + kTile * s.width, *df = n + kTile * s.width, *one = df + kTile * s.width,
        *packed = one + s.head;
  for (int h = 0; h < u.heads; ++h) {
    float* own = packed + static_cast<size_t>(h) * s.head;
    pack_state(s, state + static_cast<size_t>(h * s.dim) * static_cast<size_t>(s.dim + 1), one);
    transpose(s, one, own);
    for (int c = 0; c < s.columns; ++c) s.z(own)[c] = s.z(one)[c];
  }
  zero_state(linear_state_floats(u.heads, u.head_dim), d_state);
  for (int r0 = 0; r0 < u.rows; r0 += kTile)
    for (int h = 0; h < u.heads; ++h) {
      const int rows = smaller(kTile, u.rows - r0), rows_up = round_up(rows, kStripStep);
      const float* own = packed + static_cast<size_t>(h) * s.head;
      float* gradient = d_state + static_cast<size_t>(h) * s.head;
      const ConstRows out = at(o, r0, h * s.dim), d_out = at(d_o, r0, h * s.dim);
      alignas(64) float e[kTile];
      pack_features(s, at(u.q, r0, h * s.dim), rows, rows_up, features);
      pack(d_out, rows, rows_up, s.dim, s.columns, 1.f, n, s.width);
      for (int r = 0; r < rows; ++r) {
        const V inverse = hn::Set(d, 1.f / denominator[h * denominator_stride + r0 + r]);
        V sum = hn::Zero(d);
        for (int c = 0; c < s.columns; c += kLanes) {
          const V scaled = hn::Mul(hn::Load(d, n + r * s.width + c), inverse);
          hn::Store(scaled, d, n + r * s.width + c);
          sum = hn::MulAdd(load_at(out.row(r), c, s.dim), scaled, sum);
        }
        e[r] = -hn::GetLane(hn::SumOfLanes(d, sum));
      }
      rows_product(s, rows_up, n, own, df);
      const Rows d_query = at(dq, r0, h * s.dim);
      for (int c = 0; c < s.columns; c += kLanes) {
        const V z = hn::Load(d, s.z(own) + c);
        V dz = hn::Load(d, s.z(gradient) + c);
        for (int r = 0; r < rows; ++r) {
          const V er = hn::Set(d, e[r]), f = hn::Load(d, features + r * s.width + c);
          dz = hn::MulAdd(er, f, dz);
          store_at(hn::Mul(hn::MulAdd(er, z, hn::Load(d, df + r * s.width + c)), slope(f)), d_query.row(r), c, s.dim);
        }
        hn::Store(dz, d, s.z(gradient) + c);
      }
      state_product(s, rows, features, n, gradient);
    }
}

void BackwardKeysTarget(const LinearChunk& u, const float* d_state, Rows dk, Rows dv, float* scratch) {
  const D d;
  const Sizes s(u.head_dim);
  float *features = scratch, *values = features + kTile * s.width, *result = values + kTile * s.width,
        *transposed = result + kTile * s.width;
  for (int h = 0; h < u.heads; ++h) transpose(s, d_state + static_cast<size_t>(h) * s.head, transposed + static_cast<size_t>(h) * s.head);
  for (int r0 = 0; r0 < u.rows; r0 += kTile)
    for (int h = 0; h < u.heads; ++h) {
      const int rows = smaller(kTile, u.rows - r0), rows_up = round_up(rows, kStripStep);
      const float* own = d_state + static_cast<size_t>(h) * s.head;
      pack_features(s, at(u.k, r0, h * s.dim), rows, rows_up, features);
      pack(at(u.v, r0, h * s.dim), rows, rows_up, s.dim, s.columns, 1.f, values, s.width);
      rows_product(s, rows_up, features, own, result);
      const Rows d_value = at(dv, r0, h * s.dim), d_key = at(dk, r0, h * s.dim);
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < s.columns; c += kLanes) store_at(hn::Load(d, result + r * s.width + c), d_value.row(r), c, s.dim);
      rows_product(s, rows_up, values, transposed + static_cast<size_t>(h) * s.head, result);
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < s.columns; c += kLanes) {
          const V df = hn::Add(hn::Load(d, result + r * s.width + c), hn::Load(d, s.z(own) + c));
          store_at(hn::Mul(df, slope(hn::Load(d, features + r * s.width + c))), d_key.row(r), c, s.dim);
        }
    }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(StateTarget);
HWY_EXPORT(OutputTarget);
HWY_EXPORT(BackwardQueriesTarget);
HWY_EXPORT(BackwardKeysTarget);

size_t linear_scratch(int heads, int head_dim) {
  const size_t tile = static_cast<size_t>(attention_tile) * static_cast<size_t>(linear_width(head_dim));
  return 3 * tile + linear_state_floats(heads + 1, head_dim);
}

void linear_state(const LinearChunk& u, float* state, float* scratch) { HWY_DYNAMIC_DISPATCH(StateTarget)(u, state, scratch); }

void linear_output(const LinearChunk& u, const float* state, float epsilon, Rows o, float* denominator, ptrdiff_t denominator_stride,
                   float* scratch) {
  HWY_DYNAMIC_DISPATCH(OutputTarget)(u, state, epsilon, o, denominator, denominator_stride, scratch);
}

void linear_backward_queries(const LinearChunk& u, const float* state, ConstRows o, const float* denominator, ptrdiff_t denominator_stride,
                             ConstRows d_o, Rows dq, float* d_state, float* scratch) {
  HWY_DYNAMIC_DISPATCH(BackwardQueriesTarget)(u, state, o, denominator, denominator_stride, d_o, dq, d_state, scratch);
}

void linear_backward_keys(const LinearChunk& u, const float* d_state, Rows dk, Rows dv, float* scratch) {
  HWY_DYNAMIC_DISPATCH(BackwardKeysTarget)(u, d_state, dk, dv, scratch);
}

}  // namespace tapeformer::simd
#endif  // HWY_ONCE
