// SPDX-License-Identifier: Apache-2.0
// Efficient Attention: the battery, and the limits that its two softmaxes have.
#include <cmath>

#include "framework/ops/feature_attention.h"
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

Matrix attend(const TestDevice& device, const Tensor& q, const Tensor& k, const Tensor& v) {
  Context context;
  context.on = device.on;
  context.dtype = device.dtype;
  const Packing packing({static_cast<int32_t>(q.shape()[0])}, {0});
  const auto at = [&](const Tensor& t) { return Variable{t.converted(device.dtype)}; };
  return Matrix(ops::feature_attention(context, at(q), at(k), at(v), {}, packing,
                                       {.heads = 1, .map = FeatureMap::softmax, .denominator = Denominator::none})
                    .value);
}

}  // namespace

TEST_CASE("efficient attention keeps what every attention keeps", "[efficient]") {
  check_attention(attention_case("two heads", {"model.attention.type=efficient"}));
  check_attention(attention_case("one head", {"model.attention.type=efficient", "model.attention.heads=1"}));
}

TEST_CASE("the implied weights sum to one", "[efficient]") {
  const auto attention = make_attention(attention_case("efficient", {"model.attention.type=efficient"}), Dtype::f64);
  models::DenseInput in{.n = 9, .head = 0, .head_dim = 4};
  for (uint32_t i = 1; i <= 3; ++i) in.projected.push_back(Matrix(random_tensor(Dtype::f64, {9, 4}, i, 2)).values);
  const std::vector<double> w = dynamic_cast<models::HeadAttention&>(*attention).group_of(0).dense_weights(in);
  for (size_t i = 0; i < 9; ++i) {
    double sum = 0;
    for (size_t j = 0; j < 9; ++j) sum += w[i * 9 + j];
    CHECK(std::abs(sum - 1) < 1e-12);
  }
}

TEST_CASE("a single row takes its own value, and a saturated query one pooled row", "[efficient]") {
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    const Tensor one = random_tensor(Dtype::f64, {1, 6}, 1), value = random_tensor(Dtype::f64, {1, 6}, 2);
    CHECK(relative_error(attend(device, one, one, value), Matrix(value)) <= device.tolerance);

    const Tensor k = random_tensor(Dtype::f64, {60, 6}, 3), v = random_tensor(Dtype::f64, {60, 6}, 4),
                 q = Tensor::zeros(Dtype::f64, {60, 6});
    for (int64_t r = 0; r < 60; ++r) q.matrix<double>().row(r)[r % 6] = 1e4;
    const Matrix mk(k), mv(v), o = attend(device, q, k, v);
    Matrix want(60, 6);
    for (int64_t r = 0; r < 60; ++r) {
      double sum = 0;
      for (int64_t j = 0; j < 60; ++j) {
        sum += std::exp(mk(j, r % 6));
        for (int64_t c = 0; c < 6; ++c) want(r, c) += std::exp(mk(j, r % 6)) * mv(j, c);
      }
      for (int64_t c = 0; c < 6; ++c) want(r, c) /= sum;
    }
    CHECK(relative_error(o, want) <= device.tolerance);
  }
}

TEST_CASE("efficient attention refuses dropout of probabilities", "[efficient]") {
  CHECK_THROWS_WITH(attention_case("dropout", {"model.attention.type=efficient", "model.attention.dropout=0.1"}),
                    Catch::Matchers::ContainsSubstring("model.attention.dropout"));
}
