// SPDX-License-Identifier: Apache-2.0
// Classes, sums of members and the distance to centroids against their formulas, for points that are the first columns of an array.
#include "framework/ops/centroids.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/core/error.h"
#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

constexpr int heads = 2, clusters = 3;

Tensor some_classes(int64_t groups, int64_t rows) {
  Tensor out(Dtype::i32, {groups, rows});
  for (int64_t i = 0; i < groups * rows; ++i) out.data<int32_t>()[i] = static_cast<int32_t>((i * 7 + i / 4) % clusters);
  return out;
}

}  // namespace

TEST_CASE("the loss of centroids equals its formula and differences", "[centroid_loss]") {
  const auto groups = GENERATE(2, 4);
  const auto rows = GENERATE(1, 7);
  const auto dim = GENERATE(5, 19);
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

TEST_CASE("the class of a point is its largest score, the first of equals", "[centroids]") {
  const int64_t groups = 3, rows = GENERATE(0, 1, 2050, 5000);
  Tensor scores = random_tensor(Dtype::f64, {groups * clusters, rows}, 3);
  for (int64_t g = 0; g < groups && rows > 10; ++g) {
    double* const of = scores.data<double>() + g * clusters * rows;
    of[5] = of[rows + 5] = of[2 * rows + 5] = 9;                  // all equal
    of[rows + 6] = of[2 * rows + 6] = 9;                          // the last two
    of[2 * rows + 7] = std::numeric_limits<double>::quiet_NaN();  // is above nothing
  }
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    const Context ctx = test_context(device, nullptr);
    const Tensor best = ops::largest_scores(ctx, scores.converted(device.dtype), clusters);
    CHECK(best.shape() == Shape{groups, rows});
    const Matrix all(scores.converted(device.dtype));
    int64_t wrong = 0;
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t r = 0; r < rows; ++r) {
        const int32_t of = best.data<int32_t>()[g * rows + r];
        wrong += std::isnan(all(g * clusters + of, r));
        for (int32_t m = 0; m < clusters; ++m) {
          const double score = all(g * clusters + m, r), chosen = all(g * clusters + of, r);
          wrong += m < of ? score >= chosen : score > chosen;
        }
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("centroids gain their members and their sum", "[centroids]") {
  const int64_t rows = 700, groups = 4;
  const auto dim = GENERATE(5, 16, 35);
  const Tensor x = random_tensor(Dtype::f64, {rows, (groups + 1) * dim}, 1), classes = some_classes(groups, rows);
  std::vector<double> expected_members(heads * clusters, 2), expected(size_t(heads * clusters * dim), 0.5);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t g = 0; g < groups; ++g) {
      const auto of = size_t(g % heads * clusters + classes.data<int32_t>()[g * rows + r]);
      expected_members[of] += 1;
      for (int d = 0; d < dim; ++d) expected[of * size_t(dim) + size_t(d)] += x.data<double>()[r * (groups + 1) * dim + g * dim + d];
    }
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    const Context ctx = test_context(device, nullptr);
    std::vector<double> members(heads * clusters, 2), sums(expected.size(), 0.5);
    ops::add_members(ctx, x.converted(device.dtype), classes, clusters, members, sums);
    CHECK(members == expected_members);
    double worst = 0;
    for (size_t i = 0; i < sums.size(); ++i) worst = std::max(worst, std::abs(sums[i] - expected[i]));
    CHECK(worst <= 1e-12);
  }
}

TEST_CASE("sums of members refuse centroids of another number", "[centroids]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Tensor x = Tensor::zeros(Dtype::f64, {3, 10});
  std::vector<double> members(6), sums(30);
  CHECK_THROWS_AS(ops::add_members(ctx, x, some_classes(2, 4), 3, members, sums), Error);
  CHECK_THROWS_AS(ops::add_members(ctx, x, some_classes(2, 3), 4, members, sums), Error);
  CHECK_THROWS_AS(ops::add_members(ctx, x, some_classes(2, 3), 3, members, std::span(sums).first(29)), Error);
  CHECK_THROWS_AS(ops::add_members(ctx, x, some_classes(2, 3), 3, {}, sums), Error);
  CHECK_THROWS_AS(ops::largest_scores(ctx, Tensor::zeros(Dtype::f64, {4, 2}), 3), Error);
}

TEST_CASE("the loss of centroids refuses classes of another shape", "[centroid_loss]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Tensor x = Tensor::zeros(Dtype::f64, {3, 10}), mu = Tensor::zeros(Dtype::f64, {6, 5});
  CHECK_THROWS_AS(ops::centroid_loss(ctx, {x}, mu, 3, some_classes(2, 4), 1), Error);
  CHECK_THROWS_AS(ops::centroid_loss(ctx, {x}, mu, 3, some_classes(4, 3), 1), Error);
  CHECK_THROWS_AS(ops::centroid_loss(ctx, {x}, mu, 4, some_classes(2, 3), 1), Error);
}
