// SPDX-License-Identifier: Apache-2.0
// cosFormer (Qin et al. 2022, 2202.08791): the weight of a pair is relu(q) relu(k)' cos(pi (i - j) / 2L), which the sum of two products of
// features gives: relu(x) times the sine and times the cosine of its place.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/ops/feature_attention.h"
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
  void check(config::Section& section, const Choice& choice) const { max_length.check(section, choice); }
};

class Cosformer : public Heads {
 public:
  Cosformer(const nn::Builder&, const HeadSettings& settings, const CosformerSettings& own) : Heads(settings), own_(own) {
    if (own.max_length.rows != 0) length_ = own.max_length.of(settings.layer);
  }

  HeadOutput forward(Context& context, HeadInput& input) override {
    ops::FeatureAttentionSettings s{
        .heads = settings().heads, .map = FeatureMap::cosine, .denominator = Denominator::clamp, .epsilon = own_.epsilon, .lengths = {}};
    if (length_ > 0) own_.max_length.check(input.packing, length_);
    for (int b = 0; b < input.packing.sequences(); ++b)
      s.lengths.push_back(static_cast<double>(length_ > 0 ? length_ : std::max(1, input.packing.length(b))));
    return ops::feature_attention(context, input.projected, {}, input.packing, s);
  }

  // Linear attention with 2D features.
  AttentionCost cost(const std::vector<int32_t>& lengths) const override {
    AttentionCost sum;
    const auto d = static_cast<double>(settings().head_dim), heads = static_cast<double>(settings().heads);
    for (const int32_t n : lengths) {
      sum.forward_flops += heads * 8 * n * d * d;
      sum.backward_flops += heads * 16 * n * d * d;
      sum.saved_bytes += heads * 4 * (2 * d * (d + 1) + n);
    }
    return sum;
  }

  std::vector<double> dense_weights(const DenseInput& in) const override {
    const int32_t n = in.n, d = in.head_dim;
    const std::span<const double> q = in.q(), k = in.k();
    const double reach = length_ > 0 ? static_cast<double>(length_) : n;
    std::vector<double> weights(static_cast<size_t>(n) * static_cast<size_t>(n));
    for (int32_t i = 0; i < n; ++i) {
      double* row = weights.data() + static_cast<int64_t>(i) * n;
      double sum = 0;
      for (int32_t j = 0; j < n; ++j) {
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
