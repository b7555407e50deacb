// SPDX-License-Identifier: Apache-2.0
// BatchNorm with the statistics of the batch and with given ones.
#include "framework/ops/batch_norm.h"

#include <cmath>

#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

constexpr double epsilon = 1e-3;

OpCase norm_case(int64_t rows, int64_t columns) {
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {rows, columns}, 1, 1, 2)};
  c.parameters = {random_tensor(Dtype::f64, {columns}, 2), random_tensor(Dtype::f64, {columns}, 3)};
  return c;
}

}  // namespace

TEST_CASE("batch norm with the batch's statistics equals its formula and differences", "[batch_norm]") {
  const auto rows = GENERATE(2, 3, 70), columns = GENERATE(1, 5);
  OpCase c = norm_case(rows, columns);
  c.mode = Mode::train;
  if (rows <= 3) c.cancellation = 20;
  c.op = [](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>& p) {
    return ops::batch_norm_batch(ctx, in[0], {&p[0], &p[1], epsilon}).y;
  };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>& p) {
    const Matrix& x = in[0];
    Matrix y(x.rows, x.columns);
    for (int64_t k = 0; k < x.columns; ++k) {
      double mean = 0, variance = 0;
      for (int64_t r = 0; r < x.rows; ++r) mean += x(r, k) / double(x.rows);
      for (int64_t r = 0; r < x.rows; ++r) variance += std::pow(x(r, k) - mean, 2) / double(x.rows);
      for (int64_t r = 0; r < x.rows; ++r) y(r, k) = p[0](k, 0) * (x(r, k) - mean) / std::sqrt(variance + epsilon) + p[1](k, 0);
    }
    return y;
  };
  check_op(c);
}

TEST_CASE("batch norm with given statistics equals its formula and differences", "[batch_norm]") {
  const auto rows = GENERATE(0, 1, 6);
  const Tensor mean = random_tensor(Dtype::f64, {4}, 5), variance = random_tensor(Dtype::f64, {4}, 6, 0.1, 2);
  OpCase c = norm_case(rows, 4);
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>& p) {
    const Tensor m = mean.converted(ctx.dtype);
    const Variable y = ops::batch_norm_fixed(ctx, in[0], {&p[0], &p[1], epsilon}, m, variance.converted(ctx.dtype));
    m.fill_zero();  // the layer may move its statistics before the backward
    return y;
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>& p) {
    const Matrix m(mean), v(variance);
    Matrix y = in[0];
    for (int64_t r = 0; r < y.rows; ++r)
      for (int64_t k = 0; k < y.columns; ++k) y(r, k) = p[0](k, 0) * (y(r, k) - m(k, 0)) / std::sqrt(v(k, 0) + epsilon) + p[1](k, 0);
    return y;
  };
  check_op(c);
}

TEST_CASE("batch norm returns the mean and the sum of squared deviations", "[batch_norm]") {
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Context ctx = test_context(device, nullptr, Mode::train);
    Parameter gain{"gain", Tensor::of<double>({1}).converted(device.dtype), {}, true};
    Parameter shift{"shift", Tensor::zeros(device.dtype, {1}), {}, true};
    // A large mean: the sum of squares minus the square of the sum would be 0 in float.
    const Tensor x = Tensor::of<double>({16777214, 16777212, 16777216}).reshaped({3, 1}).converted(device.dtype);
    const ops::BatchNormResult r = ops::batch_norm_batch(ctx, {x}, {&gain, &shift, 1e-5});
    CHECK(Matrix(r.mean)(0, 0) == 16777214);
    CHECK(Matrix(r.m2)(0, 0) == 8);
  }
}

TEST_CASE("one row has no variance", "[batch_norm]") {
  for (const TestDevice& device : test_devices())
    for (const int64_t rows : {0, 1}) {
      Context ctx = test_context(device, nullptr, Mode::train);
      Parameter gain{"gain", Tensor::zeros(device.dtype, {2}), {}, true}, shift{"shift", Tensor::zeros(device.dtype, {2}), {}, true};
      const ops::NormParameters norm{&gain, &shift, 1e-5};
      CHECK_THROWS_WITH(ops::batch_norm_batch(ctx, {Tensor::zeros(device.dtype, {rows, 2})}, norm),
                        Catch::Matchers::ContainsSubstring("at least 2"));
      CHECK_THROWS_WITH(
          ops::batch_norm_fixed(ctx, {Tensor::zeros(device.dtype, {2, 2})}, norm, Tensor::zeros(device.dtype, {3}), gain.value),
          Catch::Matchers::ContainsSubstring("mean"));
    }
}
