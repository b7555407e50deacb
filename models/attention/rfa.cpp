// SPDX-License-Identifier: Apache-2.0
// Random Feature Attention (Peng et al. 2021, 2103.02143): sines and cosines of random projections of unit vectors estimate a Gaussian
// kernel, whose widths are learned for each channel of each head. The projections are drawn anew after every update.
#include <cmath>
#include <numeric>

#include "framework/ops/extra_rows.h"
#include "framework/ops/feature_attention.h"
#include "framework/ops/multiply.h"
#include "framework/ops/sparse_rows.h"
#include "models/attention/feature_heads.h"
#include "models/attention/index_lists.h"
#include "models/attention/random_features.h"
#include "models/attention/redraws.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct RfaSettings {
  int features = 64;
  double temperature = 1, epsilon = 1e-3;
  bool learn_sigma = true, orthogonal = false;

  void read(config::Section& section) {
    section.field("features", features, config::between(1, 1 << 20), "random projections of each head; each gives a sine and a cosine");
    section.field("temperature", temperature, config::between(1e-3, 1e3), "the width of the kernel: exp(-|q - k|^2 / 2 temperature^2)");
    section.field("epsilon", epsilon, config::above(0), "the least size of the denominator");
    section.field("learn_sigma", learn_sigma, "learn a factor for each channel of the projections");
    section.field("orthogonal", orthogonal, "projections are orthogonal in blocks of a head's width");
  }
};

class Rfa : public FeatureHeads {
 public:
  static constexpr bool can_be_causal = true;

  Rfa(const nn::Builder& build, const HeadSettings& settings, const RfaSettings& own)
      : FeatureHeads(settings),
        own_(own),
        redraws_(build, settings),
        sigma_(build.constant(settings.name + ".sigma", {settings.heads, settings.head_dim}, 1)),
        gaussian_(build.dtype, {int64_t{settings.heads} * own.features, settings.head_dim}) {
    // Row h of sigma, once for each of the head's projections.
    std::vector<int32_t> heads;
    for (int32_t r = 0; r < settings.heads * own.features; ++r) heads.push_back(r / own.features);
    repeat_ = std::make_shared<const RowMap>(gather_map(settings.heads, std::move(heads)));
  }

  HeadOutput forward(Context& context, HeadInput& input) override {
    draw();
    const ops::FeatureAttentionSettings s{.heads = settings().heads,
                                          .map = FeatureMap::trigonometric,
                                          .features = 2 * own_.features,
                                          .denominator = Denominator::clamp,
                                          .epsilon = own_.epsilon,
                                          .lengths = {},
                                          .causal = causal()};
    Variable w = ops::scale(context, {gaussian_}, 1 / own_.temperature);
    if (own_.learn_sigma) w = ops::multiply(context, ops::sparse_rows(context, ops::parameter(context, sigma_), repeat_), w);
    return ops::feature_attention(context, input.projected, w, input.packing, s);
  }
  void visit(nn::Visitor& visitor) override {
    if (own_.learn_sigma) visitor.parameter(sigma_);
    redraws_.visit(visitor);
  }
  void after_update(Context& context) override { redraws_.advance(context); }

  // Two features from each projection.
  AttentionCost cost(const std::vector<int32_t>& lengths) const override {
    return feature_cost(lengths, 2.0 * own_.features, own_.features, false);
  }

  // phi(x) = [sin W y, cos W y] / sqrt(m), y = x / (|x| + 0.001), W = sigma G / temperature; the sum of the weights is kept away from 0.
  std::vector<double> dense_weights(const DenseInput& in) const override {
    const auto f = dense_features(in, in.q()), g = dense_features(in, in.k());
    std::vector<double> weights(f.size() * f.size());
    for (size_t i = 0; i < f.size(); ++i) {
      const size_t seen = causal() ? i + 1 : f.size();
      double* row = weights.data() + i * f.size();
      double sum = 0;
      for (size_t j = 0; j < seen; ++j) sum += row[j] = std::inner_product(f[i].begin(), f[i].end(), g[j].begin(), 0.0);
      for (size_t j = 0; j < seen; ++j) row[j] /= std::max(std::abs(sum), own_.epsilon);
    }
    return weights;
  }

 private:
  // The matrix is no buffer: it is made again where the count has moved, by an update or a checkpoint.
  void draw() {
    if (drawn_ == redraws_.count()) return;
    for (int h = 0; h < settings().heads; ++h)
      fill_random_features({redraws_.draw("features", h, 0), redraws_.draw("features", h, 1)}, own_.orthogonal,
                           gaussian_.rows(int64_t{h} * own_.features, own_.features));
    drawn_ = redraws_.count();
  }

  std::vector<std::vector<double>> dense_features(const DenseInput& in, std::span<const double> x) const {
    const auto n = static_cast<size_t>(in.n), d = static_cast<size_t>(in.head_dim), m = static_cast<size_t>(own_.features);
    const auto head = static_cast<size_t>(in.head - settings().first_head);
    const Tensor gaussian = gaussian_.converted(Dtype::f64), sigma = sigma_.value.converted(Dtype::f64);
    std::vector<std::vector<double>> out(n, std::vector<double>(2 * m));
    for (size_t i = 0; i < n; ++i) {
      double square = 0;
      for (size_t c = 0; c < d; ++c) square += x[i * d + c] * x[i * d + c];
      for (size_t r = 0; r < m; ++r) {
        double u = 0;
        for (size_t c = 0; c < d; ++c)
          u += sigma.data<double>()[head * d + c] * gaussian.data<double>()[(head * m + r) * d + c] / own_.temperature * x[i * d + c] /
               (std::sqrt(square) + 1e-3);
        out[i][r] = std::sin(u) / std::sqrt(static_cast<double>(m));
        out[i][m + r] = std::cos(u) / std::sqrt(static_cast<double>(m));
      }
    }
    return out;
  }

  RfaSettings own_;
  Redraws redraws_;
  Parameter sigma_;  // [heads, D]
  Tensor gaussian_;  // [heads * m, D]
  int64_t drawn_ = -1;
  ops::RowMapPointer repeat_;
};

}  // namespace

AttentionVariant rfa_variant() { return variant<Rfa, RfaSettings>("rfa", false); }

}  // namespace tapeformer::models
