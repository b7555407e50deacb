// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/optimizer_step.h"

#include <algorithm>
#include <cmath>

#include "framework/core/parallel.h"
#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/optimizer_step.h"

namespace tapeformer::kernels {

namespace {

constexpr int64_t step_block = 16384;  // elements of a task

double sum_of_squares(const float* x, int64_t n) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; ++j) sums[j] += static_cast<double>(x[i + j]) * static_cast<double>(x[i + j]);
  for (; i < n; ++i) sums[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

template <>
void AdamStep<float>::cpu(const Execution& on, const AdamSettings& s, int64_t n, const float* gradient, float* parameter, float* exp_avg,
                          float* exp_avg_sq) {
  simd::AdamPass p;
  p.scale = static_cast<float>(s.gradient_scale);
  p.clip = static_cast<float>(s.clip_value);
  p.decay = static_cast<float>(s.decoupled ? 0 : s.decay);
  p.beta1 = static_cast<float>(s.beta1);
  p.one_minus_beta1 = static_cast<float>(1 - s.beta1);
  p.beta2 = static_cast<float>(s.beta2);
  p.one_minus_beta2 = static_cast<float>(1 - s.beta2);
  p.keep = static_cast<float>(s.decoupled ? 1 - s.rate * s.decay : 1);
  p.step = static_cast<float>(s.rate / s.correction1);
  p.root = static_cast<float>(1 / std::sqrt(s.correction2));
  p.epsilon = static_cast<float>(s.epsilon);
  parallel_blocks(*on.threads, n, step_block, [&](int64_t first, int64_t last) {
    simd::adam_pass(p, last - first, gradient + first, parameter + first, exp_avg + first, exp_avg_sq + first);
  });
}

template <>
void SgdStep<float>::cpu(const Execution& on, const SgdSettings& s, int64_t n, const float* gradient, float* parameter, float* momentum) {
  const simd::SgdPass p{static_cast<float>(s.gradient_scale), static_cast<float>(s.clip_value), static_cast<float>(s.decay),
                        static_cast<float>(s.momentum), static_cast<float>(s.rate)};
  float* buffer = s.momentum == 0 ? nullptr : momentum;
  parallel_blocks(*on.threads, n, step_block, [&](int64_t first, int64_t last) {
    simd::sgd_pass(p, last - first, gradient + first, parameter + first, buffer ? buffer + first : nullptr);
  });
}

template <>
void MoveAverage<float>::cpu(const Execution& on, double decay, int64_t n, const float* value, float* average) {
  parallel_blocks(*on.threads, n, step_block, [&](int64_t first, int64_t last) {
    simd::average_pass(static_cast<float>(decay), static_cast<float>(1 - decay), last - first, value + first, average + first);
  });
}

template <>
void SumOfSquares<float>::cpu(const Execution& on, int64_t n, const float* x, double* sum) {
  const int64_t blocks = (n + step_block - 1) / step_block;
  *sum = 0;
  if (blocks <= 1) {
    *sum = sum_of_squares(x, n);
    return;
  }
  const Storage storage = allocate(static_cast<size_t>(blocks) * sizeof(double));
  double* parts = reinterpret_cast<double*>(storage.get());
  parallel_blocks(*on.threads, n, step_block,
                  [&](int64_t first, int64_t last) { parts[first / step_block] = sum_of_squares(x + first, last - first); });
  for (int64_t b = 0; b < blocks; ++b) *sum += parts[b];
}

}  // namespace tapeformer::kernels
