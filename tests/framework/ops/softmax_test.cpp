// SPDX-License-Identifier: Apache-2.0
// Softmax against its formula.
#include "framework/ops/softmax.h"

#include <cmath>

#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

TEST_CASE("softmax equals its formula and differences", "[softmax]") {
  const auto rows = GENERATE(1, 6), columns = GENERATE(1, 2, 19);
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {rows, columns}, 1)};
  c.op = [](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) { return ops::softmax(ctx, in[0]); };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    Matrix y(in[0].rows, in[0].columns);
    for (int64_t r = 0; r < y.rows; ++r)
      for (int64_t a = 0; a < y.columns; ++a) {
        double sum = 0;
        for (int64_t b = 0; b < y.columns; ++b) sum += std::exp(in[0](r, b) - in[0](r, a));
        y(r, a) = 1 / sum;
      }
    return y;
  };
  check_op(c);
}

TEST_CASE("softmax of huge logits neither overflows nor divides by zero", "[softmax]") {
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Context ctx = test_context(device, nullptr);
    const Tensor x = Tensor::of<double>({1e30, 1e30, -1e30, -1e30}).reshaped({2, 2});
    const Matrix y(ops::softmax(ctx, {x.converted(device.dtype)}).value);
    for (double v : y.values) CHECK(v == 0.5);
  }
}

TEST_CASE("softmax refuses rows of no columns", "[softmax]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  CHECK_THROWS_AS(ops::softmax(ctx, {Tensor::zeros(Dtype::f64, {2, 0})}), Error);
}
