// SPDX-License-Identifier: Apache-2.0
// How near the register blocks of framework/kernels/cpu/simd/tile.h come to the multiply-add units, built and run by register_blocks.sh.
// Prints the instruction set, GFLOP/s of multiply-adds without memory, of a block whose operands lie in the first cache, and their
// quotient.
#include <chrono>
#include <cstdio>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tools/checks/register_blocks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "framework/kernels/cpu/simd/tile.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {

constexpr int kDepth = 64;

// As many independent chains as a block has, nothing but registers.
double peak_flops_here(int rounds, float* out) {
  Block<kRows> acc = load<kRows>(out, kCols);  // not constants, or equal chains would be computed once
  V a = hn::Set(D(), 1.0f), b = hn::Set(D(), 1e-9f);
  for (int i = 0; i < rounds; ++i) {
    hold(a);
    hold(b);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      acc.v[r][0] = hn::MulAdd(a, b, acc.v[r][0]);
      acc.v[r][1] = hn::MulAdd(a, b, acc.v[r][1]);
    }
  }
  store<kRows>(acc, out, kCols);
  return 2.0 * kRows * kCols * rounds;
}

double block_flops_here(int rounds, const float* x, const float* y, float* out) {
  for (int i = 0; i < rounds; ++i) {
    Block<kWideRows, kWide> acc = load<kWideRows, kWide>(out, kWideCols);
    multiply<Left::rows, kWideRows, kWide>(x, kDepth, y, kCols, kDepth, acc, kDepth * kCols);
    store<kWideRows, kWide>(acc, out, kWideCols);
  }
  return 2.0 * kWideRows * kWideCols * kDepth * rounds;
}

const char* name_here() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tapeformer::simd {
HWY_EXPORT(peak_flops_here);
HWY_EXPORT(block_flops_here);
HWY_EXPORT(name_here);
}  // namespace tapeformer::simd

namespace {

template <class Work>
double gflops(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  const double flops = work();
  return flops / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 1e9;
}

// False when the blocks of an instruction set are too slow.
bool fast_enough(int64_t target) {
  using namespace tapeformer::simd;
  hwy::SetSupportedTargetsForTest(target);
  alignas(64) static float x[16 * 64], y[64 * 64], out[16 * 64];
  for (float& v : x) v = 1e-3f;
  for (float& v : y) v = 1e-3f;
  // The best of many short turns, so that other work on the machine does not count.
  double peak = 0, block = 0;
  for (int turn = 0; turn < 40; ++turn) {
    const double p = gflops([&] { return HWY_DYNAMIC_DISPATCH(peak_flops_here)(100000, out); });
    const double b = gflops([&] { return HWY_DYNAMIC_DISPATCH(block_flops_here)(2000, x, y, out); });
    peak = p > peak ? p : peak;
    block = b > block ? b : block;
  }
  std::printf("%s: multiply-adds %.1f GFLOP/s, register blocks %.1f GFLOP/s, %.0f %%\n", HWY_DYNAMIC_DISPATCH(name_here)(), peak, block,
              100 * block / peak);
  return block >= 0.75 * peak;
}

}  // namespace

int main() {
  bool fast = true;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets())
    if (target == HWY_AVX3 || target == HWY_AVX2 || target == HWY_NEON) fast = fast_enough(target) && fast;
  return fast ? 0 : 1;
}
#endif
