// SPDX-License-Identifier: Apache-2.0
// cosFormer: the battery with both length constants, the limit of a far constant, rows whose features are all 0, and refusals.
#include <algorithm>

#include "framework/ops/feature_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;
using Catch::Matchers::ContainsSubstring;

namespace {

Matrix attend(const TestDevice& device, const Tensor& q, const Tensor& k, const Tensor& v, double length) {
  Context context;
  context.on = device.on;
  context.dtype = device.dtype;
  const Packing packing({static_cast<int32_t>(q.shape()[0])}, {0});
  const auto at = [&](const Tensor& t) { return Variable{t.converted(device.dtype)}; };
  return Matrix(ops::feature_attention(
                    context, at(q), at(k), at(v), {}, packing,
                    {.heads = 1, .map = FeatureMap::cosine, .denominator = Denominator::clamp, .epsilon = 1e-6, .lengths = {length}})
                    .value);
}

AttentionCase cosformer(const std::string& name, std::vector<std::string> own) {
  own.push_back("model.attention.type=cosformer");
  return attention_case(name, own);
}

}  // namespace

TEST_CASE("cosformer keeps what every attention keeps", "[cosformer]") {
  check_attention(cosformer("own length", {}));
  check_attention(cosformer("fixed length", {"model.attention.cosformer.max_length=400"}));
}

TEST_CASE("with a far length constant cosformer is linear attention of positive parts", "[cosformer]") {
  const Tensor q = random_tensor(Dtype::f64, {30, 5}, 1), k = random_tensor(Dtype::f64, {30, 5}, 2),
               v = random_tensor(Dtype::f64, {30, 5}, 3);
  const Matrix mq(q), mk(k), mv(v);
  Matrix want(30, 5);
  for (int64_t i = 0; i < 30; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < 30; ++j) {
      double weight = 0;
      for (int64_t c = 0; c < 5; ++c) weight += std::max(0.0, mq(i, c)) * std::max(0.0, mk(j, c));
      sum += weight;
      for (int64_t c = 0; c < 5; ++c) want(i, c) += weight * mv(j, c);
    }
    for (int64_t c = 0; c < 5; ++c) want(i, c) /= std::max(sum, 1e-6);
  }
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    CHECK(relative_error(attend(device, q, k, v, 1e7), want) <= std::max(device.tolerance, 1e-9));
    CHECK(relative_error(attend(device, q, k, v, 30), want) > 1e-2);
  }
}

TEST_CASE("a query without a positive channel gets 0", "[cosformer]") {
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    const Tensor q = random_tensor(Dtype::f64, {20, 4}, 1), k = random_tensor(Dtype::f64, {20, 4}, 2);
    for (int64_t c = 0; c < 4; ++c) q.matrix<double>().row(7)[c] = -1 - static_cast<double>(c);
    const Matrix o = attend(device, q, k, k, 20);
    for (int64_t c = 0; c < 4; ++c) CHECK(o(7, c) == 0);
  }
}

TEST_CASE("a length constant below the data's lengths is refused, both keys are named", "[cosformer]") {
  const auto make = [](const std::string& length) {
    return make_attention(cosformer("short", {"model.attention.cosformer.max_length=" + length}), Dtype::f32);
  };
  CHECK_THROWS_WITH(make("299"), ContainsSubstring("model.attention.cosformer.max_length") && ContainsSubstring("data.max_length"));
  CHECK_NOTHROW(make("300"));
  CHECK_NOTHROW(make("own"));
}
