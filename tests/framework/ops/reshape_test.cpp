// SPDX-License-Identifier: Apache-2.0
// Reshaping shares elements, and gradients come back in the old shape.
#include "framework/ops/reshape.h"

#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

TEST_CASE("reshape keeps the order of the elements", "[reshape]") {
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {6, 4}, 1)};
  c.op = [](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) { return ops::reshape(ctx, in[0], {3, 8}); };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    Matrix y(3, 8);
    y.values = in[0].values;
    return y;
  };
  check_op(c);
}

TEST_CASE("reshape shares storage and refuses other counts and strided rows", "[reshape]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Variable x{Tensor::zeros(Dtype::f64, {6, 4})};
  CHECK(ops::reshape(ctx, x, {24, 1}).value.raw() == x.value.raw());
  CHECK_THROWS_AS(ops::reshape(ctx, x, {5, 4}), Error);
  CHECK_THROWS_AS(ops::reshape(ctx, {x.value.columns(0, 2)}, {3, 4}), Error);
}
