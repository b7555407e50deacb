// SPDX-License-Identifier: Apache-2.0
// cosFormer (Qin et al. 2022, 2202.08791): the weight of a pair is relu(q) relu(k)' cos(pi (i - j) / 2L), which the sum of two products of
// features gives: relu(x) times the sine and times the cosine of its place.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/ops/feature_attention.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

constexpr const char* own_word = "own";

struct Settings {
  int64_t max_length = 0;  // 0: each sequence's own
  double epsilon = 1e-6;
  std::string key;

  void read(config::Section& section) {
    section.number_or_word("max_length", max_length, own_word, 0, config::between(1, 1 << 24),
                           "L, where the weight of a distance reaches 0; own: the rows of each sequence");
    section.field("epsilon", epsilon, config::above(0), "the least denominator");
    key = section.path("max_length");
  }
};

class Cosformer : public Heads {
 public:
  Cosformer(const nn::Builder&, const HeadSettings& settings, const Settings& own) : Heads(settings), own_(own) {
    const int64_t rows = settings.layer.max_length + settings.layer.extra_rows;
    if (own.max_length != 0 && own.max_length < rows)
      fail(ExitCode::usage, "'{}' is {}, but sequences have up to {} rows ('data.max_length' {} and {} extra rows); raise it or write '{}'",
           own.key, own.max_length, rows, settings.layer.max_length, settings.layer.extra_rows, own_word);
  }

  HeadOutput forward(Context& context, HeadInput& input) override {
    ops::FeatureAttentionSettings s{
        .heads = settings().heads, .map = FeatureMap::cosine, .denominator = Denominator::clamp, .epsilon = own_.epsilon, .lengths = {}};
    for (int b = 0; b < input.packing.sequences(); ++b) {
      const int32_t n = input.packing.length(b);
      if (own_.max_length != 0 && own_.max_length < n)
        fail(ExitCode::data, "a sequence of {} rows, but '{}' is {}; cut it by 'data.max_length' or write '{}'", n, own_.key,
             own_.max_length, own_word);
      s.lengths.push_back(static_cast<double>(own_.max_length != 0 ? own_.max_length : std::max(1, n)));
    }
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
    const double reach = own_.max_length != 0 ? static_cast<double>(own_.max_length) : n;
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
  Settings own_;
};

}  // namespace

AttentionVariant cosformer_variant() { return variant<Cosformer, Settings>("cosformer", false); }

}  // namespace tapeformer::models
