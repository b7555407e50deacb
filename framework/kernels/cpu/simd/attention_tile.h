// SPDX-License-Identifier: Apache-2.0
// What the attention kernels need beside the register blocks of tile.h: blocks of one or two vectors, so that short tiles and narrow heads
// waste little; packing of tiles; which keys of a tile are allowed; 2^x; and which probabilities of a row are dropped.
#if defined(TAPEFORMER_SIMD_ATTENTION_TILE_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPEFORMER_SIMD_ATTENTION_TILE_H
#undef TAPEFORMER_SIMD_ATTENTION_TILE_H
#else
#define TAPEFORMER_SIMD_ATTENTION_TILE_H
#endif
#include "framework/kernels/cpu/simd/attention.h"
#include "framework/kernels/cpu/simd/drop.h"
#include "framework/kernels/cpu/simd/math.h"
#include "framework/kernels/cpu/simd/tile.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {

constexpr float kLog2e = 1.44269504088896341f, kLn2 = 0.693147180559945309f;
constexpr int kTile = attention_tile;
// Rows of a strip. Shorter blocks than tile.h's: tiles of 64 and 32 rows are whole strips, and 16 accumulators (8 on AVX2, where 6 x 2
// vectors lose an eighth of the speed at the short depth of a head) already hide the latency.
constexpr int kStrip = kLanes == 16 ? 8 : 4;
constexpr int kStripStep = kLanes == 16 ? 4 : 2;  // row counts are rounded up to this; the rows beyond are zero

template <int R, int C>
struct Accumulators {
  V v[R][C];
};

template <int R, int C>
HWY_INLINE void clear(Accumulators<R, C>& b) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) b.v[r][c] = hn::Zero(D());
}
template <int R, int C>
HWY_INLINE void load(Accumulators<R, C>& b, const float* p, size_t stride) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) b.v[r][c] = hn::Load(D(), p + r * stride + c * kLanes);
}
template <int R, int C>
HWY_INLINE void store(const Accumulators<R, C>& b, float* p, size_t stride) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) hn::Store(b.v[r][c], D(), p + r * stride + c * kLanes);
}

// acc[R x C vectors] += X[R x K] Y[K x C vectors]; rows of Y are aligned.
template <Left L, int R, int C>
HWY_INLINE void multiply(const float* HWY_RESTRICT x, size_t ldx, const float* HWY_RESTRICT y, size_t ldy, int K, Accumulators<R, C>& acc) {
  const D d;
#pragma GCC unroll 4
  for (int k = 0; k < K; ++k) {
    V row[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      row[c] = hn::Load(d, y + k * ldy + c * kLanes);
      hold(row[c]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      V a = hn::Set(d, L == Left::rows ? x[r * ldx + k] : x[k * ldx + r]);
      if (C > 1) hold(a);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) acc.v[r][c] = hn::MulAdd(a, row[c], acc.v[r][c]);
    }
  }
}

// Calls f.template operator()<R>(row) for strips that cover [0, rows), a multiple of kStripStep.
template <class F>
HWY_INLINE void for_strips(int rows, const F& f) {
  int r = 0;
  for (; r + kStrip <= rows; r += kStrip) f.template operator()<kStrip>(r);
  if constexpr (kStrip > 4)
    if (r + 4 <= rows) {
      f.template operator()<4>(r);
      r += 4;
    }
  if constexpr (kStripStep == 2)
    if (r < rows) f.template operator()<2>(r);
}

// Calls f.template operator()<C>(column) for blocks of C vectors that cover [from, to), multiples of kLanes.
template <class F>
HWY_INLINE void for_columns(int from, int to, const F& f) {
  int n = from;
  for (; n + kCols <= to; n += kCols) f.template operator()<2>(n);
  if (n < to) f.template operator()<1>(n);
}

// C[M x N] += X' Y with X stored as [K][M]; M a multiple of kStripStep, N of kLanes.
HWY_INLINE void add_product(int M, int N, int K, const float* x, size_t ldx, const float* y, size_t ldy, float* c, size_t ldc) {
  for_strips(M, [&]<int R>(int r) HWY_ATTR {
    for_columns(0, N, [&]<int C>(int n) HWY_ATTR {
      Accumulators<R, C> b;
      load(b, c + r * ldc + n, ldc);
      multiply<Left::columns, R, C>(x + r, ldx, y + n, ldy, K, b);
      store(b, c + r * ldc + n, ldc);
    });
  });
}

// Rows that a list names.
struct ListedRows {
  ConstRows rows;
  const int32_t* list;
  HWY_INLINE const float* row(ptrdiff_t r) const { return rows.row(list[r]); }
};

// out[r][c] = x[r][c] * factor for rows x dim, zero up to rows_up x dim_up (a multiple of kLanes).
template <class Source>
HWY_MAYBE_UNUSED static HWY_NOINLINE void pack(Source x, int rows, int rows_up, int dim, int dim_up, float factor, float* HWY_RESTRICT out,
                                               size_t ldo) {
  const D d;
  const V f = hn::Set(d, factor);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < dim_up; c += kLanes) hn::Store(hn::Mul(load_at(x.row(r), c, dim), f), d, out + r * ldo + c);
  for (int r = rows; r < rows_up; ++r)
    for (int c = 0; c < dim_up; c += kLanes) hn::Store(hn::Zero(d), d, out + r * ldo + c);
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
// out[c][r] = x[r][c] * factor for 8 x 8 floats; rows of x from `rows` on count as zero.
HWY_INLINE void transpose8(const float* HWY_RESTRICT x, ptrdiff_t ldx, int rows, float factor, float* HWY_RESTRICT out, ptrdiff_t ldo) {
  const hn::FixedTag<float, 8> d;
  const hn::FixedTag<double, 4> dd;
  using V8 = hn::Vec<decltype(d)>;
  const V8 f = hn::Set(d, factor);
  V8 u[2][4];  // u[h][c]: columns c and c + 4 of rows 4h ... 4h + 3
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    V8 row[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) row[r] = 4 * h + r < rows ? hn::Mul(hn::LoadU(d, x + (4 * h + r) * ldx), f) : hn::Zero(d);
    const auto a = hn::BitCast(dd, hn::InterleaveLower(d, row[0], row[1])), b = hn::BitCast(dd, hn::InterleaveUpper(d, row[0], row[1]));
    const auto e = hn::BitCast(dd, hn::InterleaveLower(d, row[2], row[3])), g = hn::BitCast(dd, hn::InterleaveUpper(d, row[2], row[3]));
    u[h][0] = hn::BitCast(d, hn::InterleaveLower(dd, a, e));
    u[h][1] = hn::BitCast(d, hn::InterleaveUpper(dd, a, e));
    u[h][2] = hn::BitCast(d, hn::InterleaveLower(dd, b, g));
    u[h][3] = hn::BitCast(d, hn::InterleaveUpper(dd, b, g));
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    hn::StoreU(hn::ConcatLowerLower(d, u[1][c], u[0][c]), d, out + c * ldo);
    hn::StoreU(hn::ConcatUpperUpper(d, u[1][c], u[0][c]), d, out + (c + 4) * ldo);
  }
}
#endif

// out[c][r] = x[r][c] * factor, [dim][kTile]; columns from `rows` up to rows_up are zero.
HWY_MAYBE_UNUSED static HWY_NOINLINE void pack_transposed(ConstRows x, int rows, int rows_up, int dim, float factor,
                                                          float* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const int whole = dim / 8 * 8;
  for (int r = 0; r < rows_up; r += 8)
    for (int c = 0; c < whole; c += 8) {
      if (HWY_LIKELY(r + 8 <= rows)) transpose8(x.row(r) + c, x.stride, 8, factor, out + c * kTile + r, kTile);
      else transpose8(x.row(r) + c, x.stride, rows - r, factor, out + c * kTile + r, kTile);
    }
#else
  const int whole = 0;
#endif
  for (int c = whole; c < dim; ++c)
    for (int r = 0; r < rows_up; ++r) out[c * kTile + r] = r < rows ? x.row(r)[c] * factor : 0;
}

// The rows from `first` on of one side of a plan, packed: see pack() and pack_transposed(). A null list means the rows themselves.
HWY_MAYBE_UNUSED static HWY_NOINLINE void pack_rows(ConstRows x, const int32_t* list, int first, int rows, int rows_up, int dim, int dim_up,
                                                    float factor, float* out, size_t ldo) {
  if (list) pack(ListedRows{x, list + first}, rows, rows_up, dim, dim_up, factor, out, ldo);
  else pack(ConstRows{x.row(first), x.stride}, rows, rows_up, dim, dim_up, factor, out, ldo);
}
// `room` holds a packed tile.
HWY_MAYBE_UNUSED static HWY_NOINLINE void pack_rows_transposed(ConstRows x, const int32_t* list, int first, int rows, int rows_up, int dim,
                                                               float* room, float* out) {
  if (!list) return pack_transposed({x.row(first), x.stride}, rows, rows_up, dim, 1.f, out);
  const int width = attention_width(dim);
  pack(ListedRows{x, list + first}, rows, rows, dim, round_up(dim, kLanes), 1.f, room, static_cast<size_t>(width));
  pack_transposed({room, width}, rows, rows_up, dim, 1.f, out);
}

// The head's size, known to the compiler where DH is not 0.
template <int DH>
struct Head {
  int dim, columns, width;  // channels; rounded up to vectors; floats between packed rows
  explicit Head(int head_dim)
      : dim(DH ? DH : head_dim), columns(round_up(DH ? DH : head_dim, kLanes)), width(attention_width(DH ? DH : head_dim)) {}
};

// The keys that each row of a tile may use, a bit for each column; `partial` where some column up to the rounded count is not allowed,
// `by_row` where rows differ in that. Rows from `rows` on have no key here.
struct Bounds {
  bool partial, by_row;
  int rows;
  uint64_t keys[kTile];
};

HWY_INLINE uint64_t ones(int count) { return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1; }

// Out of line: inlined, it would push the register blocks out of line.
HWY_MAYBE_UNUSED static HWY_NOINLINE void set_bounds(const AttentionUnit& u, const TileEntry& entry, int q0, int rows, int rows_up, int k0,
                                                     int keys, Bounds& b) {
  b.by_row = entry.predicate != Predicate::all;
  b.partial = b.by_row || keys % kLanes != 0;
  b.rows = rows;
  if (!b.partial) return;
  const uint64_t real = ones(keys);
  for (int r = 0; r < rows_up; ++r) b.keys[r] = r < rows ? real : 0;
  if (entry.predicate == Predicate::interval)
    for (int r = 0; r < rows; ++r) {
      const int low = u.first_key[q0 + r] - k0, high = u.end_key[q0 + r] - k0;
      b.keys[r] &= high <= 0 || low >= 64 ? 0 : ones(high) & ~ones(low < 0 ? 0 : low);
    }
  if (entry.predicate == Predicate::mask)
    for (int r = 0; r < rows; ++r) b.keys[r] &= u.masks[entry.mask].keys[r];
  while (b.rows > 0 && b.keys[b.rows - 1] == 0) --b.rows;
}

// Columns of a tile.
struct Span {
  int from, to;  // multiples of kLanes
};

// The columns, out of the first `columns`, that some of the rows [r, end) may use; an empty span where none may.
HWY_INLINE Span span_of(const Bounds& b, int r, int end, int columns) {
  if (!b.by_row) return {0, columns};
  uint64_t any = 0;
  for (; r < end; ++r) any |= b.keys[r];
  if (any == 0) return {0, 0};
  return {__builtin_ctzll(any) / kLanes * kLanes, round_up(64 - __builtin_clzll(any), kLanes)};
}

template <int R, int C>
HWY_INLINE void apply(const Bounds& b, int r, int n, Accumulators<R, C>& s) {
  if (!b.partial) return;
  const D d;
  const V outside = hn::Neg(hn::Inf(d));
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) {
      const uint64_t bits = b.keys[r + i] >> (n + c * kLanes);
      uint8_t bytes[8];
      hwy::CopySameSize(&bits, &bytes);
      s.v[i][c] = hn::IfThenElse(hn::LoadMaskBits(d, bytes), s.v[i][c], outside);
    }
  }
}

// One pair of tiles.
struct Pair {
  int rows, keys, columns;  // of the query tile; of the key tile; columns rounded up to vectors
  uint32_t first_query, first_key;
  const int32_t *query_places, *key_places;  // of the two tiles; null: from first_query and first_key on
  uint32_t sample;
  const Drop* drop;  // null: nothing is dropped
  const Bounds* bounds;
};

HWY_INLINE Pair make_pair(const AttentionUnit& u, const Drop& drop, int q0, int k0, const Bounds& bounds) {
  const int keys = smaller(kTile, u.keys - k0);
  return {smaller(kTile, u.queries - q0),
          keys,
          round_up(keys, kLanes),
          static_cast<uint32_t>(q0),
          static_cast<uint32_t>(k0),
          u.query_places ? u.query_places + q0 : nullptr,
          u.key_places ? u.key_places + k0 : nullptr,
          u.dropout.sample,
          drop.on() ? &drop : nullptr,
          &bounds};
}

// The columns of row r of a pair whose probabilities are dropped, a bit each, in the span and perhaps some beside it. Rows beyond the end
// get any.
HWY_MAYBE_UNUSED static HWY_NOINLINE uint64_t dropped_columns(const Pair& t, int r, Span span) {
  const uint32_t query =
      t.query_places ? static_cast<uint32_t>(t.query_places[r < t.rows ? r : 0]) : t.first_query + static_cast<uint32_t>(r);
  uint32_t bits[2] = {0, 0};
  const int from = span.from / 4 * 4;  // a counter has four columns
  if (t.key_places) t.drop->draw_at(query, t.sample, t.key_places + from, smaller(span.to, t.keys) - from, bits);
  else t.drop->draw(query, t.sample, static_cast<int>(t.first_key) + from, span.to - from, bits);
  return (uint64_t{bits[0]} | uint64_t{bits[1]} << 32) << from;
}

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();
#endif
