// SPDX-License-Identifier: Apache-2.0
// Activations against their formulas.
#include "framework/ops/activation.h"

#include <limits>

#include "tests/framework/ops/op_check.h"
#include "tests/framework/ops/oracles.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

TEST_CASE("activations equal their formulas and differences", "[activation]") {
  const auto f = GENERATE(Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh);
  const auto rows = GENERATE(1, 7), columns = GENERATE(1, 33);
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {rows, columns}, 1, 2)};
  c.op = [=](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) { return ops::activation(ctx, f, in[0]); };
  c.oracle = [=](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return activation_oracle(f, in[0]); };
  check_op(c);
}

TEST_CASE("activations of large inputs are finite and NaN is passed on", "[activation]") {
  for (const TestDevice& device : test_devices())
    for (const Activation f : {Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
      INFO(device.name << " activation " << static_cast<int>(f));
      Context ctx = test_context(device, nullptr);
      const Tensor x = Tensor::of<double>({-1e4, -60, 60, 1e4, std::numeric_limits<double>::quiet_NaN()}).reshaped({1, 5});
      const Matrix y(ops::activation(ctx, f, {x.converted(device.dtype)}).value);
      CHECK(std::abs(y(0, 0)) <= 1e-30);
      CHECK(std::abs(y(0, 1)) < 1e-30);
      CHECK(y(0, 2) == 60);
      CHECK(y(0, 3) == 1e4);
      CHECK(std::isnan(y(0, 4)));
    }
}

TEST_CASE("an activation of the wrong dtype or rank is refused", "[activation]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  CHECK_THROWS_WITH(ops::activation(ctx, Activation::relu, {Tensor::zeros(Dtype::f32, {2, 2})}),
                    Catch::Matchers::ContainsSubstring("float32"));
  CHECK_THROWS_WITH(ops::activation(ctx, Activation::relu, {Tensor::zeros(Dtype::f64, {2})}), Catch::Matchers::ContainsSubstring("[2]"));
  CHECK_THROWS_WITH(ops::activation(ctx, Activation::relu, {}), Catch::Matchers::ContainsSubstring("not defined"));
}

TEST_CASE("a device that does not compute in double says so", "[activation]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  ctx.on.device = Device::cuda;
  CHECK_THROWS_WITH(ops::activation(ctx, Activation::relu, {Tensor::zeros(Dtype::f64, {2, 2})}),
                    Catch::Matchers::ContainsSubstring("cuda"));
  ctx.on.device = Device::cpu;
  CHECK_THROWS_WITH(ops::activation(ctx, Activation::relu, {Tensor::zeros(Dtype::f64, {2, 2})}),
                    Catch::Matchers::ContainsSubstring("thread pool"));
}
