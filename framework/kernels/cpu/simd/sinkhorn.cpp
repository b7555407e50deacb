// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/simd/sinkhorn.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/sinkhorn.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After foreach_target.h:
#include <hwy/contrib/math/math-inl.h>

#include "framework/kernels/cpu/simd/math.h"
#include "framework/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

// Rows whose elements are summed before they are added to the sums of all: a float sum of thousands of terms loses too much.
constexpr int kSummed = 32;

HWY_INLINE V log_sum(V most, V sum) { return or_nan(sum, hn::Add(most, hn::Log(D(), sum))); }

HWY_INLINE void fill(float* x, int n, V v) {
  for (int c = 0; c < n; c += kLanes) store_at(v, x, c, n);
}

// total_c = sum over u of term(u, c), in runs of kSummed rows. term gives whole vectors.
template <class Term>
HWY_INLINE void sum_columns(int n, float* total, float* part, const Term& term) {
  const V zero = hn::Zero(D());
  fill(total, n, zero);
  for (int u = 0; u < n; ++u) {
    if (u % kSummed == 0) fill(part, n, zero);
    for (int c = 0; c < n; c += kLanes) store_at(hn::Add(load_at(part, c, n), term(u, c)), part, c, n);
    if (u % kSummed == kSummed - 1 || u == n - 1)
      for (int c = 0; c < n; c += kLanes) store_at(hn::Add(load_at(total, c, n), load_at(part, c, n)), total, c, n);
  }
}

// x of row u and columns from c on, less both terms.
HWY_INLINE V left(const SinkhornMatrix& m, int u, int c, float row, const float* columns) {
  return hn::Sub(hn::Sub(load_at(m.x + static_cast<ptrdiff_t>(u) * m.n, c, m.n), hn::Set(D(), row)), load_at(columns, c, m.n));
}

void rows_here(const SinkhornMatrix& m, const float* columns, float* rows) {
  const D d;
  float* const sums = m.scratch;
  for (int u = 0; u < m.n; ++u) {
    V most = lowest(), sum = hn::Zero(d);
    for (int c = 0; c < m.n; c += kLanes) {
      const V v = left(m, u, c, 0, columns);
      most = hn::Max(most, HWY_LIKELY(c + kLanes <= m.n) ? v : hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(m.n - c)), v, most));
    }
    most = hn::MaxOfLanes(d, most);
    for (int c = 0; c < m.n; c += kLanes) sum = hn::Add(sum, first_only(exponential(hn::Sub(left(m, u, c, 0, columns), most)), m.n - c));
    rows[u] = hn::GetLane(most);
    sums[u] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
  for (int u = 0; u < m.n; u += kLanes) store_at(log_sum(load_at(rows, u, m.n), load_at(sums, u, m.n)), rows, u, m.n);
}

void columns_here(const SinkhornMatrix& m, const float* rows, float* columns, float* p) {
  const D d;
  const int n = m.n;
  float *const total = m.scratch, *const most = columns;
  fill(most, n, lowest());
  for (int u = 0; u < n; ++u) {
    const float* row = m.x + static_cast<ptrdiff_t>(u) * n;
    for (int c = 0; c < n; c += kLanes)
      store_at(hn::Max(load_at(most, c, n), hn::Sub(load_at(row, c, n), hn::Set(d, rows[u]))), most, c, n);
  }
  sum_columns(n, total, m.scratch + n, [&](int u, int c) HWY_ATTR {
    const V e = exponential(left(m, u, c, rows[u], most));
    if (p) store_at(e, p + static_cast<ptrdiff_t>(u) * n, c, n);
    return e;
  });
  for (int u = 0; p && u < n; ++u) {
    float* row = p + static_cast<ptrdiff_t>(u) * n;
    for (int c = 0; c < n; c += kLanes) store_at(hn::Div(load_at(row, c, n), load_at(total, c, n)), row, c, n);
  }
  for (int c = 0; c < n; c += kLanes) store_at(log_sum(load_at(most, c, n), load_at(total, c, n)), columns, c, n);
}

void rows_backward_here(const SinkhornMatrix& m, const float* rows, const float* columns, float* d_all) {
  const D d;
  for (int u = 0; u < m.n; ++u) {
    float* const row = d_all + static_cast<ptrdiff_t>(u) * m.n;
    V sum = hn::Zero(d);
    for (int c = 0; c < m.n; c += kLanes) sum = hn::Add(sum, load_at(row, c, m.n));
    sum = hn::SumOfLanes(d, sum);
    for (int c = 0; c < m.n; c += kLanes)
      store_at(hn::NegMulAdd(exponential(left(m, u, c, rows[u], columns)), sum, load_at(row, c, m.n)), row, c, m.n);
  }
}

void columns_backward_here(const SinkhornMatrix& m, const float* rows, const float* columns, float* d_all) {
  const int n = m.n;
  float* const total = m.scratch;
  sum_columns(n, total, m.scratch + n, [&](int u, int c) HWY_ATTR { return load_at(d_all + static_cast<ptrdiff_t>(u) * n, c, n); });
  for (int u = 0; u < n; ++u) {
    float* const row = d_all + static_cast<ptrdiff_t>(u) * n;
    for (int c = 0; c < n; c += kLanes)
      store_at(hn::NegMulAdd(exponential(left(m, u, c, rows[u], columns)), load_at(total, c, n), load_at(row, c, n)), row, c, n);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(rows_here);
HWY_EXPORT(columns_here);
HWY_EXPORT(rows_backward_here);
HWY_EXPORT(columns_backward_here);
void sinkhorn_rows(const SinkhornMatrix& m, const float* columns, float* rows) { HWY_DYNAMIC_DISPATCH(rows_here)(m, columns, rows); }
void sinkhorn_columns(const SinkhornMatrix& m, const float* rows, float* columns, float* p) {
  HWY_DYNAMIC_DISPATCH(columns_here)(m, rows, columns, p);
}
void sinkhorn_rows_backward(const SinkhornMatrix& m, const float* rows, const float* columns, float* d) {
  HWY_DYNAMIC_DISPATCH(rows_backward_here)(m, rows, columns, d);
}
void sinkhorn_columns_backward(const SinkhornMatrix& m, const float* rows, const float* columns, float* d) {
  HWY_DYNAMIC_DISPATCH(columns_backward_here)(m, rows, columns, d);
}

}  // namespace tapeformer::simd
#endif
