// SPDX-License-Identifier: Apache-2.0
// Pooling of sequences of any length.
#include "framework/ops/pooling.h"

#include <algorithm>

#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

TEST_CASE("pooling equals its formula and differences; an empty sequence gives zeros", "[pooling]") {
  const auto kind = GENERATE(Pooling::mean, Pooling::max, Pooling::first);
  const auto columns = GENERATE(1, 6);
  const auto lengths = GENERATE(std::vector<int32_t>{3, 0, 1, 5}, std::vector<int32_t>{1}, std::vector<int32_t>{0, 0});
  const Packing packing(lengths, std::vector<uint32_t>(lengths.size()));
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {packing.rows(), columns}, 1, 1, -4)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) { return ops::pooling(ctx, kind, in[0], packing); };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    Matrix y(packing.sequences(), columns);
    int64_t row = 0;
    for (int b = 0; b < packing.sequences(); ++b)
      for (int32_t i = 0; i < lengths[static_cast<size_t>(b)]; ++i, ++row)
        for (int64_t k = 0; k < columns; ++k) {
          const double x = in[0](row, k);
          if (kind == Pooling::mean) y(b, k) += x / lengths[static_cast<size_t>(b)];
          else if (i == 0) y(b, k) = x;
          else if (kind == Pooling::max) y(b, k) = std::max(y(b, k), x);
        }
    return y;
  };
  check_op(c);
}

TEST_CASE("of equal maxima the first row gets the gradient", "[pooling]") {
  const Packing packing({3}, {0});
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Tape tape(device.on);
    Context ctx = test_context(device, &tape);
    Matrix gradient;
    const Variable x{Tensor::of<double>({1, 2, 2}).reshaped({3, 1}).converted(device.dtype),
                     tape.record("x", [&](Tape&, const Tensor& g) { gradient = Matrix(g); })};
    tape.backward(ops::pooling(ctx, Pooling::max, x, packing), 3);
    CHECK(gradient.values == std::vector<double>{0, 3, 0});
  }
}

TEST_CASE("the packing of a pooling may be gone before the backward", "[pooling]") {
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Tape tape(device.on);
    Context ctx = test_context(device, &tape);
    Matrix gradient;
    const Variable x{random_tensor(Dtype::f64, {4, 2}, 1).converted(device.dtype),
                     tape.record("x", [&](Tape&, const Tensor& g) { gradient = Matrix(g); })};
    Packing packing({3, 1}, {0, 1});
    const Variable y = ops::pooling(ctx, Pooling::mean, x, packing);
    packing = Packing({1, 3}, {0, 1});
    tape.backward(y, 3);
    CHECK(relative_error(gradient, Matrix(Tensor::of<double>({1, 1, 1, 1, 1, 1, 3, 3}).reshaped({4, 2}))) < 1e-6);
  }
}

TEST_CASE("pooling refuses a packing of other rows", "[pooling]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  CHECK_THROWS_WITH(ops::pooling(ctx, Pooling::mean, {Tensor::zeros(Dtype::f64, {4, 2})}, Packing({3}, {0})),
                    Catch::Matchers::ContainsSubstring("4 rows"));
}
