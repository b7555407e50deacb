// SPDX-License-Identifier: Apache-2.0
// Full softmax attention (Vaswani et al. 2017, 1706.03762): every row sees every row of its sequence.
#include "models/attention/planned_heads.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct FullSettings {
  void read(config::Section&) {}
};

class Full : public PlannedHeads {
 public:
  static constexpr bool can_be_causal = true;

  Full(const nn::Builder&, const HeadSettings& settings, const FullSettings&) : PlannedHeads(settings) {}
  bool in_pattern(int32_t, int, int32_t, int32_t) const override { return true; }

 protected:
  TilePlan plan(int32_t n, int) const override { return full_plan(n, n); }
};

}  // namespace

AttentionVariant full_variant() { return variant<Full, FullSettings>("full", true); }

}  // namespace tapeformer::models
