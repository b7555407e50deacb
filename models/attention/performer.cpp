// SPDX-License-Identifier: Apache-2.0
// Performer (Choromanski et al. 2020, 2009.14794): random features whose products estimate exp(q k' / sqrt(D)), so that attention is linear
// in the length. The features are drawn anew every so many updates and kept in the checkpoint; evaluation uses those that are there.
#include <algorithm>
#include <cmath>

#include "framework/ops/feature_attention.h"
#include "models/attention/feature_heads.h"
#include "models/attention/random_features.h"
#include "models/attention/redraws.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct PerformerSettings {
  int features = 256;
  FeatureMap kernel = FeatureMap::positive;
  double epsilon = 0;  // 0: by the kernel
  bool orthogonal = true, shared = false;
  int64_t redraw_every = 1000;

  void read(config::Section& section) {
    section.field("features", features, config::between(1, 1 << 20), "random features of each head");
    section.choice("kernel", kernel,
                   {{"softmax", FeatureMap::positive}, {"hyperbolic", FeatureMap::hyperbolic}, {"relu", FeatureMap::relu}},
                   "softmax: exp of each; hyperbolic: exp of each and of its negative, in pairs; relu: the positive part");
    section.number_or_word("epsilon", epsilon, "auto", 0.0, config::above(0), "added to each feature; auto: 1e-6, for relu 1e-3");
    section.field("orthogonal", orthogonal, "features are orthogonal in blocks of a head's width");
    section.field("shared", shared, "one matrix for all heads of a layer");
    section.field("redraw_every", redraw_every, config::at_least(0), "updates between two draws of the features; 0: never again");
  }
  void check(config::Section& section, const Choice&) const {
    if (kernel == FeatureMap::hyperbolic && features % 2 != 0)
      section.fault("features", fmt::format("'{}' is {}, but '{}: hyperbolic' makes features in pairs; give an even number",
                                            section.path("features"), features, section.path("kernel")));
  }
  double offset() const { return epsilon > 0 ? epsilon : kernel == FeatureMap::relu ? 1e-3 : 1e-6; }
  bool exponential() const { return kernel != FeatureMap::relu; }
};

class Performer : public FeatureHeads {
 public:
  static constexpr bool can_be_causal = true;

  Performer(const nn::Builder& build, const HeadSettings& settings, const PerformerSettings& own)
      : FeatureHeads(settings),
        own_(own),
        rows_(matrix_rows(own.kernel, own.features)),
        redraws_(build, settings),
        features_{settings.name + ".features", Tensor(build.dtype, {int64_t{settings.heads} * rows_, settings.head_dim})} {
    draw();
  }

  HeadOutput forward(Context& context, HeadInput& input) override {
    const ops::FeatureAttentionSettings s{.heads = settings().heads,
                                          .map = own_.kernel,
                                          .features = own_.features,
                                          .offset = own_.offset(),
                                          .lengths = {},
                                          .causal = causal()};
    const Variable matrix{features_.value};
    if (!context.structures || !own_.exponential()) return ops::feature_attention(context, input.projected, matrix, input.packing, s);
    ops::FeatureShifts found;
    const auto shifts = [&] {
      if (!found.query.defined()) found = ops::feature_shifts(context, input.projected.value, matrix.value, input.packing, s);
      return found;
    };
    const ops::FeatureShifts kept{context.structure(settings().name + ".query_shift", [&] { return shifts().query; }),
                                  context.structure(settings().name + ".key_shift", [&] { return shifts().key; })};
    return ops::feature_attention(context, input.projected, matrix, input.packing, s, &kept);
  }
  void visit(nn::Visitor& visitor) override {
    redraws_.visit(visitor);
    visitor.buffer(features_);
  }
  void after_update(Context& context) override {
    if (own_.redraw_every > 0 && redraws_.advance(context, own_.redraw_every)) draw();
  }

  AttentionCost cost(const std::vector<int32_t>& lengths) const override {
    return feature_cost(lengths, own_.features, rows_, own_.exponential());
  }

  // With exponents u_r = <w_r, y> - |y|^2 / 2, y = x / D^(1/4), features are (exp(u_r - c) + epsilon) / sqrt(M); c is the largest u_r of a
  // query, and the largest of all of the keys that it sees.
  std::vector<double> dense_weights(const DenseInput& in) const override {
    const auto q = dense_exponents(in, in.q()), k = dense_exponents(in, in.k());
    const auto feature = [&](double u, double shift) {
      const double m = own_.features;
      return own_.exponential() ? (std::exp(u - shift) + own_.offset()) / std::sqrt(m) : std::max(0.0, u / std::sqrt(m)) + own_.offset();
    };
    const auto largest = [](const std::vector<double>& u) { return *std::max_element(u.begin(), u.end()); };
    const size_t n = q.size();
    std::vector<double> weights(n * n);
    for (size_t i = 0; i < n; ++i) {
      const size_t seen = causal() ? i + 1 : n;
      double of_keys = -1e300, sum = 0;
      for (size_t j = 0; j < seen; ++j) of_keys = std::max(of_keys, largest(k[j]));
      std::vector<double> f;
      for (const double u : q[i]) f.push_back(feature(u, largest(q[i])));
      for (size_t j = 0; j < seen; ++j) {
        double& weight = weights[i * n + j];
        for (size_t r = 0; r < q[i].size(); ++r) weight += f[r] * feature(k[j][r], of_keys);
        sum += weight;
      }
      for (size_t j = 0; j < seen; ++j) weights[i * n + j] /= sum;
    }
    return weights;
  }

 private:
  void draw() {
    for (int h = 0; h < settings().heads; ++h) {
      const Tensor omega = features_.value.rows(int64_t{h} * rows_, rows_);
      // A key without a head has no rounds: the lengths then come from far rows.
      if (own_.shared && h > 0) omega.copy_from(features_.value.rows(0, rows_));
      else if (own_.shared)
        fill_random_features({redraws_.shared_draw("features"), redraws_.shared_draw("features"), 1u << 31}, own_.orthogonal, omega);
      else fill_random_features({redraws_.draw("features", h, 0), redraws_.draw("features", h, 1)}, own_.orthogonal, omega);
    }
  }

  std::vector<std::vector<double>> dense_exponents(const DenseInput& in, std::span<const double> x) const {
    const auto n = static_cast<size_t>(in.n), d = static_cast<size_t>(in.head_dim), rows = static_cast<size_t>(rows_);
    const Tensor omega = features_.value.converted(Dtype::f64);
    const double* w = omega.data<double>() + static_cast<size_t>(in.head - settings().first_head) * rows * d;
    std::vector<std::vector<double>> u(n);
    for (size_t i = 0; i < n; ++i) {
      double square = 0;
      for (size_t c = 0; c < d; ++c) square += x[i * d + c] * x[i * d + c];
      for (size_t r = 0; r < static_cast<size_t>(own_.features); ++r) {
        double product = 0;
        for (size_t c = 0; c < d; ++c) product += w[(r % rows) * d + c] * x[i * d + c];
        if (own_.exponential())
          product =
              (r < rows ? product : -product) / std::pow(static_cast<double>(d), 0.25) - square / std::sqrt(static_cast<double>(d)) / 2;
        u[i].push_back(product);
      }
    }
    return u;
  }

  PerformerSettings own_;
  int rows_;  // of a head's matrix
  Redraws redraws_;
  nn::Buffer features_;  // [heads * rows, D]
};

}  // namespace

AttentionVariant performer_variant() { return variant<Performer, PerformerSettings>("performer", false); }

}  // namespace tapeformer::models
