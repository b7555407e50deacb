// SPDX-License-Identifier: Apache-2.0
// Online k-means of heads: points and classes by their definition, centroids against averages written out, the loss, and who may move what.
#include "models/attention/k_means.h"

#include <cmath>

#include "framework/core/parallel.h"
#include "tests/support/catch.h"
#include "tests/support/devices.h"
#include "tests/support/matrix.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

constexpr int heads = 2, dim = 4, clusters = 3;
constexpr kernels::HeadNormCall layer_norm{.centred = true, .epsilon = 1e-6};

models::HeadSettings head_settings() {
  return {.layer = {.dim = heads * dim, .heads = heads}, .layer_name = "layer", .name = "layer", .heads = heads, .head_dim = dim};
}
models::KMeans make(models::KMeansSettings s, Dtype dtype = Dtype::f64, uint64_t seed = 5) {
  s.clusters = clusters;
  return {{.seed = seed, .dtype = dtype}, head_settings(), s, layer_norm};
}
Matrix buffer(models::KMeans& k, const std::string& name) {
  nn::ModelState state;
  k.visit(state);
  for (const nn::Buffer* b : state.buffers)
    if (b->name == "layer." + name) return Matrix(b->value);
  FAIL("no buffer " << name);
  return {};
}

// LayerNorm of each head's row without parameters.
Matrix normal(const Matrix& x) {
  Matrix y(x.rows, x.columns);
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.columns; c += dim) {
      double mean = 0, square = 0;
      for (int64_t e = c; e < c + dim; ++e) mean += x(r, e) / dim;
      for (int64_t e = c; e < c + dim; ++e) square += (x(r, e) - mean) * (x(r, e) - mean) / dim;
      for (int64_t e = c; e < c + dim; ++e) y(r, e) = (x(r, e) - mean) / std::sqrt(square + 1e-6);
    }
  return y;
}

Matrix first_columns(const Matrix& x, int64_t count) {
  Matrix y(x.rows, count);
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < count; ++c) y(r, c) = x(r, c);
  return y;
}

int nearest(const Matrix& points, const Matrix& centroids, int64_t row, int side, int head) {
  int best = -1;
  double most = 0;
  for (int m = 0; m < clusters; ++m) {
    double dot = 0;
    for (int d = 0; d < dim; ++d) dot += points(row, (side * heads + head) * dim + d) * centroids(head * clusters + m, d);
    if (best < 0 || dot > most) {
      best = m;
      most = dot;
    }
  }
  return best;
}

struct Seen {
  Matrix points;
  Tensor classes;
  std::optional<ops::Loss> loss;
};

Seen forward(models::KMeans& k, Context context, const Tensor& projected, const Packing& packing) {
  const Variable points = k.points(context, {projected, no_node});
  Seen seen{Matrix(points.value), k.classes(context, k.scores(context, points.value, packing))};
  seen.loss = k.learn(context, points, seen.classes);
  return seen;
}

Context training(uint32_t step) { return {.mode = Mode::train, .step = step, .dtype = Dtype::f64}; }

}  // namespace

TEST_CASE("points are normal rows and classes their nearest centroid", "[k_means]") {
  const Packing packing({30, 0, 7}, {0, 1, 2});
  for (const TestDevice& device : test_devices()) {
    models::KMeans k = make({}, device.dtype);
    const Tensor x = random_tensor(device.dtype, {37, 3 * heads * dim}, 1);
    const Seen seen = forward(k, {.on = device.on, .dtype = device.dtype}, x, packing);
    const Matrix expected = normal(first_columns(Matrix(x), 2 * heads * dim));
    CHECK(relative_error(first_columns(seen.points, 2 * heads * dim), expected) <= device.tolerance);
    for (int64_t r = 0; r < 37; ++r)
      for (int g = 0; g < 2 * heads; ++g)
        CHECK(seen.classes.data<int32_t>()[g * 37 + r] == nearest(expected, buffer(k, "centroids"), r, g / heads, g % heads));
  }
}

TEST_CASE("equal scores go to the first centroid", "[k_means]") {
  models::KMeans k = make({});
  const Seen seen = forward(k, {.dtype = Dtype::f64}, Tensor::zeros(Dtype::f64, {2, 3 * heads * dim}), Packing({2}, {0}));
  for (const int32_t c : seen.classes.span<int32_t>()) CHECK(c == 0);
}

TEST_CASE("centroids follow the averages of all members of an update, written out", "[k_means]") {
  const models::KMeansSettings s{.decay = 0.7, .epsilon = 1e-3};
  models::KMeans k = make(s);
  Matrix mu = buffer(k, "centroids"), sums = mu;
  CHECK(relative_error(mu, normal(mu)) < 1e-5);  // they start as points
  std::vector<double> counts(heads * clusters, 1);
  for (uint32_t step = 1; step <= 3; ++step) {
    const Matrix held = buffer(k, "centroids");
    const Tensor a = random_tensor(Dtype::f64, {9, 3 * heads * dim}, step), b = random_tensor(Dtype::f64, {4, 3 * heads * dim}, 10 + step);
    const Seen first = forward(k, training(step), a, Packing({9}, {0})), second = forward(k, training(step), b, Packing({4}, {0}));
    CHECK(relative_error(buffer(k, "centroids"), held) == 0);  // not before the update
    Context done = training(step);
    k.after_update(done);
    std::vector<double> members(heads * clusters);
    Matrix totals(heads * clusters, dim);
    for (const Seen* seen : {&first, &second})
      for (int64_t r = 0; r < seen->points.rows; ++r)
        for (int side = 0; side < 2; ++side)
          for (int h = 0; h < heads; ++h) {
            const int at = h * clusters + nearest(seen->points, mu, r, side, h);
            members[static_cast<size_t>(at)] += 1;
            for (int d = 0; d < dim; ++d) totals(at, d) += seen->points(r, (side * heads + h) * dim + d);
          }
    Matrix next = mu;
    for (int h = 0; h < heads; ++h) {
      double all = 0;
      for (int m = 0; m < clusters; ++m) {
        const auto at = static_cast<size_t>(h * clusters + m);
        all += counts[at] = 0.7 * counts[at] + 0.3 * members[at];
      }
      for (int m = 0; m < clusters; ++m)
        for (int d = 0; d < dim; ++d) {
          const int at = h * clusters + m;
          sums(at, d) = 0.7 * sums(at, d) + 0.3 * totals(at, d);
          next(at, d) = sums(at, d) / ((counts[static_cast<size_t>(at)] + 1e-3) / (all + clusters * 1e-3) * all);
        }
    }
    mu = next;
    CHECK(relative_error(buffer(k, "centroids"), mu) < 1e-12);
  }
}

TEST_CASE("only an update that was seen moves centroids", "[k_means]") {
  const Tensor x = random_tensor(Dtype::f64, {9, 3 * heads * dim}, 1);
  const Packing packing({9}, {0});
  models::KMeans k = make({});
  const Matrix start = buffer(k, "centroids");
  Context step1 = training(1), step2 = training(2);
  k.after_update(step1);
  CHECK(relative_error(buffer(k, "centroids"), start) == 0);
  for (const Mode mode : {Mode::evaluate, Mode::calibrate}) {
    Context context{.mode = mode, .step = 1, .dtype = Dtype::f64};
    CHECK_FALSE(forward(k, context, x, packing).loss);
    k.after_update(step1);
    CHECK(relative_error(buffer(k, "centroids"), start) == 0);
  }
  forward(k, step1, x, packing);  // an update that was given up
  k.after_update(step2);
  CHECK(relative_error(buffer(k, "centroids"), start) == 0);
  forward(k, step2, x, packing);
  k.after_update(step2);
  const Matrix moved = buffer(k, "centroids");
  CHECK(relative_error(moved, start) > 1e-6);
  k.after_update(step2);  // once only
  CHECK(relative_error(buffer(k, "centroids"), moved) == 0);
  models::KMeans fixed = make({.update = false});
  forward(fixed, step1, x, packing);
  fixed.after_update(step1);
  CHECK(relative_error(buffer(fixed, "centroids"), start) == 0);
  CHECK(relative_error(buffer(fixed, "centroid_counts"), buffer(k, "centroid_counts")) > 0.01);
}

TEST_CASE("the loss is the weighted mean square distance to the centroids", "[k_means]") {
  const Tensor x = random_tensor(Dtype::f64, {9, 3 * heads * dim}, 1);
  models::KMeans k = make({.commitment = 0.5});
  const Seen seen = forward(k, training(1), x, Packing({9}, {0}));
  const Matrix mu = buffer(k, "centroids");
  double sum = 0;
  for (int64_t r = 0; r < 9; ++r)
    for (int g = 0; g < 2 * heads; ++g)
      for (int d = 0; d < dim; ++d)
        sum += std::pow(seen.points(r, g * dim + d) - mu(g % heads * clusters + nearest(seen.points, mu, r, g / heads, g % heads), d), 2);
  REQUIRE(seen.loss);
  const ops::Loss& loss = *seen.loss;
  CHECK(loss.count == 9);
  CHECK(std::abs(*loss.sum.value.data<double>() / loss.count - 0.5 * sum / (9 * 2 * heads * dim)) < 1e-12);
  models::KMeans none = make({.commitment = 0});
  CHECK_FALSE(none.has_loss());
  CHECK_FALSE(forward(none, training(1), x, Packing({9}, {0})).loss);
}

TEST_CASE("first centroids are the seed's", "[k_means]") {
  models::KMeans a = make({}), b = make({}, Dtype::f64, 6);
  CHECK(relative_error(buffer(b, "centroids"), buffer(a, "centroids")) > 0.1);
  const Draw draw{random_key(5, "centroids", "layer", 1), no_sample, 0};
  Matrix drawn(1, dim);
  for (uint32_t d = 0; d < dim; ++d) drawn(0, d) = draw.gaussian(2, d);
  const Matrix expected = normal(drawn), mu = buffer(a, "centroids");
  for (int d = 0; d < dim; ++d) CHECK(std::abs(mu(clusters + 2, d) - expected(0, d)) < 1e-12);
}
