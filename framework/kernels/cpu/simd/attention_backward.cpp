// SPDX-License-Identifier: Apache-2.0
// The backward of softmax attention: one pass over tiles of 64 keys by 64 queries, in strips of a few query rows. Scores are in units of
// log 2 (scale * log2 e is folded into the packed queries).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/attention_backward.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After foreach_target.h:
#include "framework/kernels/cpu/simd/attention_ahead.h"
#include "framework/kernels/cpu/simd/attention_tile.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

// Rows of a query tile whose P and dS are kept before they are used for dV and dK: both stay in the first cache level.
constexpr int kKept = 32;

// Operands of a pair of tiles in the backward. p and ds are [kKept][kTile]; p holds the dropped probabilities afterwards.
struct BackwardTiles {
  const float *q, *d_o, *kt, *vt, *k, *lse, *delta;
  float *p, *ds, *dq;
};

template <int R>
HWY_INLINE void clear_columns(float* x, int from, int to) {
  for (int i = 0; i < R; ++i)
    for (int n = from; n < to; n += kLanes) hn::Store(hn::Zero(D()), D(), x + i * kTile + n);
}

// P and dS of a strip in the columns of `kept`, and its part of dQ.
template <int DH, int R>
HWY_INLINE void backward_strip(const Head<DH>& h, const Pair& t, int r, Span kept, const BackwardTiles& b) {
  const D d;
  float* p = b.p + r % kKept * kTile;
  float* ds = b.ds + r % kKept * kTile;
  Span span = kept;
  if (t.bounds->by_row) {
    span = span_of(*t.bounds, r, r + R, t.columns);
    if (span.from == span.to) span = {kept.to, kept.to};
    for (float* x : {p, ds}) {
      clear_columns<R>(x, kept.from, span.from);
      clear_columns<R>(x, span.to, kept.to);
    }
    if (span.from == span.to) return;
  }
  for_columns(span.from, span.to, [&]<int C>(int n) HWY_ATTR {
    Accumulators<R, C> s;
    clear(s);
    multiply<Left::rows, R, C>(b.q + r * h.width, h.width, b.kt + n, kTile, h.dim, s);
    apply(*t.bounds, r, n, s);
    store(s, p + n, kTile);
  });
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
    const V l = hn::Set(d, b.lse[r + i]);
    for (int n = span.from; n < span.to; n += kLanes) hn::Store(exp2(hn::Sub(hn::Load(d, p + i * kTile + n), l)), d, p + i * kTile + n);
  }
  uint64_t dropped[R];
  if (t.drop)
    for (int i = 0; i < R; ++i) dropped[i] = dropped_columns(t, r + i, span);
  for_columns(span.from, span.to, [&]<int C>(int n) HWY_ATTR {
    Accumulators<R, C> s;
    clear(s);
    multiply<Left::rows, R, C>(b.d_o + r * h.width, h.width, b.vt + n, kTile, h.dim, s);
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const V delta = hn::Set(d, b.delta[r + i]);
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c) {
        float* at = p + i * kTile + n + c * kLanes;
        const V probability = hn::Load(d, at);
        V dp = s.v[i][c];
        if (t.drop) {
          const Dropped some = lanes_of(static_cast<uint32_t>(dropped[i] >> (n + c * kLanes)));
          dp = t.drop->apply(dp, some);
          hn::Store(t.drop->apply(probability, some), d, at);
        }
        s.v[i][c] = hn::Mul(hn::Sub(dp, delta), probability);
      }
    }
    store(s, ds + n, kTile);
  });
  const int used = smaller(span.to, t.keys) - span.from;
  for_columns(0, h.columns, [&]<int C>(int n) HWY_ATTR {
    Accumulators<R, C> acc;
    load(acc, b.dq + r * h.width + n, h.width);
    multiply<Left::rows, R, C>(ds + span.from, kTile, b.k + span.from * h.width + n, h.width, used, acc);
    store(acc, b.dq + r * h.width + n, h.width);
  });
}

// Packs queries and output gradients of the tile that begins at q0; delta_i = <do_i, o_i>, and the log-sum-exp in base 2. Rows beyond the
// end have lse = +infinity, so their probabilities are 0.
template <int DH>
HWY_INLINE void pack_queries(const Head<DH>& h, const AttentionUnit& u, ConstRows o, const float* lse, ConstRows d_o, int q0, float* qp,
                             float* dop, float* lse2, float* delta) {
  const D d;
  const int rows = smaller(kTile, u.queries - q0), rows_up = round_up(rows, kStripStep);
  pack_rows(u.q, u.query_rows, q0, rows, rows_up, h.dim, h.columns, u.scale * kLog2e, qp, h.width);
  pack_rows(d_o, u.query_rows, q0, rows, rows_up, h.dim, h.columns, 1.f, dop, h.width);
  for (int r = 0; r < rows_up; ++r) {
    const int place = r >= rows ? -1 : u.query_rows ? u.query_rows[q0 + r] : q0 + r;
    lse2[r] = place >= 0 ? lse[place] * kLog2e : hn::GetLane(hn::Inf(d));
    V sum = hn::Zero(d);
    if (place >= 0)
      for (int c = 0; c < h.columns; c += kLanes)
        sum = hn::MulAdd(load_at(o.row(place), c, h.dim), hn::Load(d, dop + r * h.width + c), sum);
    delta[r] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

HWY_INLINE void put(V v, bool add, float* row, int c, int dim) { store_at(add ? hn::Add(load_at(row, c, dim), v) : v, row, c, dim); }

template <int DH>
void backward(const AttentionUnit& u, ConstRows o, const float* lse, ConstRows d_o, Rows dk, Rows dv, float* part, float* scratch) {
  const Head<DH> h(u.head_dim);
  const D d;
  const int count = u.met_last - u.met_first;
  const ptrdiff_t tile = ptrdiff_t{kTile} * h.width;
  float* next = scratch;
  const auto take = [&](ptrdiff_t floats) HWY_ATTR {
    float* at = next;
    next += floats;
    return at;
  };
  float *qp = take(count * tile), *dop = take(count * tile), *lse2 = take(count * kTile), *delta = take(count * kTile);
  float *kt = take(tile), *vt = take(tile), *kp = take(tile), *dkp = take(tile), *dvp = take(tile);
  float *p = take(kKept * kTile), *ds = take(kKept * kTile);
  float* packed = take(count);  // of each query tile: 1 where its operands are packed
  for (int i = 0; i < count; ++i) packed[i] = 0;
  const int part_rows = round_up(smaller(u.met_last * kTile, u.queries), kStripStep) - u.met_first * kTile;
  for (ptrdiff_t x = 0; x < ptrdiff_t{part_rows} * h.width; x += kLanes) hn::Store(hn::Zero(d), d, part + x);
  Bounds bounds;
  const Drop drop(u.dropout.key, u.dropout.threshold, u.dropout.scale, u.dropout.step);
  for (int j = u.first; j < u.last; ++j) {
    const int k0 = j * kTile, keys = smaller(kTile, u.keys - k0), columns = round_up(keys, kLanes);
    pack_rows_transposed(u.k, u.key_rows, k0, keys, columns, h.dim, kp, kt);
    pack_rows_transposed(u.v, u.key_rows, k0, keys, columns, h.dim, kp, vt);
    pack_rows(u.k, u.key_rows, k0, keys, keys, h.dim, h.columns, 1.f, kp, h.width);
    for (int x = 0; x < columns * h.width; x += kLanes) {
      hn::Store(hn::Zero(d), d, dkp + x);
      hn::Store(hn::Zero(d), d, dvp + x);
    }
    for (int e = u.begin[j]; e < u.begin[j + 1]; ++e) {
      const int i = u.entries[e].tile, q0 = i * kTile, rows = smaller(kTile, u.queries - q0), rows_up = round_up(rows, kStripStep);
      const int row_at = (i - u.met_first) * kTile;
      const ptrdiff_t at = (i - u.met_first) * tile;
      if (packed[i - u.met_first] == 0) pack_queries(h, u, o, lse, d_o, q0, qp + at, dop + at, lse2 + row_at, delta + row_at);
      packed[i - u.met_first] = 1;
      set_bounds(u, u.entries[e], q0, rows, rows_up, k0, keys, bounds);
      const Pair t = make_pair(u, drop, q0, k0, bounds);
      Ahead ahead(h.dim);
      if (e + 1 < u.begin[j + 1]) {
        const int next = u.entries[e + 1].tile, first = next * kTile;
        if (packed[next - u.met_first] == 0)
          for (const ConstRows& x : {u.q, d_o, o}) ahead.add(x, u.query_rows, first, smaller(kTile, u.queries - first));
      } else if (j + 1 < u.last) {
        for (const ConstRows& x : {u.k, u.v}) ahead.add(x, u.key_rows, k0 + kTile, smaller(kTile, u.keys - k0 - kTile));
      }
      const BackwardTiles b{qp + at, dop + at, kt, vt, kp, lse2 + row_at, delta + row_at, p, ds, part + at};
      for (int r0 = 0; r0 < bounds.rows; r0 += kKept) {
        const int some = smaller(kKept, bounds.rows - r0);
        const Span kept = span_of(bounds, r0, r0 + some, columns);
        const int used = round_up(smaller(kept.to, keys) - kept.from, kStripStep);
        for_strips(round_up(some, kStripStep), [&]<int R>(int r) HWY_ATTR {
          backward_strip<DH, R>(h, t, r0 + r, kept, b);
          ahead.some();
        });
        const auto add_rows = [&](const float* x, const float* y, float* sum) HWY_ATTR {
          add_product(used, h.columns, some, x + kept.from, kTile, y + r0 * h.width, h.width, sum + kept.from * h.width, h.width);
        };
        add_rows(p, b.d_o, dvp);
        add_rows(ds, b.q, dkp);
      }
    }
    const V ln2 = hn::Set(d, kLn2);  // the packed queries carry scale * log2 e
    for (int r = 0; r < keys; ++r) {
      const int place = u.key_rows ? u.key_rows[k0 + r] : k0 + r;
      for (int c = 0; c < h.columns; c += kLanes) {
        put(hn::Mul(hn::Load(d, dkp + r * h.width + c), ln2), u.add, dk.row(place), c, h.dim);
        put(hn::Load(d, dvp + r * h.width + c), u.add, dv.row(place), c, h.dim);
      }
    }
  }
}

void SumPartsTarget(const AttentionUnit& u, const AttentionPart* parts, int count, Rows dq) {
  const D d;
  const int columns = round_up(u.head_dim, kLanes), width = attention_width(u.head_dim);
  const V factor = hn::Set(d, u.scale);
  for (int r = 0; r < u.queries; ++r) {
    float* row = dq.row(u.query_rows ? u.query_rows[r] : r);
    for (int c = 0; c < columns; c += kLanes) {
      V sum = hn::Zero(d);
      for (int i = 0; i < count; ++i)
        if (r / kTile >= parts[i].first && r / kTile < parts[i].last)
          sum = hn::Add(sum, hn::Load(d, parts[i].data + ptrdiff_t{r - parts[i].first * kTile} * width + c));
      put(hn::Mul(sum, factor), u.add, row, c, u.head_dim);
    }
  }
}

void BackwardTarget(const AttentionUnit& u, ConstRows o, const float* lse, ConstRows d_o, Rows dk, Rows dv, float* part, float* scratch) {
#if HWY_TARGET != HWY_SCALAR
  switch (u.head_dim) {
    case 16:
      return backward<16>(u, o, lse, d_o, dk, dv, part, scratch);
    case 32:
      return backward<32>(u, o, lse, d_o, dk, dv, part, scratch);
    case 64:
      return backward<64>(u, o, lse, d_o, dk, dv, part, scratch);
    default:
      break;
  }
#endif
  backward<0>(u, o, lse, d_o, dk, dv, part, scratch);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(BackwardTarget);
HWY_EXPORT(SumPartsTarget);

size_t attention_backward_scratch(const AttentionUnit& u) {
  const size_t tile = static_cast<size_t>(attention_tile) * static_cast<size_t>(attention_width(u.head_dim));
  const size_t count = static_cast<size_t>(u.met_last - u.met_first);
  return (2 * count + 5) * tile + 2 * count * attention_tile + (count + 15) / 16 * 16 + 2 * attention_tile * attention_tile;
}

void attention_backward(const AttentionUnit& u, ConstRows o, const float* lse, ConstRows d_o, Rows dk, Rows dv, float* part,
                        float* scratch) {
  HWY_DYNAMIC_DISPATCH(BackwardTarget)(u, o, lse, d_o, dk, dv, part, scratch);
}

void attention_sum_parts(const AttentionUnit& u, const AttentionPart* parts, int count, Rows dq) {
  HWY_DYNAMIC_DISPATCH(SumPartsTarget)(u, parts, count, dq);
}

}  // namespace tapeformer::simd
#endif  // HWY_ONCE
