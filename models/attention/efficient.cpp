// SPDX-License-Identifier: Apache-2.0
// Efficient Attention (Shen, Zhang, Zhao, Yi, Li 2018, 1812.01243): a softmax over the channels of each query, and one over the positions
// for each channel of the keys (in causal heads over those up to the row). Their product is a matrix whose rows sum to one, and it is never
// made.
#include <cmath>

#include "framework/ops/feature_attention.h"
#include "models/attention/feature_heads.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct EfficientSettings {
  void read(config::Section&) {}  // no choices
};

class Efficient : public FeatureHeads {
 public:
  static constexpr bool can_be_causal = true;

  Efficient(const nn::Builder&, const HeadSettings& settings, const EfficientSettings&) : FeatureHeads(settings) {}

  HeadOutput forward(Context& context, HeadInput& input) override {
    const ops::FeatureAttentionSettings s{
        .heads = settings().heads, .map = FeatureMap::softmax, .denominator = Denominator::none, .lengths = {}, .causal = causal()};
    return ops::feature_attention(context, input.projected, {}, input.packing, s);
  }

  // Causal heads keep the largest key up to each row for each channel.
  AttentionCost cost(const std::vector<int32_t>& lengths) const override {
    const double d = settings().head_dim;
    AttentionCost sum = feature_cost(lengths, d, 0, true);
    for (const int32_t n : lengths) sum.saved_bytes += causal() ? settings().heads * 4 * n * (d - 1) : 0;
    return sum;
  }

  std::vector<double> dense_weights(const DenseInput& in) const override {
    const auto n = static_cast<size_t>(in.n), d = static_cast<size_t>(in.head_dim);
    const std::span<const double> q = in.q(), k = in.k();
    std::vector<double> weights(n * n);
    for (size_t i = 0; i < n; ++i)
      for (size_t c = 0; c < d; ++c) {
        const size_t seen = causal() ? i + 1 : n;
        double row = 0, column = 0;
        for (size_t e = 0; e < d; ++e) row += std::exp(q[i * d + e]);
        for (size_t j = 0; j < seen; ++j) column += std::exp(k[j * d + c]);
        for (size_t j = 0; j < seen; ++j) weights[i * n + j] += std::exp(q[i * d + c]) / row * std::exp(k[j * d + c]) / column;
      }
    return weights;
  }
};

}  // namespace

AttentionVariant efficient_variant() { return variant<Efficient, EfficientSettings>("efficient", false); }

}  // namespace tapeformer::models
