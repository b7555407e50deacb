// SPDX-License-Identifier: Apache-2.0
#include "models/attention/feature_heads.h"

#include <cmath>

#include "framework/kernels/feature_attention.h"

namespace tapeformer::models {

AttentionCost FeatureHeads::feature_cost(const std::vector<int32_t>& lengths, double m, double matrix_rows, bool shifts) const {
  AttentionCost sum;
  const auto d = static_cast<double>(settings().head_dim), heads = static_cast<double>(settings().heads);
  for (const int32_t n : lengths) {
    sum.forward_flops += heads * n * d * (causal() ? 6 : 4) * (m + matrix_rows);
    sum.backward_flops += heads * n * d * (causal() ? 14 * m + 12 * matrix_rows : 8 * (m + matrix_rows));
    const double states = causal() ? std::ceil(n / static_cast<double>(feature_chunk_rows)) * (m + 1) : m;
    sum.saved_bytes += heads * 4 * (states * (d + 1) + n);
    if (shifts) sum.saved_bytes += heads * 4 * (causal() ? 2.0 * n : m + n);
  }
  return sum;
}

}  // namespace tapeformer::models
