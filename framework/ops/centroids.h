// SPDX-License-Identifier: Apache-2.0
// K-means over the points of heads: their classes, what centroids gain, and the loss that draws points to their centroids.
#pragma once
#include <span>

#include "framework/ops/loss.h"

namespace tapeformer::ops {

// For each group g of `clusters` rows of scores [G * clusters, T] and each column, the row of the group with the largest score, the first
// of equals: int32 [G, T].
Tensor largest_scores(const Context&, const Tensor& scores, int clusters);

// Columns g * D ... of x [T, at least G * D] are points of group g, of class classes[g][row] (int32 [G, T]); the centroids of group g are
// the rows (g modulo H) * clusters ... of all H * clusters. members[H * clusters] += the points of each centroid, sums[H * clusters * D] +=
// their sum, rows in their order.
void add_members(const Context&, const Tensor& x, const Tensor& classes, int clusters, std::span<double> members, std::span<double> sums);
// With centroids [H * clusters, D], the sum over rows of weight times the mean over the G * D columns of (x - centroid)^2, and T as its
// count. Centroids get no gradient.
Loss centroid_loss(Context&, const Variable& x, const Tensor& centroids, int clusters, const Tensor& classes, double weight);

}  // namespace tapeformer::ops
