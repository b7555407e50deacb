// SPDX-License-Identifier: Apache-2.0
// Efficient Attention (Shen, Zhang, Zhao, Yi, Li 2018, 1812.01243): a softmax over the channels of each query, and one over the positions
// for each channel of the keys. Their product is a matrix whose rows sum to one, and it is never made.
#include <cmath>

#include "framework/ops/feature_attention.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct EfficientSettings {
  void read(config::Section&) {}  // no choices
};

class Efficient : public Heads {
 public:
  Efficient(const nn::Builder&, const HeadSettings& settings, const EfficientSettings&) : Heads(settings) {}

  HeadOutput forward(Context& context, HeadInput& input) override {
    const ops::FeatureAttentionSettings s{
        .heads = settings().heads, .map = FeatureMap::softmax, .denominator = Denominator::none, .lengths = {}};
    return ops::feature_attention(context, input.projected, {}, input.packing, s);
  }

  // Two products of N D^2 forward, four backward; a state for each sequence and head and the log-sums are kept.
  AttentionCost cost(const std::vector<int32_t>& lengths) const override {
    AttentionCost sum;
    const auto d = static_cast<double>(settings().head_dim), heads = static_cast<double>(settings().heads);
    for (const int32_t n : lengths) {
      sum.forward_flops += heads * 4 * n * d * d;
      sum.backward_flops += heads * 8 * n * d * d;
      sum.saved_bytes += heads * 4 * (d * (d + 2) + n);
    }
    return sum;
  }

  std::vector<double> dense_weights(const DenseInput& in) const override {
    const auto n = static_cast<size_t>(in.n), d = static_cast<size_t>(in.head_dim);
    const std::span<const double> q = in.q(), k = in.k();
    std::vector<double> weights(n * n);
    for (size_t c = 0; c < d; ++c) {
      double column = 0;
      for (size_t j = 0; j < n; ++j) column += std::exp(k[j * d + c]);
      for (size_t i = 0; i < n; ++i) {
        double row = 0;
        for (size_t e = 0; e < d; ++e) row += std::exp(q[i * d + e]);
        for (size_t j = 0; j < n; ++j) weights[i * n + j] += std::exp(q[i * d + c]) / row * std::exp(k[j * d + c]) / column;
      }
    }
    return weights;
  }
};

}  // namespace

AttentionVariant efficient_variant() { return variant<Efficient, EfficientSettings>("efficient", false); }

}  // namespace tapeformer::models
