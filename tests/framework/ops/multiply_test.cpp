// SPDX-License-Identifier: Apache-2.0
// Products element by element and with a constant.
#include "framework/ops/multiply.h"

#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

TEST_CASE("multiply equals the product, also of a variable with itself", "[multiply]") {
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {5, 3}, 1), random_tensor(Dtype::f64, {5, 3}, 2)};
  c.op = [](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::multiply(ctx, ops::multiply(ctx, in[0], in[0]), in[1]);
  };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    Matrix z = in[0];
    for (size_t i = 0; i < z.values.size(); ++i) z.values[i] *= in[0].values[i] * in[1].values[i];
    return z;
  };
  check_op(c);
}

TEST_CASE("scale multiplies by a constant", "[multiply]") {
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {4, 7}, 1)};
  c.op = [](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) { return ops::scale(ctx, in[0], -1.5); };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    Matrix z = in[0];
    for (double& v : z.values) v *= -1.5;
    return z;
  };
  check_op(c);
}

TEST_CASE("multiply refuses unequal shapes", "[multiply]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  CHECK_THROWS_AS(ops::multiply(ctx, {Tensor::zeros(Dtype::f64, {2, 3})}, {Tensor::zeros(Dtype::f64, {3, 2})}), Error);
}
