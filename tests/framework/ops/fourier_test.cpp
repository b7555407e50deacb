// SPDX-License-Identifier: Apache-2.0
// The Fourier transform of sequences against its double sum, and that it is its own adjoint.
#include "framework/ops/fourier.h"

#include <cmath>
#include <numbers>

#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

// length 0: each sequence at its own.
Matrix naive(const Matrix& x, const Packing& packing, int32_t length) {
  Matrix y(x.rows, x.columns);
  for (int b = 0; b < packing.sequences(); ++b) {
    const int64_t first = packing.offsets()[static_cast<size_t>(b)], n = packing.length(b), grid = length ? length : n;
    for (int64_t k = 0; k < n; ++k)
      for (int64_t c = 0; c < x.columns; ++c)
        for (int64_t j = 0; j < n; ++j)
          for (int64_t d = 0; d < x.columns; ++d)
            y(first + k, c) += x(first + j, d) * std::cos(2 * std::numbers::pi *
                                                          (static_cast<double>(j * k % grid) / static_cast<double>(grid) +
                                                           static_cast<double>(d * c % x.columns) / static_cast<double>(x.columns)));
  }
  return y;
}

}  // namespace

TEST_CASE("fourier equals the double sum", "[fourier]") {
  const auto channels = GENERATE(1, 4, 7);
  const auto length = GENERATE(0, 13, 16);
  const Packing packing({5, 1, 0, 8, 13}, {0, 1, 2, 3, 4});
  ops::FourierTables tables(channels);
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {packing.rows(), channels}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::fourier(ctx, in[0], packing, tables, length);
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return naive(in[0], packing, length); };
  check_op(c);
}

TEST_CASE("<F x, y> = <x, F y>", "[fourier]") {
  const auto length = GENERATE(0, 128, 131);
  const Packing packing({127, 96, 1}, {0, 1, 2});
  ops::FourierTables tables(10);
  for (const TestDevice& device : test_devices()) {
    Context ctx = test_context(device, nullptr);
    const Tensor x = random_tensor(device.dtype, {packing.rows(), 10}, 1), y = random_tensor(device.dtype, {packing.rows(), 10}, 2);
    const Matrix fx(ops::fourier(ctx, {x}, packing, tables, length).value), fy(ops::fourier(ctx, {y}, packing, tables, length).value);
    const Matrix mx(x), my(y);
    double left = 0, right = 0, size = 0;
    for (size_t i = 0; i < mx.values.size(); ++i) {
      left += fx.values[i] * my.values[i];
      right += mx.values[i] * fy.values[i];
      size += std::abs(mx.values[i] * fy.values[i]);
    }
    CHECK(std::abs(left - right) <= device.tolerance * size);
  }
}

TEST_CASE("fourier refuses what does not fit", "[fourier]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Packing packing({4}, {0});
  ops::FourierTables tables(3);
  CHECK_THROWS_AS(ops::fourier(ctx, {Tensor::zeros(Dtype::f64, {4, 3})}, packing, tables, 3), Error);
  CHECK_THROWS_AS(ops::fourier(ctx, {Tensor::zeros(Dtype::f64, {5, 3})}, packing, tables), Error);
  CHECK_THROWS_AS(ops::fourier(ctx, {Tensor::zeros(Dtype::f64, {4, 5})}, packing, tables), Error);
}
