// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/simd/peak.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/kernels/cpu/simd/peak.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/tile.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {
namespace {

// A multiply-add takes 4 or 5 cycles and two start in each: ten chains keep both units busy and fit into 16 registers.
constexpr int chains = 10;

}  // namespace

float multiply_add_here(ptrdiff_t rounds) {
  const D d;
  const V factor = hn::Set(d, 0.5f), addend = hn::Set(d, 1.0f);
  V v[chains];
  // Not unrolled early, the chains stay in memory with 16 registers, and the "peak" is a third of it.
#pragma GCC unroll 10
  for (int c = 0; c < chains; ++c) v[c] = hn::Set(d, static_cast<float>(c));
  for (ptrdiff_t r = 0; r < rounds; ++r)
#pragma GCC unroll 10
    for (int c = 0; c < chains; ++c) {
      v[c] = hn::MulAdd(v[c], factor, addend);
      hold(v[c]);
    }
  V sum = v[0];
#pragma GCC unroll 10
  for (int c = 1; c < chains; ++c) sum = hn::Add(sum, v[c]);
  return hn::GetLane(sum);
}

ptrdiff_t multiply_add_flops_here() { return 2 * chains * kLanes; }

void scaled_add_here(float a, ptrdiff_t n, const float* x, float* y) {
  const D d;
  const V factor = hn::Set(d, a);
  ptrdiff_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
  for (; i < n; ++i) y[i] += a * x[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {

HWY_EXPORT(multiply_add_here);
HWY_EXPORT(multiply_add_flops_here);
HWY_EXPORT(scaled_add_here);

float multiply_add_loop(ptrdiff_t rounds) { return HWY_DYNAMIC_DISPATCH(multiply_add_here)(rounds); }
ptrdiff_t multiply_add_flops() { return HWY_DYNAMIC_DISPATCH(multiply_add_flops_here)(); }
void scaled_add(float a, ptrdiff_t n, const float* x, float* y) { HWY_DYNAMIC_DISPATCH(scaled_add_here)(a, n, x, y); }

}  // namespace tapeformer::simd
#endif
