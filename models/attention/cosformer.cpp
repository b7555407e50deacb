// SPDX-License-Identifier: Apache-2.0
// cosFormer (Qin et al. 2022, 2202.08791): the weight of a pair is relu(q) relu(k)' cos(pi (i - j) / 2L), which the sum of two products of
// features gives: relu(x) times the sine and times the cosine of its place.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/ops/feature_attention.h"
#include "models/attention/feature_heads.h"
#include "models/attention/max_length.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct CosformerSettings {
  MaxLength max_length;
  double epsilon = 1e-6;

  void read(config::Section& section) {
    max_length.read(section, "own", "L, where the weight of a distance reaches 0; own: the rows of each sequence");
    section.field("epsilon", epsilon, config::above(0), "the least denominator");
  }
  void check(config::Section& section, const Choice& choice) const {
    max_length.check(section, choice);
    if (choice.layer.causal && max_length.rows == 0)
      section.fault("max_length",
                    fmt::format("'{}' is own, but '{}' is true: a row would weigh distances otherwise once the sequence has grown",
                                max_length.key, choice.causal_key),
                    "give the most rows of a sequence");
  }
};

class Cosformer : public FeatureHeads {
 public:
  static constexpr bool can_be_causal = true;

  Cosformer(const nn::Builder&, const HeadSettings& settings, const CosformerSettings& own) : FeatureHeads(settings), own_(own) {
    if (own.max_length.rows != 0) length_ = own.max_length.of(settings.layer);
  }

  HeadOutput forward(Context& context, HeadInput& input) override {
    ops::FeatureAttentionSettings s{.heads = settings().heads,
                                    .map = FeatureMap::cosine,
                                    .denominator = Denominator::clamp,
                                    .epsilon = own_.epsilon,
                                    .lengths = {},
                                    .causal = causal()};
    if (length_ > 0) own_.max_length.check(input.packing, length_);
    for (int b = 0; b < input.packing.sequences(); ++b)
      s.lengths.push_back(static_cast<double>(length_ > 0 ? length_ : std::max(1, input.packing.length(b))));
    return ops::feature_attention(context, input.projected, {}, input.packing, s);
  }

  // Linear attention with 2D features.
  AttentionCost cost(const std::vector<int32_t>& lengths) const override {
    return feature_cost(lengths, 2.0 * settings().head_dim, 0, false);
  }

  std::vector<double> dense_weights(const DenseInput& in) const override {
    const int32_t n = in.n, d = in.head_dim;
    const std::span<const double> q = in.q(), k = in.k();
    const double reach = length_ > 0 ? static_cast<double>(length_) : n;
    std::vector<double> weights(static_cast<size_t>(n) * static_cast<size_t>(n));
    for (int32_t i = 0; i < n; ++i) {
      double* row = weights.data() + static_cast<int64_t>(i) * n;
      double sum = 0;
      for (int32_t j = 0; j < (causal() ? i + 1 : n); ++j) {
        for (int32_t c = 0; c < d; ++c)
          row[j] += std::max(0.0, q[static_cast<size_t>(i * d + c)]) * std::max(0.0, k[static_cast<size_t>(j * d + c)]);
        row[j] *= std::cos(std::numbers::pi * (i - j) / (2 * reach));
        sum += row[j];
      }
      for (int32_t j = 0; j < n; ++j) row[j] /= std::max(sum, own_.epsilon);
    }
    return weights;
  }

 private:
  CosformerSettings own_;
  int64_t length_ = 0;  // 0: each sequence's own
};

}  // namespace

AttentionVariant cosformer_variant() { return variant<Cosformer, CosformerSettings>("cosformer", false); }

}  // namespace tapeformer::models
