// SPDX-License-Identifier: Apache-2.0
// The distance to centroids against its formula, for points that are the first columns of an array.
#include "framework/ops/centroid_loss.h"

#include <cmath>

#include "framework/core/error.h"
#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

constexpr int heads = 2, clusters = 3, dim = 5;

Tensor some_classes(int64_t groups, int64_t rows) {
  Tensor out(Dtype::i32, {groups, rows});
  for (int64_t i = 0; i < groups * rows; ++i) out.data<int32_t>()[i] = static_cast<int32_t>((i * 7 + i / 4) % clusters);
  return out;
}

}  // namespace

TEST_CASE("the loss of centroids equals its formula and differences", "[centroid_loss]") {
  const auto groups = GENERATE(2, 4);
  const auto rows = GENERATE(1, 7);
  const Tensor centroids = random_tensor(Dtype::f64, {heads * clusters, dim}, 2), classes = some_classes(groups, rows);
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {rows, (groups + 1) * dim}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    const ops::Loss loss = ops::centroid_loss(ctx, in[0], centroids.converted(ctx.dtype), clusters, classes, 0.7);
    CHECK(loss.count == rows);
    return loss.sum;
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    const Matrix mu(centroids);
    Matrix sum(1, 1);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t g = 0; g < groups; ++g)
        for (int64_t d = 0; d < dim; ++d) {
          const int64_t of = g % heads * clusters + classes.data<int32_t>()[g * rows + r];
          sum(0, 0) += 0.7 / static_cast<double>(groups * dim) * std::pow(in[0](r, g * dim + d) - mu(of, d), 2);
        }
    return sum;
  };
  check_op(c);
}

TEST_CASE("the loss of centroids refuses classes of another shape", "[centroid_loss]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Tensor x = Tensor::zeros(Dtype::f64, {3, 10}), mu = Tensor::zeros(Dtype::f64, {6, 5});
  CHECK_THROWS_AS(ops::centroid_loss(ctx, {x}, mu, 3, some_classes(2, 4), 1), Error);
  CHECK_THROWS_AS(ops::centroid_loss(ctx, {x}, mu, 3, some_classes(4, 3), 1), Error);
  CHECK_THROWS_AS(ops::centroid_loss(ctx, {x}, mu, 4, some_classes(2, 3), 1), Error);
}
