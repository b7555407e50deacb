// SPDX-License-Identifier: Apache-2.0
// The forward of softmax attention over tiles of 64 queries by 64 keys, in strips of a few query rows so that a strip's probabilities stay
// in the first cache level. Scores are in units of log 2 (scale * log2 e is folded into the packed queries).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/attention_forward.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After foreach_target.h:
#include <hwy/contrib/math/math-inl.h>

#include "framework/kernels/cpu/simd/attention_ahead.h"
#include "framework/kernels/cpu/simd/attention_tile.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

constexpr float kLowest = -1e30f;  // the running maximum before any score: finite, so that nothing subtracts two infinities

// A query tile of the forward: running maximum and sums (one lane each) of its rows.
struct Running {
  alignas(64) float top[kTile], sum[kTile][kLanes];
};

// The running maximum follows only when a score exceeds it by 2^8: most tiles then need neither a reduction nor a change of the sums, and
// the exponentials stay far from overflow.
constexpr float kSlack = 8;

template <int DH, int R>
HWY_INLINE void forward_strip(const Head<DH>& h, const Pair& t, int r, const float* q, const float* kt, const float* v, float* o,
                              Running& st) {
  const D d;
  const Span span = span_of(*t.bounds, r, r + R, t.columns);
  if (span.from == span.to) return;
  alignas(64) float p[R * kTile];
  V top[R];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) top[i] = hn::Set(d, kLowest);
  for_columns(span.from, span.to, [&]<int C>(int n) HWY_ATTR {
    Accumulators<R, C> s;
    clear(s);
    multiply<Left::rows, R, C>(q + r * h.width, h.width, kt + n, kTile, h.dim, s);
    apply(*t.bounds, r, n, s);
    store(s, p + n, kTile);
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i)
      for (int c = 0; c < C; ++c) top[i] = hn::Max(top[i], s.v[i][c]);
  });
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
    V m = hn::Set(d, st.top[r + i]);
    V sum = hn::Load(d, st.sum[r + i]);
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::Gt(top[i], hn::Add(m, hn::Set(d, kSlack)))))) {
      const V risen = hn::MaxOfLanes(d, top[i]);
      const V shrink = exp2(hn::Sub(m, risen));
      sum = hn::Mul(sum, shrink);
      for (int n = 0; n < h.columns; n += kLanes) {
        float* at = o + (r + i) * h.width + n;
        hn::Store(hn::Mul(hn::Load(d, at), shrink), d, at);
      }
      m = risen;
      st.top[r + i] = hn::GetLane(risen);
    }
    for (int n = span.from; n < span.to; n += kLanes) {
      const V e = exp2(hn::Sub(hn::Load(d, p + i * kTile + n), m));
      hn::Store(e, d, p + i * kTile + n);
      sum = hn::Add(sum, e);
    }
    hn::Store(sum, d, st.sum[r + i]);
  }
  if (t.drop)
    for (int i = 0; i < R; ++i) {
      const uint64_t dropped = dropped_columns(t, r + i, span);
      for (int n = span.from; n < span.to; n += kLanes) {
        float* at = p + i * kTile + n;
        hn::Store(hn::IfThenZeroElse(lanes_of(static_cast<uint32_t>(dropped >> n)), hn::Load(d, at)), d, at);
      }
    }
  const int used = smaller(span.to, t.keys) - span.from;
  for_columns(0, h.columns, [&]<int C>(int n) HWY_ATTR {
    Accumulators<R, C> acc;
    load(acc, o + r * h.width + n, h.width);
    multiply<Left::rows, R, C>(p + span.from, kTile, v + span.from * h.width + n, h.width, used, acc);
    store(acc, o + r * h.width + n, h.width);
  });
}

// o = sums / sum of exponentials, and the log-sum-exp. A row without keys has sum 0: o = 0 and lse = +infinity.
template <int DH>
HWY_INLINE void finish_queries(const Head<DH>& h, const Running& st, int rows, float kept, const float* sums, Rows o, float* lse) {
  const D d;
  alignas(64) float total[kTile];
  for (int r = 0; r < rows; ++r) {
    const V sum = hn::SumOfLanes(d, hn::Load(d, st.sum[r]));
    total[r] = hn::GetLane(sum);
    const V factor = total[r] == 0 ? hn::Zero(d) : hn::Div(hn::Set(d, kept), sum);
    for (int c = 0; c < h.columns; c += kLanes) store_at(hn::Mul(hn::Load(d, sums + r * h.width + c), factor), o.row(r), c, h.dim);
  }
  for (int r = 0; r < rows; r += kLanes) {
    const V sum = hn::Load(d, total + r);
    const V l = hn::MulAdd(hn::Load(d, st.top + r), hn::Set(d, kLn2), hn::Log(d, sum));
    store_at(hn::IfThenElse(hn::Eq(sum, hn::Zero(d)), hn::Inf(d), or_nan(sum, l)), lse, r, rows);
  }
}

// Adds the rows of a tile, finished in `part` and part_lse, to a softmax over other keys: L = log(e^L0 + e^L1), o = e^(L0 - L) o0 +
// e^(L1 - L) o1, or writes them over it.
template <int DH>
HWY_INLINE void merge_queries(const Head<DH>& h, const AttentionUnit& u, int q0, int rows, const float* part, const float* part_lse, Rows o,
                              float* lse) {
  const D d;
  alignas(64) float before[kTile], after[kTile], kept[kTile], added[kTile];
  const auto place = [&](int r) HWY_ATTR { return u.query_rows ? u.query_rows[q0 + r] : q0 + r; };
  for (int r = 0; r < round_up(rows, kLanes); ++r) before[r] = u.add && r < rows ? lse[place(r)] : hn::GetLane(hn::Inf(d));
  for (int r = 0; r < rows; r += kLanes) {
    const V none = hn::Inf(d), l0 = hn::Load(d, before + r), l1 = hn::Load(d, part_lse + r);
    const auto empty0 = hn::Eq(l0, none), empty1 = hn::Eq(l1, none);
    const V top = hn::IfThenElse(empty0, l1, hn::IfThenElse(hn::Or(empty1, hn::Gt(l0, l1)), l0, l1));
    const V e0 = hn::IfThenZeroElse(empty0, exp2(hn::Mul(hn::Sub(l0, top), hn::Set(d, kLog2e))));
    const V e1 = hn::IfThenZeroElse(empty1, exp2(hn::Mul(hn::Sub(l1, top), hn::Set(d, kLog2e))));
    const V sum = hn::Add(e0, e1);
    const auto neither = hn::And(empty0, empty1);
    hn::Store(hn::IfThenElse(neither, none, or_nan(sum, hn::Add(top, hn::Log(d, sum)))), d, after + r);
    hn::Store(hn::IfThenZeroElse(neither, hn::Div(e0, sum)), d, kept + r);
    hn::Store(hn::IfThenZeroElse(neither, hn::Div(e1, sum)), d, added + r);
  }
  for (int r = 0; r < rows; ++r) {
    float* row = o.row(place(r));
    lse[place(r)] = after[r];
    const V f0 = hn::Set(d, kept[r]), f1 = hn::Set(d, added[r]);
    for (int c = 0; c < h.columns; c += kLanes) {
      const V mine = hn::Mul(hn::Load(d, part + r * h.width + c), f1);
      store_at(u.add ? hn::MulAdd(load_at(row, c, h.dim), f0, mine) : mine, row, c, h.dim);
    }
  }
}

template <int DH>
void forward(const AttentionUnit& u, Rows o, float* lse, float* scratch) {
  const Head<DH> h(u.head_dim);
  const D d;
  const int met = u.met_last - u.met_first;
  const ptrdiff_t tile = ptrdiff_t{kTile} * h.width;
  float* kt = scratch;
  float* vp = kt + met * tile;
  float* qp = vp + met * tile;
  float* sums = qp + tile;
  float* room = sums + tile;
  float* packed = room + tile;  // of each key tile: 1 where it is in kt and vp
  for (int j = 0; j < met; ++j) packed[j] = 0;
  Running st;
  Bounds bounds;
  const Drop drop(u.dropout.key, u.dropout.threshold, 1.f, u.dropout.step);
  for (int i = u.first; i < u.last; ++i) {
    const int q0 = i * kTile, rows = smaller(kTile, u.queries - q0), rows_up = round_up(rows, kStripStep);
    pack_rows(u.q, u.query_rows, q0, rows, rows_up, h.dim, h.columns, u.scale * kLog2e, qp, h.width);
    for (int r = 0; r < round_up(rows, kLanes); ++r) {
      st.top[r] = kLowest;
      hn::Store(hn::Zero(d), d, st.sum[r]);
    }
    for (int x = 0; x < rows_up * h.width; x += kLanes) hn::Store(hn::Zero(d), d, sums + x);
    for (int e = u.begin[i]; e < u.begin[i + 1]; ++e) {
      const int j = u.entries[e].tile, k0 = j * kTile, keys = smaller(kTile, u.keys - k0);
      const ptrdiff_t at = (j - u.met_first) * tile;
      if (packed[j - u.met_first] == 0) {
        pack_rows_transposed(u.k, u.key_rows, k0, keys, round_up(keys, kLanes), h.dim, room, kt + at);
        pack_rows(u.v, u.key_rows, k0, keys, keys, h.dim, h.columns, 1.f, vp + at, h.width);
        packed[j - u.met_first] = 1;
      }
      Ahead ahead(h.dim);
      if (e + 1 < u.begin[i + 1]) {
        const int next = u.entries[e + 1].tile, first = next * kTile;
        if (packed[next - u.met_first] == 0)
          for (const ConstRows& x : {u.k, u.v}) ahead.add(x, u.key_rows, first, smaller(kTile, u.keys - first));
      } else if (i + 1 < u.last) {
        ahead.add(u.q, u.query_rows, q0 + kTile, smaller(kTile, u.queries - q0 - kTile));
      }
      set_bounds(u, u.entries[e], q0, rows, rows_up, k0, keys, bounds);
      const Pair t = make_pair(u, drop, q0, k0, bounds);
      for_strips(round_up(bounds.rows, kStripStep), [&]<int R>(int r) HWY_ATTR {
        forward_strip<DH, R>(h, t, r, qp, kt + at, vp + at, sums, st);
        ahead.some();
      });
    }
    const float kept = u.dropout.threshold ? u.dropout.scale : 1.f;
    if (!u.add && !u.query_rows) {
      finish_queries(h, st, rows, kept, sums, Rows{o.row(q0), o.stride}, lse + q0);
    } else {
      alignas(64) float part_lse[kTile];
      finish_queries(h, st, rows, kept, sums, Rows{qp, h.width}, part_lse);
      merge_queries(h, u, q0, rows, qp, part_lse, o, lse);
    }
  }
}

void ForwardTarget(const AttentionUnit& u, Rows o, float* lse, float* scratch) {
#if HWY_TARGET != HWY_SCALAR
  switch (u.head_dim) {
    case 16:
      return forward<16>(u, o, lse, scratch);
    case 32:
      return forward<32>(u, o, lse, scratch);
    case 64:
      return forward<64>(u, o, lse, scratch);
    default:
      break;
  }
#endif
  forward<0>(u, o, lse, scratch);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(ForwardTarget);

size_t attention_forward_scratch(const AttentionUnit& u) {
  const size_t tile = static_cast<size_t>(attention_tile) * static_cast<size_t>(attention_width(u.head_dim));
  const size_t met = static_cast<size_t>(u.met_last - u.met_first);
  return (2 * met + 3) * tile + met;
}

void attention_forward(const AttentionUnit& u, Rows o, float* lse, float* scratch) {
  HWY_DYNAMIC_DISPATCH(ForwardTarget)(u, o, lse, scratch);
}

}  // namespace tapeformer::simd
#endif  // HWY_ONCE
