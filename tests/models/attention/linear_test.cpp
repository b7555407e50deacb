// SPDX-License-Identifier: Apache-2.0
// Linear attention: it has no probabilities to drop, its weights sum to almost one, the order of keys does not matter, and small features
// keep their digits.
#include <cmath>
#include <numeric>

#include "framework/ops/attention.h"
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

TEST_CASE("dropout of probabilities is refused and both keys are named", "[linear]") {
  try {
    model_settings({"model.attention.type=linear", "model.attention.dropout=0.1"});
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::usage);
    CHECK(std::string(e.what()).find("model.attention.dropout") != std::string::npos);
    CHECK(std::string(e.what()).find("model.attention.type") != std::string::npos);
  }
}

TEST_CASE("the implied weights are positive and sum to one up to epsilon", "[linear]") {
  const auto attention = make_attention(attention_case("linear", {"model.attention.type=linear"}), Dtype::f64);
  models::DenseInput in{.n = 9, .head = 0, .head_dim = 4};
  for (const Matrix& m : {Matrix(random_tensor(Dtype::f64, {9, 4}, 1)), Matrix(random_tensor(Dtype::f64, {9, 4}, 2, 3, -8)), Matrix(9, 4)})
    in.projected.push_back(m.values);
  const std::vector<double> w = dynamic_cast<models::HeadAttention&>(*attention).group_of(0).dense_weights(in);
  REQUIRE(w.size() == 81);
  for (int i = 0; i < 9; ++i) {
    const double sum = std::accumulate(w.begin() + i * 9, w.begin() + (i + 1) * 9, 0.0);
    CHECK(sum <= 1);
    CHECK(sum > 0.5);
    for (int j = 0; j < 9; ++j) CHECK(w[static_cast<size_t>(i * 9 + j)] > 0);
  }
}

TEST_CASE("the order of keys does not matter", "[linear]") {
  const int32_t n = 70;
  const Tensor x = random_tensor(Dtype::f64, {n, 8}, 3), turned(Dtype::f64, {n, 8});
  for (int32_t r = 0; r < n; ++r) turned.rows(r, 1).copy_from(x.rows(n - 1 - r, 1));
  const auto attention = make_attention(attention_case("linear", {"model.attention.type=linear"}), Dtype::f64);
  const auto output = [&](const Tensor& rows) {
    return Matrix(attention_output(*attention, test_devices().front(), rows, Packing({n}, {0})));
  };
  const Matrix y = output(x), back = output(turned);
  for (int32_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < 8; ++c) CHECK(std::abs(y(r, c) - back(n - 1 - r, c)) <= 1e-12);
}

TEST_CASE("A08: features of inputs far below zero are not lost in float", "[linear]") {
  // elu(x) + 1 in float would leave four digits at -8 and nothing at -20.
  constexpr int32_t n = 40;
  for (const TestDevice& device : test_devices())
    for (const double centre : {-8.0, -20.0, -200.0}) {
      INFO(device.name << ", inputs around " << centre);
      const Tensor q = random_tensor(Dtype::f64, {n, 4}, 1, 0.1, centre), k = random_tensor(Dtype::f64, {n, 4}, 2, 0.1, centre),
                   v = random_tensor(Dtype::f64, {n, 4}, 3);
      const Matrix mq(q), mk(k), mv(v);
      const double epsilon = centre == -8 ? 1e-6 : 1e-20;
      Matrix expected(n, 4);
      for (int64_t i = 0; i < n; ++i) {
        double sum = epsilon;
        for (int64_t j = 0; j < n; ++j) {
          double weight = 0;
          for (int64_t d = 0; d < 4; ++d) weight += std::exp(mq(i, d)) * std::exp(mk(j, d));
          sum += weight;
          for (int64_t c = 0; c < 4; ++c) expected(i, c) += weight * mv(j, c);
        }
        for (int64_t c = 0; c < 4; ++c) expected(i, c) /= sum;
      }
      Context context{.on = device.on, .dtype = device.dtype};
      const auto at = [&](const Tensor& t) { return Variable{t.converted(device.dtype), no_node}; };
      const Matrix o(ops::linear_attention(context, at(q), at(k), at(v), Packing({n}, {0}), 1, epsilon).value);
      CHECK(relative_error(o, expected) <= device.tolerance);
    }
}
