// SPDX-License-Identifier: Apache-2.0
// Linear attention with the feature map elu(x) + 1 (Katharopoulos, Vyas, Pappas, Fleuret 2020, 2006.16236): cost linear in the length.
#include <cmath>

#include "framework/ops/attention.h"
#include "framework/ops/feature_attention.h"
#include "models/attention/feature_heads.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct LinearSettings {
  double epsilon = 1e-6;

  void read(config::Section& section) { section.field("epsilon", epsilon, config::above(0), "added to the denominator"); }
};

class Linear : public FeatureHeads {
 public:
  static constexpr bool can_be_causal = true;

  Linear(const nn::Builder&, const HeadSettings& settings, const LinearSettings& own) : FeatureHeads(settings), own_(own) {}

  std::vector<double> dense_weights(const DenseInput& in) const override {
    const int32_t n = in.n;
    const int head_dim = in.head_dim;
    const std::span<const double> q = in.q(), k = in.k();
    const auto feature = [](double x) { return x > 0 ? x + 1 : std::exp(x); };
    std::vector<double> weights(static_cast<size_t>(n) * static_cast<size_t>(n));
    for (int32_t i = 0; i < n; ++i) {
      double* row = weights.data() + static_cast<int64_t>(i) * n;
      double sum = own_.epsilon;
      for (int32_t j = 0; j < (causal() ? i + 1 : n); ++j) {
        for (int d = 0; d < head_dim; ++d)
          row[j] += feature(q[static_cast<size_t>(i * head_dim + d)]) * feature(k[static_cast<size_t>(j * head_dim + d)]);
        sum += row[j];
      }
      for (int32_t j = 0; j < n; ++j) row[j] /= sum;
    }
    return weights;
  }

  AttentionCost cost(const std::vector<int32_t>& lengths) const override { return feature_cost(lengths, settings().head_dim, 0, false); }

  HeadOutput forward(Context& context, HeadInput& input) override {
    if (!causal()) return ops::linear_attention(context, input.projected, input.packing, settings().heads, own_.epsilon);
    const ops::FeatureAttentionSettings s{
        .heads = settings().heads, .map = FeatureMap::elu, .epsilon = own_.epsilon, .lengths = {}, .causal = true};
    return ops::feature_attention(context, input.projected, {}, input.packing, s);
  }

 private:
  LinearSettings own_;
};

}  // namespace

AttentionVariant linear_variant() { return variant<Linear, LinearSettings>("linear", false); }

}  // namespace tapeformer::models
