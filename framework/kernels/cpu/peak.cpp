// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/peak.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "framework/kernels/cpu/simd/peak.h"

namespace tapeformer::kernels {
namespace {

constexpr int repeats = 5;

template <class F>
double seconds(const F& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

double flops_per_s(ThreadPool& threads) {
  constexpr ptrdiff_t rounds = 4'000'000;  // some 10 ms
  const double flops = static_cast<double>(rounds * simd::multiply_add_flops()) * threads.threads();
  std::vector<float> ends(static_cast<size_t>(threads.threads()));  // kept, so that the loops are not taken out
  double best = 0;
  for (int i = 0; i < repeats; ++i)
    best = std::max(best, flops / seconds([&] {
                            threads.run(threads.threads(),
                                        [&](int64_t task) { ends[static_cast<size_t>(task)] = simd::multiply_add_loop(rounds); });
                          }));
  return std::count(ends.begin(), ends.end(), 20.0f) == threads.threads() ? best : 0;
}

double bytes_per_s(ThreadPool& threads) {
  constexpr int64_t count = 32 << 20;
  // Plain memory, not the allocator's, which would keep it.
  const auto x = std::make_unique<float[]>(count), y = std::make_unique<float[]>(count);
  const int64_t share = count / threads.threads();
  double best = 0;
  for (int i = 0; i < repeats; ++i)
    best = std::max(best, 3.0 * sizeof(float) * static_cast<double>(share * threads.threads()) / seconds([&] {
                            threads.run(threads.threads(),
                                        [&](int64_t task) { simd::scaled_add(2, share, x.get() + task * share, y.get() + task * share); });
                          }));
  return best;
}

}  // namespace

Peak measure_peak(ThreadPool& threads) { return {flops_per_s(threads), bytes_per_s(threads)}; }

}  // namespace tapeformer::kernels
