// SPDX-License-Identifier: Apache-2.0
// LayerNorm against its formula.
#include "framework/ops/layer_norm.h"

#include "tests/framework/ops/op_check.h"
#include "tests/framework/ops/oracles.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

TEST_CASE("layer norm equals its formula and differences", "[layer_norm]") {
  const auto rows = GENERATE(0, 1, 5), columns = GENERATE(1, 2, 17);
  OpCase c;
  if (columns <= 2) c.cancellation = 20;
  c.inputs = {random_tensor(Dtype::f64, {rows, columns}, 1, 1, 3)};
  c.parameters = {random_tensor(Dtype::f64, {columns}, 2), random_tensor(Dtype::f64, {columns}, 3)};
  c.op = [](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>& p) {
    return ops::layer_norm(ctx, in[0], {&p[0], &p[1], 1e-3});
  };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>& p) { return layer_norm_oracle(in[0], p[0], p[1], 1e-3); };
  check_op(c);
}

TEST_CASE("layer norm of equal columns is the shift, and of a large mean stays exact", "[layer_norm]") {
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Context ctx = test_context(device, nullptr);
    Parameter gain{"gain", random_tensor(device.dtype, {4}, 1), {}, true}, shift{"shift", random_tensor(device.dtype, {4}, 2), {}, true};
    const Tensor x = Tensor::of<double>({0, 0, 0, 0, 65536, 65537, 65538, 65539}).reshaped({2, 4}).converted(device.dtype);
    const Matrix y(ops::layer_norm(ctx, {x}, {&gain, &shift, 1e-12}).value), g(gain.value), s(shift.value);
    for (int c = 0; c < 4; ++c) {
      CHECK(y(0, c) == s(c, 0));
      CHECK(std::abs(y(1, c) - (g(c, 0) * (c - 1.5) / std::sqrt(1.25) + s(c, 0))) < 1e-4);
    }
  }
}

TEST_CASE("layer norm refuses parameters of another size", "[layer_norm]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  Parameter gain{"encoder.norm.gain", Tensor::zeros(Dtype::f64, {3}), {}, true}, shift{"shift", Tensor::zeros(Dtype::f64, {4}), {}, true};
  CHECK_THROWS_WITH(ops::layer_norm(ctx, {Tensor::zeros(Dtype::f64, {2, 4})}, {&gain, &shift, 1e-5}),
                    Catch::Matchers::ContainsSubstring("encoder.norm.gain") && Catch::Matchers::ContainsSubstring("[4]"));
}
