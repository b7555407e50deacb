// SPDX-License-Identifier: Apache-2.0
// K-means over heads: checks, and the loss forward and backward.
#include "framework/ops/centroids.h"

#include "framework/kernels/centroids.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

// The points of x by their classes; `centroids` are H * clusters of D columns.
struct Points {
  Tensor x, classes;
  int heads, clusters, head_dim;

  Points(const Context& ctx, const char* op, const Tensor& points, const Tensor& of, int clusters_a_head, int64_t centroids, int64_t d)
      : x(points), classes(of), heads(0), clusters(clusters_a_head), head_dim(static_cast<int>(d)) {
    check_matrix(ctx, op, "x", x);
    require(clusters >= 1 && centroids % clusters == 0, "{}: {} centroids in clusters of {}", op, centroids, clusters);
    heads = static_cast<int>(centroids / clusters);
    check_tensor(op, "classes", classes, Dtype::i32, {groups(), x.shape()[0]});
    require(groups() * d <= x.shape()[1], "{}: {} groups of {} columns in x of {}", op, groups(), d, x.shape()[1]);
  }
  int64_t groups() const { return classes.shape()[0]; }
  template <class T>
  kernels::ClassedPoints<T> classed() const {
    return {x.matrix<const T>(), classes.matrix<const int32_t>(), heads, clusters, head_dim};
  }
};

}  // namespace

Tensor largest_scores(const Context& ctx, const Tensor& scores, int clusters) {
  check_matrix(ctx, "largest_scores", "scores", scores);
  require(clusters >= 1 && scores.shape()[0] % clusters == 0, "largest_scores: {} rows in groups of {}", scores.shape()[0], clusters);
  const ProfileScope profile(ctx, "largest_scores", [&] { return pass_work(scores, {1, 1}, {0, 0}); });
  const Tensor best(Dtype::i32, {scores.shape()[0] / clusters, scores.shape()[1]});
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::LargestScores, T>(ctx.on, scores.matrix<const T>(), clusters, best.matrix<int32_t>());
  });
  return best;
}

void add_members(const Context& ctx, const Tensor& x, const Tensor& classes, int clusters, std::span<double> members,
                 std::span<double> sums) {
  require(!members.empty() && sums.size() % members.size() == 0, "add_members: {} sums for {} centroids", sums.size(), members.size());
  const Points points(ctx, "add_members", x, classes, clusters, static_cast<int64_t>(members.size()),
                      static_cast<int64_t>(sums.size() / members.size()));
  const ProfileScope profile(ctx, "add_members", [&] { return pass_work(x, {1, 1}, {0, 0}); });
  dispatch(ctx.dtype,
           [&]<class T>(T) { kernels::launch<kernels::CentroidSums, T>(ctx.on, points.classed<T>(), members.data(), sums.data()); });
}

Loss centroid_loss(Context& ctx, const Variable& x, const Tensor& centroids, int clusters, const Tensor& classes, double weight) {
  check_matrix(ctx, "centroid_loss", "centroids", centroids);
  const Points points(ctx, "centroid_loss", x.value, classes, clusters, centroids.shape()[0], centroids.shape()[1]);
  const int64_t rows = x.value.shape()[0];
  const double share = weight / static_cast<double>(points.groups() * points.head_dim);
  Loss loss{{Tensor(ctx.dtype, {1})}, static_cast<double>(rows), Tensor(ctx.dtype, {rows})};
  const ProfileScope profile(ctx, "centroid_loss", [&] { return pass_work(x.value, {3, 1}, {3, 3}); });
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::CentroidLossForward, T>(ctx.on, points.classed<T>(), centroids.matrix<const T>(), share,
                                                     loss.per_row.data<T>());
    double sum = 0;
    for (const T v : loss.per_row.span<T>()) sum += static_cast<double>(v);
    *loss.sum.value.data<T>() = static_cast<T>(sum);
  });
  // dx = 2 weight (x - centroid) / (groups D).
  if (ctx.records(x))
    loss.sum.node = ctx.tape->record("centroid_loss", [node = x.node, points, centroids, share](Tape& tape, const Tensor& gradient) {
      const Tensor dx = cleared_target(tape, node, gradient.dtype(), points.x.shape());
      dispatch(gradient.dtype(), [&]<class T>(T) {
        const double factor = 2 * share * static_cast<double>(*gradient.data<T>());
        kernels::launch<kernels::CentroidLossBackward, T>(tape.execution(), points.classed<T>(), centroids.matrix<const T>(), factor,
                                                          dx.matrix<T>());
      });
    });
  return loss;
}

}  // namespace tapeformer::ops
