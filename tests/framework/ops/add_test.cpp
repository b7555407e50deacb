// SPDX-License-Identifier: Apache-2.0
// The sum of two variables, and variables read several times.
#include "framework/ops/add.h"

#include "framework/ops/activation.h"
#include "tests/framework/ops/op_check.h"
#include "tests/framework/ops/oracles.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

TEST_CASE("add equals the sum", "[add]") {
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {5, 3}, 1), random_tensor(Dtype::f64, {5, 3}, 2)};
  c.op = [](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) { return ops::add(ctx, in[0], in[1]); };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return sum_oracle(in[0], in[1]); };
  check_op(c);
}

TEST_CASE("add with a factor scales the second", "[add]") {
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {5, 3}, 1), random_tensor(Dtype::f64, {5, 3}, 2)};
  c.op = [](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) { return ops::add(ctx, in[0], in[1], -2.5); };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    Matrix z = in[0];
    for (size_t i = 0; i < z.values.size(); ++i) z.values[i] -= 2.5 * in[1].values[i];
    return z;
  };
  check_op(c);
}

TEST_CASE("a variable read several times gets every gradient", "[add]") {
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {4, 6}, 1)};
  // (x + x) + gelu(x)
  c.op = [](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::add(ctx, ops::add(ctx, in[0], in[0]), ops::activation(ctx, Activation::gelu, in[0]));
  };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    return sum_oracle(sum_oracle(in[0], in[0]), activation_oracle(Activation::gelu, in[0]));
  };
  check_op(c);
}

TEST_CASE("add refuses unequal shapes and dtypes", "[add]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Variable x{Tensor::zeros(Dtype::f64, {2, 3})};
  CHECK_THROWS_WITH(ops::add(ctx, x, {Tensor::zeros(Dtype::f64, {3, 2})}), Catch::Matchers::ContainsSubstring("[3, 2]"));
  CHECK_THROWS_WITH(ops::add(ctx, x, {Tensor::zeros(Dtype::f32, {2, 3})}), Catch::Matchers::ContainsSubstring("float32"));
}
