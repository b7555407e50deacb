// SPDX-License-Identifier: Apache-2.0
// K-means on the cpu device.
#include "framework/kernels/centroids.h"

#include <algorithm>

#include "framework/core/parallel.h"
#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/lanes.h"

namespace tapeformer::kernels {
namespace {

// Takes the scores of row m where they are larger. With masks: of two selections the compiler makes a branch.
void take_larger(int64_t n, const float* row, int32_t m, float* __restrict largest, int32_t* __restrict of) {
  for (int64_t c = 0; c < n; ++c) {
    const float x = row[c], y = largest[c];
    const int32_t more = -static_cast<int32_t>(x > y);
    of[c] = (m & more) | (of[c] & ~more);
    largest[c] = x > y ? x : y;
  }
}

}  // namespace

// A task keeps the largest scores so far of some columns of a group in the first-level cache.
template <>
void LargestScores<float>::cpu(const Execution& on, View<const float> scores, int clusters, View<int32_t> best) {
  constexpr int64_t most = 2048;
  const int64_t blocks = (best.columns + most - 1) / most;
  on.threads->run(best.rows * blocks, [&](int64_t task) {
    const int64_t g = task / blocks, first = task % blocks * most, n = std::min(most, best.columns - first);
    float largest[most];
    int32_t of[most];
    std::copy_n(scores.row(g * clusters) + first, n, largest);
    std::fill_n(of, n, 0);
    for (int32_t m = 1; m < clusters; ++m) take_larger(n, scores.row(g * clusters + m) + first, m, largest, of);
    std::copy_n(of, n, best.row(g) + first);
  });
}

// A task owns some columns of one head's sums and takes all rows in their order, so that cutting a batch into micro-batches changes
// nothing.
template <>
void CentroidSums<float>::cpu(const Execution& on, const ClassedPoints<float>& points, double* members, double* sums) {
  constexpr int64_t slice = 16;
  const int64_t d = points.head_dim, slices = (d + slice - 1) / slice;
  on.threads->run(points.heads * slices, [&](int64_t task) {
    const int64_t h = task / slices, first = task % slices * slice, n = std::min(slice, d - first);
    for (int64_t r = 0; r < points.x.rows; ++r)
      for (int64_t g = h; g < points.groups(); g += points.heads) {
        const int64_t centroid = points.centroid(g, r);
        if (first == 0) members[centroid] += 1;
        const float* x = points.x.row(r) + g * d + first;
        double* sum = sums + centroid * d + first;
        if (n == slice)  // a count that the compiler knows, so that it takes vectors
          for (int64_t c = 0; c < slice; ++c) sum[c] += static_cast<double>(x[c]);
        else
          for (int64_t c = 0; c < n; ++c) sum[c] += static_cast<double>(x[c]);
      }
  });
}

template <>
void CentroidLossForward<float>::cpu(const Execution& on, const ClassedPoints<float>& points, View<const float> centroids, double factor,
                                     float* loss) {
  const int64_t d = points.head_dim;
  parallel_blocks(*on.threads, points.x.rows, cpu::pass_rows(points.groups() * d), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      float sum = 0;
      for (int64_t g = 0; g < points.groups(); ++g) {
        const float *x = points.x.row(r) + g * d, *mu = centroids.row(points.centroid(g, r));
        sum += cpu::sum_of(d, [&](int64_t c) { return (x[c] - mu[c]) * (x[c] - mu[c]); });
      }
      loss[r] = static_cast<float>(factor) * sum;
    }
  });
}

template <>
void CentroidLossBackward<float>::cpu(const Execution& on, const ClassedPoints<float>& points, View<const float> centroids, double factor,
                                      View<float> dx) {
  const int64_t d = points.head_dim;
  const auto by = static_cast<float>(factor);
  parallel_blocks(*on.threads, points.x.rows, cpu::pass_rows(points.groups() * d), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r)
      for (int64_t g = 0; g < points.groups(); ++g) {
        const float *x = points.x.row(r) + g * d, *mu = centroids.row(points.centroid(g, r));
        float* to = dx.row(r) + g * d;
        for (int64_t c = 0; c < d; ++c) to[c] += by * (x[c] - mu[c]);
      }
  });
}

}  // namespace tapeformer::kernels
