// SPDX-License-Identifier: Apache-2.0
// How far points are from the centroids of their classes.
#pragma once
#include "framework/ops/loss.h"

namespace tapeformer::ops {

// Columns g * D ... of x [T, at least groups * D] are points of group g, of class classes[g][row] (int32 [groups, T]); the centroids of
// group g are the rows (g modulo H) * M ... of `centroids` [H * M, D]. The sum over rows of weight times the mean over the groups * D
// columns of (x - centroid)^2, and T as its count. Centroids get no gradient.
Loss centroid_loss(Context&, const Variable& x, const Tensor& centroids, int clusters, const Tensor& classes, double weight);

}  // namespace tapeformer::ops
