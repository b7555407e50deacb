// SPDX-License-Identifier: Apache-2.0
#include "models/attention/planned_heads.h"

#include "framework/ops/attention.h"

namespace tapeformer::models {

HeadOutput PlannedHeads::forward(Context& context, HeadInput& input) {
  plans_.make_room();
  ops::AttentionPart plans;
  for (int b = 0; b < input.packing.sequences(); ++b) {
    const int32_t n = input.packing.length(b);
    plans.push_back(plans_.get(n, 0, [&] { return plan(n); }));
  }
  const HeadSettings& s = settings();
  return ops::attention(context, input.projected, input.packing, plans,
                        {.heads = s.heads, .scale = scale(), .dropout = s.layer.dropout, .name = s.layer_name});
}

double PlannedHeads::pairs(int32_t n) const { return static_cast<double>(plan(n).pairs); }

// 4 D a pair forward, 10 D backward in one pass (scores again, dP, dV, dQ, dK); the log-sum-exp is kept.
AttentionCost PlannedHeads::cost(const std::vector<int32_t>& lengths) const {
  AttentionCost sum;
  for (const int32_t n : lengths) {
    const double work = pairs(n) * settings().heads * settings().head_dim;
    sum += {4 * work, 10 * work, 4.0 * n * settings().heads};
  }
  return sum;
}

}  // namespace tapeformer::models
