// SPDX-License-Identifier: Apache-2.0
// Online k-means over the queries and keys of heads (Roy, Saffar, Vaswani, Grangier 2020, 2003.05997): centroids that follow exponential
// averages of their members, and the loss that draws members to their centroid. Centroids move after an update, never in a forward pass.
#pragma once
#include "framework/kernels/head_norm.h"
#include "models/attention/variant.h"

namespace tapeformer::models {

struct KMeansSettings {
  int clusters = 16;
  double decay = 0.99, commitment = 1e-4, epsilon = 1e-5;
  bool update = true;
  void read(config::Section& section);
  void check(config::Section& section, const Choice&) const;
};

class KMeans {
 public:
  // `norm`, of one head, makes points of queries and keys; centroids start as points of Gaussian rows.
  KMeans(const nn::Builder&, const HeadSettings&, const KMeansSettings&, const kernels::HeadNormCall& norm);
  void visit(nn::Visitor&);

  // Of query, key, value side by side [T, 3 * heads * D]: the points of queries and keys, and the values as they are.
  Variable points(Context&, const Variable& projected) const;
  // <point, centroid>: row (s * heads + h) * clusters + m of [2 * heads * clusters, T] has those of head h's queries (s = 0) or keys (1).
  Tensor scores(Context&, const Tensor& points, const Packing&) const;
  // The centroid with the largest score, the first of equals: int32 [2 * heads, T].
  Tensor classes(const Context&, const Tensor& scores) const;
  // In training: remembers the members for after_update, and returns the loss: commitment times the mean of (x - centroid)^2. Where the
  // points are read besides, the loss is best made first: its gradient is then added to theirs.
  std::optional<ops::Loss> learn(Context&, const Variable& points, const Tensor& classes);
  void after_update(const Context&);

  bool has_loss() const { return settings_.commitment > 0; }
  // FLOPs of the scores of n rows of one head.
  double flops(double n) const { return 4 * n * settings_.clusters * head_dim_; }

 private:
  size_t index(int head, int cluster) const { return static_cast<size_t>(head * settings_.clusters + cluster); }
  void gather(const Context&, const Tensor& points, const Tensor& classes);

  KMeansSettings settings_;
  kernels::HeadNormCall norm_;
  int heads_, head_dim_;
  nn::Buffer centroids_, counts_, sums_;  // [heads * clusters, D], [heads * clusters], [heads * clusters, D]
  uint32_t step_ = 0;                     // of the update that the members below belong to; 0: none
  std::vector<double> members_, totals_;  // [heads * clusters], [heads * clusters * D]
};

}  // namespace tapeformer::models
