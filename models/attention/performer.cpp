// SPDX-License-Identifier: Apache-2.0
// Performer (Choromanski et al. 2020, 2009.14794): random features whose products estimate exp(q k' / sqrt(D)), so that attention is linear
// in the length. The features are drawn anew every so many updates and kept in the checkpoint; evaluation uses those that are there.
#include <algorithm>
#include <cmath>

#include "framework/ops/feature_attention.h"
#include "models/attention/dense.h"
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

class Performer : public Heads {
 public:
  Performer(const nn::Builder& build, const HeadSettings& settings, const PerformerSettings& own)
      : Heads(settings),
        own_(own),
        rows_(matrix_rows(own.kernel, own.features)),
        redraws_(build, settings),
        features_{settings.name + ".features", Tensor(build.dtype, {int64_t{settings.heads} * rows_, settings.head_dim})} {
    draw();
  }

  HeadOutput forward(Context& context, HeadInput& input) override {
    const ops::FeatureAttentionSettings s{
        .heads = settings().heads, .map = own_.kernel, .features = own_.features, .offset = own_.offset(), .lengths = {}};
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

  // Features of q and k 2 N M D each, state and output 2 N M D each; the backward makes the features again.
  AttentionCost cost(const std::vector<int32_t>& lengths) const override {
    AttentionCost sum;
    const auto d = static_cast<double>(settings().head_dim), m = static_cast<double>(own_.features), w = static_cast<double>(rows_);
    for (const int32_t n : lengths) {
      sum.forward_flops += settings().heads * 4.0 * n * d * (m + w);
      sum.backward_flops += settings().heads * 8.0 * n * d * (m + w);
      sum.saved_bytes += settings().heads * 4.0 * (m * (d + 2) + 2.0 * n);
    }
    return sum;
  }

  std::vector<double> dense_weights(const DenseInput& in) const override {
    return dense::feature_weights(dense_features(in, in.q(), false), dense_features(in, in.k(), true), [](double sum) { return sum; });
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

  // The formula: u_r = <w_r, y> - |y|^2 / 2 with y = x / D^(1/4), features (exp(u_r - c) + epsilon) / sqrt(M); c is the largest u_r of a
  // query, and the largest of all of the keys.
  std::vector<std::vector<double>> dense_features(const DenseInput& in, std::span<const double> x, bool keys) const {
    const auto n = static_cast<size_t>(in.n), d = static_cast<size_t>(in.head_dim), rows = static_cast<size_t>(rows_);
    const Tensor omega = features_.value.converted(Dtype::f64);
    const double* w = omega.data<double>() + static_cast<size_t>(in.head - settings().first_head) * rows * d;
    const double root = std::sqrt(static_cast<double>(own_.features));
    std::vector<std::vector<double>> u(n);
    double largest = -1e300;
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
        largest = std::max(largest, product);
      }
    }
    for (size_t i = 0; i < n; ++i) {
      const double own = *std::max_element(u[i].begin(), u[i].end());
      const double shift = keys ? largest : own;
      for (double& v : u[i])
        v = own_.exponential() ? (std::exp(v - shift) + own_.offset()) / root : std::max(0.0, v / root) + own_.offset();
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
