// SPDX-License-Identifier: Apache-2.0
// Softmax inside blocks against its formula, and over the rows of each sequence.
#include "framework/ops/block_softmax.h"

#include <cmath>

#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;
using Catch::Matchers::Contains;

namespace {

Matrix oracle(const Matrix& x, const std::vector<Block>& blocks, Axis axis) {
  Matrix y(x.rows, x.columns);
  for (const Block& b : blocks)
    for (int64_t r = b.row; r < b.row + b.rows; ++r)
      for (int64_t c = b.column; c < b.column + b.columns; ++c) {
        double sum = 0;
        if (axis == Axis::rows)
          for (int64_t i = b.column; i < b.column + b.columns; ++i) sum += std::exp(x(r, i) - x(r, c));
        else
          for (int64_t i = b.row; i < b.row + b.rows; ++i) sum += std::exp(x(i, c) - x(r, c));
        y(r, c) = 1 / sum;
      }
  return y;
}

void check(int64_t rows, int64_t columns, const std::vector<Block>& blocks, Axis axis) {
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {rows, columns}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::block_softmax(ctx, in[0], blocks, axis);
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return oracle(in[0], blocks, axis); };
  check_op(c);
}

}  // namespace

TEST_CASE("softmax inside blocks equals its formula and differences", "[block_softmax]") {
  const Axis axis = GENERATE(Axis::rows, Axis::columns);
  check(7, 40, {{0, 3, 0, 17}, {0, 3, 17, 1}, {3, 4, 2, 33}, {3, 0, 0, 2}, {3, 2, 0, 0}}, axis);
  check(5, 19, {{0, 5, 0, 19}}, axis);
  check(130, 70, {{0, 129, 1, 69}}, axis);
  check(2, 3, {}, axis);
}

TEST_CASE("softmax over the rows of each sequence", "[block_softmax]") {
  const Packing packing({3, 0, 1, 5}, {0, 1, 2, 3});
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {9, 21}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::softmax_over_rows(ctx, in[0], packing);
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    return oracle(in[0], {{0, 3, 0, 21}, {3, 1, 0, 21}, {4, 5, 0, 21}}, Axis::columns);
  };
  check_op(c);
}

TEST_CASE("softmax of huge logits inside blocks stays finite", "[block_softmax]") {
  const Axis axis = GENERATE(Axis::rows, Axis::columns);
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Context ctx = test_context(device, nullptr);
    const Tensor x = Tensor::of<double>({1e30, 1e30, 1e30, 1e30, -1e30, -1e30, -1e30, -1e30}).reshaped({4, 2});
    const Matrix y(ops::block_softmax(ctx, {x.converted(device.dtype)}, {{0, 2, 0, 2}, {2, 2, 0, 2}}, axis).value);
    for (double v : y.values) CHECK(v == 0.5);
  }
}

TEST_CASE("block_softmax refuses blocks that do not fit", "[block_softmax]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Variable x{Tensor::zeros(Dtype::f64, {4, 4})};
  CHECK_THROWS_WITH(ops::block_softmax(ctx, x, {{0, 5, 0, 4}}, Axis::rows), Contains("block 0 has rows 0 + 5"));
  CHECK_THROWS_WITH(ops::block_softmax(ctx, x, {{0, 4, 2, -1}}, Axis::rows), Contains("columns 2 + -1"));
  CHECK_THROWS_WITH(ops::block_softmax(ctx, x, {{0, 2, 0, 2}, {1, 2, 1, 2}}, Axis::rows), Contains("overlap"));
}
