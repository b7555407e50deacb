// SPDX-License-Identifier: Apache-2.0
// Random Feature Attention: the battery, projections that are new after every update and come back with the count, and the error to the
// Gaussian kernel's attention.
#include <algorithm>
#include <cmath>

#include "framework/core/random.h"
#include "framework/ops/feature_attention.h"
#include "models/attention/random_features.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

AttentionCase rfa(const std::string& name, std::vector<std::string> own) {
  own.push_back("model.attention.type=rfa");
  return attention_case(name, own);
}

Matrix output(models::Attention& a, const AttentionCase& c) {
  return Matrix(attention_output(a, test_devices().front(), random_tensor(Dtype::f64, {9, 8}, 1), packing_for(c, {9})));
}

// The mean over draws of the relative distance to attention with the weights exp(<q, k> / t^2) of unit vectors.
double error(int projections, double temperature, int draws) {
  const Packing packing({64}, {0});
  const TestDevice& device = test_devices().back();
  const Tensor q = random_tensor(Dtype::f64, {64, 16}, 1), k = random_tensor(Dtype::f64, {64, 16}, 2),
               v = random_tensor(Dtype::f64, {64, 16}, 3);
  const auto unit = [](const Tensor& t) {
    Matrix m(t);
    for (int64_t r = 0; r < m.rows; ++r) {
      double square = 0;
      for (int64_t c = 0; c < m.columns; ++c) square += m(r, c) * m(r, c);
      for (int64_t c = 0; c < m.columns; ++c) m(r, c) /= std::sqrt(square) + 1e-3;
    }
    return m;
  };
  const Matrix mq = unit(q), mk = unit(k), mv(v);
  Matrix want(64, 16);
  for (int64_t i = 0; i < 64; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < 64; ++j) {
      double square = 0;
      for (int64_t c = 0; c < 16; ++c) square += std::pow(mq(i, c) - mk(j, c), 2);
      const double weight = std::exp(-square / 2 / temperature / temperature);
      sum += weight;
      for (int64_t c = 0; c < 16; ++c) want(i, c) += weight * mv(j, c);
    }
    for (int64_t c = 0; c < 16; ++c) want(i, c) /= sum;
  }
  double total = 0;
  for (int n = 0; n < draws; ++n) {
    Context context;
    context.on = device.on;
    context.dtype = device.dtype;
    Tensor w(Dtype::f64, {projections, 16});
    models::fill_random_features({{21, no_sample, static_cast<uint32_t>(n)}, {22, no_sample, static_cast<uint32_t>(n)}}, false, w);
    for (double& x : w.span<double>()) x /= temperature;
    const Matrix o(
        ops::feature_attention(
            context, {q.converted(device.dtype)}, {k.converted(device.dtype)}, {v.converted(device.dtype)}, {w.converted(device.dtype)},
            packing,
            {.heads = 1, .map = FeatureMap::trigonometric, .features = 2 * projections, .denominator = Denominator::clamp, .epsilon = 1e-3})
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

TEST_CASE("rfa keeps what every attention keeps", "[rfa]") {
  check_attention(rfa("learned", {"model.attention.rfa.features=24"}));
  check_attention(rfa("fixed", {"model.attention.rfa.features=24", "model.attention.rfa.learn_sigma=false",
                                "model.attention.rfa.orthogonal=true", "model.attention.rfa.temperature=1.5"}));
}

TEST_CASE("the projections are the draws of their layer and head", "[rfa]") {
  constexpr int64_t n = 9, m = 24;
  const AttentionPass run(rfa("draws", {"model.attention.rfa.features=24", "model.attention.rfa.temperature=1.5"}), n);
  const Matrix v = run.projected("value");
  Matrix o(n, 8);
  for (int64_t h = 0; h < 2; ++h) {
    const Draw draw{random_key(5, "features", "attention", static_cast<int>(h), 0), no_sample, 0};
    const auto features = [&](const Matrix& x) {
      Matrix f(n, 2 * m);
      for (int64_t i = 0; i < n; ++i) {
        double square = 0;
        for (int64_t c = 0; c < 4; ++c) square += x(i, h * 4 + c) * x(i, h * 4 + c);
        for (int64_t r = 0; r < m; ++r) {
          double u = 0;
          for (int64_t c = 0; c < 4; ++c) u += draw.gaussian(static_cast<uint32_t>(r), static_cast<uint32_t>(c)) * x(i, h * 4 + c);
          u /= 1.5 * (std::sqrt(square) + 1e-3);
          f(i, r) = std::sin(u) / std::sqrt(24.0);
          f(i, m + r) = std::cos(u) / std::sqrt(24.0);
        }
      }
      return f;
    };
    const Matrix f = features(run.projected("query")), g = features(run.projected("key"));
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0;
      std::vector<double> weights(n);
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t r = 0; r < 2 * m; ++r) weights[static_cast<size_t>(j)] += f(i, r) * g(j, r);
        sum += weights[static_cast<size_t>(j)];
      }
      for (int64_t j = 0; j < n; ++j)
        for (int64_t c = h * 4; c < h * 4 + 4; ++c) o(i, c) += weights[static_cast<size_t>(j)] / std::max(std::abs(sum), 1e-3) * v(j, c);
    }
  }
  CHECK(relative_error(run.y, project(o, run.parameter("output.weight"), run.parameter("output.bias"))) <= 1e-10);
}

TEST_CASE("the projections are new after every update and follow the stored count", "[rfa]") {
  const AttentionCase c = rfa("redraw", {});
  const auto a = make_attention(c, Dtype::f64), b = make_attention(c, Dtype::f64);
  const Matrix start = output(*a, c);
  CHECK(output(*a, c).values == start.values);
  CHECK(output(*b, c).values == start.values);
  Context context;
  context.mode = Mode::train;
  context.step = 1;
  a->after_update(context);
  const Matrix next = output(*a, c);
  CHECK(relative_error(next, start) > 1e-4);
  // As a checkpoint does: the count is written into the buffer.
  nn::ModelState state;
  b->visit(state);
  REQUIRE(state.buffers.size() == 1);
  CHECK(state.buffers[0]->name == "attention.redraws");
  state.buffers[0]->value.data<int64_t>()[0] = 1;
  CHECK(output(*b, c).values == next.values);
}

TEST_CASE("sigma is a parameter of every head's channels, or none at all", "[rfa]") {
  const auto sigma = [](models::Attention& a) {
    nn::ModelState state;
    a.visit(state);
    for (const Parameter* p : state.parameters)
      if (p->name == "attention.sigma") return Matrix(p->value);
    return Matrix();
  };
  const Matrix learned = sigma(*make_attention(rfa("learned", {}), Dtype::f64));
  CHECK((learned.rows == 2 && learned.columns == 4));
  for (const double v : learned.values) CHECK(v == 1);
  CHECK(sigma(*make_attention(rfa("fixed", {"model.attention.rfa.learn_sigma=false"}), Dtype::f64)).rows == 0);
}

TEST_CASE("the error to the Gaussian kernel falls with the root of the number of projections", "[rfa]") {
  const double few = error(64, 1.5, 20), many = error(1024, 1.5, 20);
  CAPTURE(few, many);
  CHECK(std::log(many / few) / std::log(16.0) == Approx(-0.5).margin(0.1));
  CHECK(many < 0.3);
}
