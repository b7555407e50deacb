// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/simd/sparse_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/sparse_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/tile.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

// C vectors of one row of the result from column c on; each element sums its entries in their order.
template <int C>
HWY_INLINE void sum_entries(const SparseRowsCall& p, ptrdiff_t row, int c) {
  const D d;
  const int32_t begin = p.begin[row], end = p.begin[row + 1];
  V sum[C];
#pragma GCC unroll 4
  for (int i = 0; i < C; ++i) sum[i] = hn::Zero(d);
  for (int32_t e = begin; e < end; ++e) {
    const float* x = p.x.row(p.source[e]);
    const V w = hn::Set(d, p.weight ? static_cast<float>(p.weight[e]) : 1.f);
#pragma GCC unroll 4
    for (int i = 0; i < C; ++i) sum[i] = hn::MulAdd(w, load_at(x, c + i * kLanes, p.columns), sum[i]);
  }
  float* out = p.out.row(row);
#pragma GCC unroll 4
  for (int i = 0; i < C; ++i) {
    const int at = c + i * kLanes;
    store_at(p.add ? hn::Add(load_at(out, at, p.columns), sum[i]) : sum[i], out, at, p.columns);
  }
}

void sparse_rows_here(const SparseRowsCall& p, ptrdiff_t first, ptrdiff_t last) {
  // Rows are asked for before their turn: they lie where no hardware guesses them.
  constexpr int entries_ahead = 12, rows_ahead = 8, most_columns = 128;
  const int32_t end = p.begin[last];
  int32_t asked = p.begin[first];
  for (ptrdiff_t r = first; r < last; ++r) {
    for (const int32_t until = smaller(end, p.begin[r + 1] + entries_ahead); asked < until; ++asked)
      for (int c = 0; c < smaller(p.columns, most_columns); c += 16) __builtin_prefetch(p.x.row(p.source[asked]) + c);
    for (int c = 0; r + rows_ahead < last && c < smaller(p.columns, most_columns); c += 16)
      __builtin_prefetch(p.out.row(r + rows_ahead) + c, 1);
    int c = 0;
    for (; c + 4 * kLanes <= p.columns; c += 4 * kLanes) sum_entries<4>(p, r, c);
    for (; c + 2 * kLanes <= p.columns; c += 2 * kLanes) sum_entries<2>(p, r, c);
    for (; c < p.columns; c += kLanes) sum_entries<1>(p, r, c);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(sparse_rows_here);
void sparse_rows(const SparseRowsCall& call, ptrdiff_t first, ptrdiff_t last) { HWY_DYNAMIC_DISPATCH(sparse_rows_here)(call, first, last); }

}  // namespace tapeformer::simd
#endif
