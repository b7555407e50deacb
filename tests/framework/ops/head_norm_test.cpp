// SPDX-License-Identifier: Apache-2.0
// Norms of heads against their formula: LayerNorm without parameters, root mean square, Euclidean norm with a floor.
#include "framework/ops/head_norm.h"

#include <cmath>

#include "framework/core/error.h"
#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

Matrix oracle(const Matrix& x, const kernels::HeadNormCall& call) {
  const int64_t d = x.columns / (call.heads + call.kept);
  Matrix y(x.rows, x.columns);
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.columns; ++c) {
      const int64_t first = c / d * d;
      double mean = 0, square = 0;
      for (int64_t e = first; e < first + d; ++e) mean += x(r, e);
      mean = call.centred ? mean / static_cast<double>(d) : 0;
      for (int64_t e = first; e < first + d; ++e) square += std::pow(x(r, e) - mean, 2);
      const double length = std::sqrt(square / static_cast<double>(d) + call.epsilon);
      if (c >= d * call.heads) y(r, c) = x(r, c);
      else y(r, c) = call.factor * (x(r, c) - mean) / std::max(length, call.floor);
    }
  return y;
}

}  // namespace

TEST_CASE("norms of heads equal their formula and differences", "[head_norm]") {
  const auto centred = GENERATE(false, true);
  const auto d = GENERATE(3, 8, 21);
  const auto floor = GENERATE(0.0, 1.0);  // of rows of deviation 1: some are above it, some below
  const kernels::HeadNormCall call{.heads = 2, .kept = centred ? 1 : 0, .centred = centred, .factor = 0.7, .epsilon = 1e-3, .floor = floor};
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {6, (centred ? 3 : 2) * d}, 1)};
  c.op = [call](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) { return ops::head_norm(ctx, in[0], call); };
  c.oracle = [call](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return oracle(in[0], call); };
  check_op(c);
}

TEST_CASE("a row of zeros stays zeros at the floor", "[head_norm]") {
  for (const TestDevice& device : test_devices()) {
    Context ctx = test_context(device, nullptr);
    const Matrix y(ops::head_norm(ctx, {Tensor::zeros(device.dtype, {2, 4})}, {.heads = 2, .floor = 1e-12}).value);
    for (const double v : y.values) CHECK(v == 0);
  }
  Context ctx = test_context(test_devices().front(), nullptr);
  CHECK_THROWS_AS(ops::head_norm(ctx, {Tensor::zeros(Dtype::f64, {2, 5})}, {.heads = 2}), Error);
}
