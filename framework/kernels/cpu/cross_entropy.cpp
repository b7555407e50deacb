// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "framework/kernels/cpu/blocks.h"

namespace tapeformer::kernels {
namespace {

// The loss of one row without its weight; d becomes weight times its gradient.
double row_loss(const float* x, int64_t K, int32_t target, double smoothing, double weight, float* d) {
  const double largest = static_cast<double>(*std::max_element(x, x + K));
  double sum = 0, total = 0;
  for (int64_t k = 0; k < K; ++k) {
    const double z = static_cast<double>(x[k]) - largest;
    d[k] = static_cast<float>(std::exp(z));
    sum += static_cast<double>(d[k]);
    total += z;
  }
  const double log_sum = std::log(sum), each = smoothing / static_cast<double>(K);
  for (int64_t k = 0; k < K; ++k) d[k] = static_cast<float>(weight * (static_cast<double>(d[k]) / sum - each));
  d[target] -= static_cast<float>(weight * (1 - smoothing));
  return (1 - smoothing) * (log_sum + largest - static_cast<double>(x[target])) + smoothing * (log_sum - total / static_cast<double>(K));
}

}  // namespace

template <>
void CrossEntropy<float>::cpu(const Execution& on, View<const float> logits, const int32_t* targets, const float* class_weights,
                              const float* row_weights, double smoothing, float* loss, float* weight, View<float> dlogits) {
  parallel_blocks(*on.threads, logits.rows, cpu::pass_rows(8 * logits.columns), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const int32_t t = targets[r];
      if (t == ignored_target) {
        loss[r] = weight[r] = 0;
        std::fill_n(dlogits.row(r), logits.columns, 0.f);
        continue;
      }
      const double w =
          (class_weights ? static_cast<double>(class_weights[t]) : 1) * (row_weights ? static_cast<double>(row_weights[r]) : 1);
      weight[r] = static_cast<float>(w);
      loss[r] = static_cast<float>(w * row_loss(logits.row(r), logits.columns, t, smoothing, w, dlogits.row(r)));
    }
  });
}

}  // namespace tapeformer::kernels
