// SPDX-License-Identifier: Apache-2.0
// Dropout against the words of Philox.
#include "framework/ops/dropout.h"

#include <algorithm>

#include "tests/framework/ops/op_check.h"
#include "tests/framework/ops/oracles.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

TEST_CASE("dropout keeps what Philox says, forwards and backwards", "[dropout]") {
  const auto columns = GENERATE(1, 6, 16);
  const Packing packing({3, 0, 1, 4}, {11, 5, 7, 4000000000u});
  OpCase c;
  c.mode = Mode::train;
  c.inputs = {random_tensor(Dtype::f64, {8, columns}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::dropout(ctx, in[0], ctx.dropout(0.25, "dropout", "layer", packing));
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    return dropout_oracle(in[0], 0.25, random_key(7, "dropout", "layer"), 3, packing);
  };
  check_op(c);
}

TEST_CASE("a sequence's dropout does not depend on its batch mates", "[dropout]") {
  const Packing alone({4}, {9}), third({2, 3, 4}, {1, 2, 9});
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Context ctx = test_context(device, nullptr, Mode::train);
    const Tensor x = random_tensor(device.dtype, {9, 10}, 1);
    const Matrix y(ops::dropout(ctx, {x}, ctx.dropout(0.5, "dropout", "a", third)).value.rows(5, 4));
    CHECK(y.values == Matrix(ops::dropout(ctx, {x.rows(5, 4)}, ctx.dropout(0.5, "dropout", "a", alone)).value).values);
    CHECK(std::ranges::count(y.values, 0) > 5);
    CHECK(std::ranges::count(y.values, 0) < 35);
    CHECK(y.values != Matrix(ops::dropout(ctx, {x.rows(5, 4)}, ctx.dropout(0.5, "dropout", "b", alone)).value).values);
  }
}

TEST_CASE("dropout hides infinities and NaN where it drops", "[dropout]") {
  const Packing packing({1}, {0});
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Context ctx = test_context(device, nullptr, Mode::train);
    const Tensor x = Tensor::of<double>(std::vector<double>(32, INFINITY)).reshaped({1, 32}).converted(device.dtype);
    for (double v : Matrix(ops::dropout(ctx, {x}, ctx.dropout(0.5, "dropout", "a", packing)).value).values)
      CHECK((v == 0 || v == INFINITY));
  }
}

TEST_CASE("outside training dropout is the variable itself", "[dropout]") {
  const Packing packing({2}, {0});
  Context ctx = test_context(test_devices().front(), nullptr, Mode::evaluate);
  const Variable x{random_tensor(Dtype::f64, {2, 3}, 1), 5};
  const Variable y = ops::dropout(ctx, x, ctx.dropout(0.9, "dropout", "a", packing));
  CHECK(y.value.raw() == x.value.raw());
  CHECK(y.node == 5);
}
