// SPDX-License-Identifier: Apache-2.0
#include "models/attention/planned_heads.h"

#include "models/attention/causal_plan.h"

namespace tapeformer::models {

TilePlan PlannedHeads::plan(int32_t, int) const { fail(ExitCode::internal, "{} says neither a plan nor parts", settings().name); }

std::vector<TilePlan> PlannedHeads::parts(int32_t n, int head) const {
  std::vector<TilePlan> one;
  one.push_back(plan(n, head));
  return one;
}

std::vector<TilePlan> PlannedHeads::seen(int32_t n, int head) const {
  std::vector<TilePlan> out = parts(n, head);
  if (settings().layer.causal)
    for (TilePlan& plan : out) plan = causal_plan(plan, front());
  return out;
}

HeadOutput PlannedHeads::forward(Context& context, HeadInput& input) {
  plans_.make_room();
  const HeadSettings& s = settings();
  const auto width = static_cast<size_t>(patterns());
  std::vector<ops::AttentionPart> all;
  for (int b = 0; b < input.packing.sequences(); ++b)
    for (size_t h = 0; h < width; ++h) {
      const int32_t n = input.packing.length(b);
      const int head = s.first_head + static_cast<int>(h);
      const PlanCache::Plans& plans = plans_.get(n, head, [&] { return seen(n, head); });
      // A sequence with fewer parts than others has empty ones in their place.
      static const auto nothing = std::make_shared<const TilePlan>(full_plan(0, 0));
      while (all.size() < plans.size()) all.emplace_back(static_cast<size_t>(input.packing.sequences()) * width, nothing);
      for (size_t p = 0; p < plans.size(); ++p) all[p][static_cast<size_t>(b) * width + h] = plans[p];
    }
  if (all.empty()) all.emplace_back();  // no sequences
  if (all.size() == 1) return ops::attention(context, input.projected, input.packing, all[0], softmax());
  return ops::attention(context, input.projected, input.packing, std::span<const ops::AttentionPart>(all), softmax());
}

double PlannedHeads::pairs(int32_t n) const {
  double sum = 0;
  for (int h = 0; h < patterns(); ++h)
    for (const TilePlan& plan : seen(n, settings().first_head + h)) sum += static_cast<double>(plan.pairs);
  return sum / patterns();
}

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
