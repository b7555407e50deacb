// SPDX-License-Identifier: Apache-2.0
// K-means on the reference device.
#include "framework/kernels/centroids.h"

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {
namespace {

// visit(row, group, first column of the point, its centroid) for all points.
template <class T, class Visit>
void for_each_point(const ClassedPoints<T>& points, Visit visit) {
  for (int64_t r = 0; r < points.x.rows; ++r)
    for (int64_t g = 0; g < points.groups(); ++g) visit(r, g, g * points.head_dim, points.centroid(g, r));
}

}  // namespace

template <class T>
void LargestScores<T>::reference(const Execution&, View<const T> scores, int clusters, View<int32_t> best) {
  for (int64_t g = 0; g < best.rows; ++g)
    for (int64_t r = 0; r < best.columns; ++r) {
      int32_t of = 0;
      for (int32_t m = 1; m < clusters; ++m)
        if (scores.row(g * clusters + m)[r] > scores.row(g * clusters + of)[r]) of = m;
      best.row(g)[r] = of;
    }
}

template <class T>
void CentroidSums<T>::reference(const Execution&, const ClassedPoints<T>& points, double* members, double* sums) {
  for_each_point(points, [&](int64_t r, int64_t, int64_t column, int64_t centroid) {
    members[centroid] += 1;
    for (int64_t d = 0; d < points.head_dim; ++d) sums[centroid * points.head_dim + d] += static_cast<double>(points.x.row(r)[column + d]);
  });
}

template <class T>
void CentroidLossForward<T>::reference(const Execution&, const ClassedPoints<T>& points, View<const T> centroids, double factor, T* loss) {
  double sum = 0;
  for_each_point(points, [&](int64_t r, int64_t g, int64_t column, int64_t centroid) {
    if (g == 0) sum = 0;
    for (int64_t d = 0; d < points.head_dim; ++d) {
      const double away = static_cast<double>(points.x.row(r)[column + d]) - centroids.row(centroid)[d];
      sum += away * away;
    }
    if (g + 1 == points.groups()) loss[r] = static_cast<T>(factor * sum);
  });
}

template <class T>
void CentroidLossBackward<T>::reference(const Execution&, const ClassedPoints<T>& points, View<const T> centroids, double factor,
                                        View<T> dx) {
  for_each_point(points, [&](int64_t r, int64_t, int64_t column, int64_t centroid) {
    for (int64_t d = 0; d < points.head_dim; ++d)
      reference::store(dx.row(r)[column + d], factor * (static_cast<double>(points.x.row(r)[column + d]) - centroids.row(centroid)[d]),
                       Write::add);
  });
}

template decltype(LargestScores<float>::reference) LargestScores<float>::reference;
template decltype(LargestScores<double>::reference) LargestScores<double>::reference;
template decltype(CentroidSums<float>::reference) CentroidSums<float>::reference;
template decltype(CentroidSums<double>::reference) CentroidSums<double>::reference;
template decltype(CentroidLossForward<float>::reference) CentroidLossForward<float>::reference;
template decltype(CentroidLossForward<double>::reference) CentroidLossForward<double>::reference;
template decltype(CentroidLossBackward<float>::reference) CentroidLossBackward<float>::reference;
template decltype(CentroidLossBackward<double>::reference) CentroidLossBackward<double>::reference;

}  // namespace tapeformer::kernels
