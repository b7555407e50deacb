// SPDX-License-Identifier: Apache-2.0
// Performer: every kernel keeps what attentions keep, features are drawn and redrawn by the rules, and the error to softmax attention falls
// with the root of the number of features.
#include <cmath>

#include "framework/core/random.h"
#include "framework/ops/feature_attention.h"
#include "models/attention/random_features.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;
using Catch::Matchers::ContainsSubstring;

namespace {

AttentionCase performer(const std::string& name, std::vector<std::string> own) {
  own.push_back("model.attention.type=performer");
  return attention_case(name, own);
}

struct State {
  std::vector<double> features;
  int64_t redraws = 0;
  nn::ModelState all;
};
State state_of(models::Attention& a) {
  State out;
  a.visit(out.all);
  for (nn::Buffer* b : out.all.buffers) {
    if (b->name == "attention.features") out.features = Matrix(b->value).values;
    if (b->name == "attention.redraws") out.redraws = b->value.data<int64_t>()[0];
  }
  return out;
}

void update(models::Attention& a, uint32_t step) {
  Context context;
  context.mode = Mode::train;
  context.step = step;
  a.after_update(context);
}

Tensor drawn(uint32_t number, int64_t rows, int64_t dims, bool orthogonal = true) {
  Tensor omega(Dtype::f64, {rows, dims});
  models::fill_random_features({{11, no_sample, number}, {12, no_sample, number}}, orthogonal, omega);
  return omega;
}

// The mean over draws of |o - softmax attention| / |softmax attention| for 64 rows of 16 channels.
double error(FeatureMap map, int features, double deviation, int draws) {
  const Packing packing({64}, {0});
  const TestDevice& device = test_devices().back();
  const Tensor q = random_tensor(Dtype::f64, {64, 16}, 1, deviation), k = random_tensor(Dtype::f64, {64, 16}, 2, deviation),
               v = random_tensor(Dtype::f64, {64, 16}, 3);
  const Matrix want = attend(Matrix(q), Matrix(k), Matrix(v), 1);
  double total = 0;
  for (int n = 0; n < draws; ++n) {
    Context context;
    context.on = device.on;
    context.dtype = device.dtype;
    const Tensor omega = drawn(static_cast<uint32_t>(n), matrix_rows(map, features), 16).converted(device.dtype);
    const Matrix o(ops::feature_attention(context, {q.converted(device.dtype)}, {k.converted(device.dtype)}, {v.converted(device.dtype)},
                                          {omega}, packing, {.heads = 1, .map = map, .features = features, .offset = 1e-6})
                       .value);
    double apart = 0, size = 0;
    for (size_t i = 0; i < o.values.size(); ++i) {
      apart += std::pow(o.values[i] - want.values[i], 2);
      size += std::pow(want.values[i], 2);
    }
    total += std::sqrt(apart / size) / draws;
  }
  return total;
}

}  // namespace

TEST_CASE("every kernel of performer keeps what every attention keeps", "[performer]") {
  check_attention(performer("softmax", {"model.attention.performer.features=10"}));
  check_attention(performer("hyperbolic", {"model.attention.performer.features=12", "model.attention.performer.kernel=hyperbolic"}));
  check_attention(performer("relu", {"model.attention.performer.features=9", "model.attention.performer.kernel=relu"}));
  check_attention(performer("shared", {"model.attention.performer.features=3", "model.attention.performer.shared=true",
                                       "model.attention.performer.orthogonal=false", "model.attention.performer.epsilon=0.1"}));
}

TEST_CASE("A13: features are drawn anew after every so many updates, never in evaluation", "[performer]") {
  const AttentionCase c = performer("redraw", {"model.attention.performer.features=6", "model.attention.performer.redraw_every=2"});
  const auto a = make_attention(c, Dtype::f64), b = make_attention(c, Dtype::f64);
  const State start = state_of(*a);
  REQUIRE(start.features.size() == 2 * 6 * 4);
  CHECK(state_of(*b).features == start.features);
  update(*a, 1);
  CHECK(state_of(*a).features == start.features);
  update(*a, 2);
  const State second = state_of(*a);
  CHECK(second.redraws == 1);
  for (size_t i = 0; i < start.features.size(); ++i) CHECK(second.features[i] != start.features[i]);
  const Packing packing = packing_for(c, {7});
  attention_output(*a, test_devices().front(), random_tensor(Dtype::f64, {7, 8}, 1), packing);
  CHECK(state_of(*a).features == second.features);
  // What a checkpoint holds is enough to go on: copied after update 3, equal after update 4.
  update(*a, 3);
  State from = state_of(*a), to = state_of(*b);
  for (size_t i = 0; i < from.all.buffers.size(); ++i) to.all.buffers[i]->value.copy_from(from.all.buffers[i]->value);
  update(*a, 4);
  update(*b, 4);
  CHECK(state_of(*a).redraws == 2);
  CHECK(state_of(*b).features == state_of(*a).features);
  CHECK(state_of(*a).features != second.features);
}

TEST_CASE("features are the draws of their layer, head and redraw", "[performer]") {
  const std::string own = "model.attention.performer.";
  for (const bool orthogonal : {true, false})
    for (const bool shared : {true, false}) {
      INFO("orthogonal " << orthogonal << ", shared " << shared);
      const auto attention =
          make_attention(performer("draws", {own + "features=6", own + "redraw_every=1", fmt::format("{}orthogonal={}", own, orthogonal),
                                             fmt::format("{}shared={}", own, shared)}),
                         Dtype::f64);
      for (uint32_t redraws = 0; redraws < 2; ++redraws) {
        std::vector<double> expected;
        for (int h = 0; h < 2; ++h) {
          Tensor omega(Dtype::f64, {6, 4});
          if (shared) {
            const Draw all{random_key(5, "features", "attention"), no_sample, redraws};
            models::fill_random_features({all, all, 1u << 31}, orthogonal, omega);
          } else {
            models::fill_random_features({{random_key(5, "features", "attention", h, 0), no_sample, redraws},
                                          {random_key(5, "features", "attention", h, 1), no_sample, redraws}},
                                         orthogonal, omega);
          }
          const Matrix of_head(omega);
          expected.insert(expected.end(), of_head.values.begin(), of_head.values.end());
        }
        CHECK(state_of(*attention).features == expected);
        update(*attention, redraws + 1);
      }
    }
}

TEST_CASE("heads have features of their own unless they are shared, and 0 means no redraw", "[performer]") {
  const auto halves = [](const std::vector<double>& f) {
    const auto middle = f.begin() + static_cast<std::ptrdiff_t>(f.size() / 2);
    return std::pair(std::vector<double>(f.begin(), middle), std::vector<double>(middle, f.end()));
  };
  const auto own = make_attention(performer("own", {"model.attention.performer.redraw_every=0"}), Dtype::f32);
  const auto shared = make_attention(performer("shared", {"model.attention.performer.shared=true"}), Dtype::f32);
  const State before = state_of(*own);
  CHECK(halves(before.features).first != halves(before.features).second);
  const auto [first, second] = halves(state_of(*shared).features);
  CHECK(first == second);
  update(*own, 1000);
  CHECK(state_of(*own).features == before.features);
}

TEST_CASE("orthogonal features are rotations with the lengths of Gaussian vectors", "[performer]") {
  const Matrix w(drawn(3, 10, 4));  // two blocks and a half
  const Matrix gaussian = [] {
    Matrix m(10, 4);
    for (uint32_t r = 0; r < 10; ++r)
      for (uint32_t c = 0; c < 4; ++c) m(r, c) = Draw{12, no_sample, 3}.gaussian(r, c);
    return m;
  }();
  for (int64_t a = 0; a < 10; ++a)
    for (int64_t b = 0; b <= a; ++b) {
      double dot = 0, length = 0;
      for (int64_t c = 0; c < 4; ++c) {
        dot += w(a, c) * w(b, c);
        length += gaussian(a, c) * gaussian(a, c);
      }
      if (a == b) CHECK(dot == Approx(length));
      else if (a / 4 == b / 4) CHECK(std::abs(dot) < 1e-12);
      else CHECK(std::abs(dot) > 1e-3);
    }
  // More features only add rows, and a Gaussian matrix is the draw itself.
  const Matrix longer(drawn(3, 12, 4)), plain(drawn(3, 10, 4, false));
  for (size_t i = 0; i < w.values.size(); ++i) CHECK(longer.values[i] == w.values[i]);
  CHECK(plain(2, 1) == Draw{11, no_sample, 3}.gaussian(2, 1));
}

TEST_CASE("no entry of a rotation has a mean", "[performer]") {
  // 400 draws of unit vectors in 4 dimensions: the deviation of a mean is 0.025. With the signs of a Householder factorisation the
  // diagonal's means reach 0.8.
  Matrix mean(4, 4);
  for (uint32_t n = 0; n < 400; ++n) {
    const Matrix w(drawn(n, 4, 4));
    for (int64_t r = 0; r < 4; ++r) {
      double length = 0;
      for (int64_t c = 0; c < 4; ++c) length += w(r, c) * w(r, c);
      for (int64_t c = 0; c < 4; ++c) mean(r, c) += w(r, c) / std::sqrt(length) / 400;
    }
  }
  for (const double m : mean.values) CHECK(std::abs(m) < 0.1);
}

TEST_CASE("the error to softmax attention falls with the root of the number of features", "[performer]") {
  const double few = error(FeatureMap::positive, 64, 0.25, 20), some = error(FeatureMap::positive, 256, 0.25, 20),
               many = error(FeatureMap::positive, 1024, 0.25, 20);
  CAPTURE(few, some, many);
  CHECK(std::log(many / few) / std::log(16.0) == Approx(-0.5).margin(0.1));
  CHECK(some < few);
  CHECK(many < some);
  CHECK(many < 0.03);
  CHECK(error(FeatureMap::hyperbolic, 64, 0.25, 20) < few);
}

TEST_CASE("A14: large inputs neither overflow nor leave a denominator of zero", "[performer]") {
  for (const char* kernel : {"softmax", "hyperbolic", "relu"})
    for (const TestDevice& device : test_devices())
      for (const double deviation : {20.0, 400.0}) {
        INFO(kernel << " on " << device.name << ", inputs of " << deviation);
        const auto attention = make_attention(
            performer(kernel, {std::string("model.attention.performer.kernel=") + kernel, "model.attention.performer.features=32"}),
            device.dtype);
        const Packing packing({70, 3}, {0, 1});
        const Tensor x = random_tensor(device.dtype, {73, 8}, 3, deviation);
        const Tensor y = attention_output(*attention, device, x, packing);
        CHECK(all_finite(y));
        if (deviation < 100) CHECK(relative_error(Matrix(y), dense_attention(*attention, Matrix(x), packing)) <= 1e-2);
        for (const Tensor& gradient : gradients_of(*attention, device.on, device.dtype, x, packing)) CHECK(all_finite(gradient));
      }
}

TEST_CASE("what performer refuses", "[performer]") {
  CHECK_THROWS_WITH(performer("odd", {"model.attention.performer.kernel=hyperbolic", "model.attention.performer.features=7"}),
                    ContainsSubstring("model.attention.performer.features") && ContainsSubstring("model.attention.performer.kernel"));
  CHECK_THROWS_WITH(performer("dropout", {"model.attention.dropout=0.1"}),
                    ContainsSubstring("model.attention.dropout") && ContainsSubstring("model.attention.type"));
  CHECK_THROWS_WITH(performer("kernel", {"model.attention.performer.kernel=sigmoid"}), ContainsSubstring("hyperbolic"));
  CHECK_THROWS_WITH(performer("epsilon", {"model.attention.performer.epsilon=0"}),
                    ContainsSubstring("'model.attention.performer.epsilon' must be auto or a number > 0, found 0"));
}

TEST_CASE("the epsilon of auto is the kernel's and is printed as auto", "[performer]") {
  for (const auto& [kernel, epsilon] : {std::pair("softmax", 1e-6), std::pair("hyperbolic", 1e-6), std::pair("relu", 1e-3)}) {
    const auto output = [&](const std::string& given) {
      const AttentionCase c = performer("epsilon", {std::string("model.attention.performer.kernel=") + kernel,
                                                    "model.attention.performer.features=8", "model.attention.performer.epsilon=" + given});
      return AttentionPass(c, 20).y.values;
    };
    CHECK(output("auto") == output(fmt::format("{}", epsilon)));
    CHECK(output("auto") != output("0.01"));
  }
  config::Document document = config::Document::from_text("model: {attention: {type: performer}}\n", "test.yaml", {});
  models::read_model_settings(document.root());
  document.finish();
  CHECK(document.values().at("model.attention.performer.epsilon") == "auto");
}
