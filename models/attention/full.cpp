// SPDX-License-Identifier: Apache-2.0
// Full softmax attention (Vaswani et al. 2017, 1706.03762): every row sees every row of its sequence.
#include "models/attention/head_attention.h"

namespace tapeformer::models {
namespace {

class Full : public PlannedAttention {
 public:
  using PlannedAttention::PlannedAttention;
  bool allowed(int32_t, int, int32_t, int32_t) const override { return true; }

 protected:
  TilePlan plan(int32_t length) const override { return full_plan(length, length); }
};

}  // namespace

AttentionVariant full_variant() {
  return {.name = "full",
          .has_probabilities = true,
          .read = [](config::Section&) { return std::shared_ptr<const void>(); },
          .make = [](const nn::Builder& build, const std::string& name, const AttentionSettings& settings, const void*) {
            return std::unique_ptr<Attention>(std::make_unique<Full>(build, name, settings));
          }};
}

}  // namespace tapeformer::models
