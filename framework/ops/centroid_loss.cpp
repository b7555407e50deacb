// SPDX-License-Identifier: Apache-2.0
// The loss that draws points to their centroids: one pass forward, one backward.
#include "framework/ops/centroid_loss.h"

#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/in_blocks.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

constexpr int64_t block = 512;  // rows of a task

struct Points {
  Tensor x, centroids, classes;
  int clusters;
  int64_t groups() const { return classes.shape()[0]; }
  int64_t head_dim() const { return centroids.shape()[1]; }

  // visit(row, first column, centroid) for each point of the rows.
  template <class T, class Visit>
  void for_each(int64_t first, int64_t end, Visit visit) const {
    const View<const T> all = centroids.matrix<const T>();
    const View<const int32_t> of = classes.matrix<const int32_t>();
    const int64_t heads = all.rows / clusters;
    for (int64_t r = first; r < end; ++r)
      for (int64_t g = 0; g < of.rows; ++g) visit(r, g * all.columns, all.row(g % heads * clusters + of.row(g)[r]));
  }
};

}  // namespace

Loss centroid_loss(Context& ctx, const Variable& x, const Tensor& centroids, int clusters, const Tensor& classes, double weight) {
  check_matrix(ctx, "centroid_loss", "x", x.value);
  check_matrix(ctx, "centroid_loss", "centroids", centroids);
  const Points points{x.value, centroids, classes, clusters};
  const int64_t rows = x.value.shape()[0], d = points.head_dim();
  require(clusters >= 1 && centroids.shape()[0] % clusters == 0, "centroid_loss: {} centroids in clusters of {}", centroids.shape()[0],
          clusters);
  check_tensor("centroid_loss", "classes", classes, Dtype::i32, {points.groups(), rows});
  require(points.groups() * d <= x.value.shape()[1], "centroid_loss: {} groups of {} columns in x of {}", points.groups(), d,
          x.value.shape()[1]);
  const double share = weight / static_cast<double>(points.groups() * d);
  Loss loss{{Tensor(ctx.dtype, {1})}, static_cast<double>(rows), Tensor(ctx.dtype, {rows})};
  const ProfileScope profile(ctx, "centroid_loss", [&] { return pass_work(x.value, {3, 1}, {3, 3}); });
  dispatch(ctx.dtype, [&]<class T>(T) {
    in_blocks(ctx.on, rows, block, [&](int64_t first, int64_t end) {
      T* sums = loss.per_row.data<T>();
      std::fill(sums + first, sums + end, T{0});
      points.for_each<T>(first, end, [&](int64_t r, int64_t column, const T* centroid) {
        const T* point = points.x.matrix<const T>().row(r) + column;
        T sum = 0;
        for (int64_t c = 0; c < d; ++c) sum += (point[c] - centroid[c]) * (point[c] - centroid[c]);
        sums[r] += static_cast<T>(share) * sum;
      });
    });
    double sum = 0;
    for (const T v : loss.per_row.span<T>()) sum += static_cast<double>(v);
    *loss.sum.value.data<T>() = static_cast<T>(sum);
  });
  // dx = 2 weight (x - centroid) / (groups D).
  if (ctx.records(x))
    loss.sum.node = ctx.tape->record("centroid_loss", [node = x.node, points, share](Tape& tape, const Tensor& gradient) {
      const Tensor dx = cleared_target(tape, node, gradient.dtype(), points.x.shape());
      dispatch(gradient.dtype(), [&]<class T>(T) {
        const T factor = static_cast<T>(2 * share * static_cast<double>(*gradient.data<T>()));
        in_blocks(tape.execution(), points.x.shape()[0], block, [&](int64_t first, int64_t end) {
          points.for_each<T>(first, end, [&](int64_t r, int64_t column, const T* centroid) {
            const T* point = points.x.matrix<const T>().row(r) + column;
            T* to = dx.matrix<T>().row(r) + column;
            for (int64_t c = 0; c < points.head_dim(); ++c) to[c] += factor * (point[c] - centroid[c]);
          });
        });
      });
    });
  return loss;
}

}  // namespace tapeformer::ops
