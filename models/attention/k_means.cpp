// SPDX-License-Identifier: Apache-2.0
#include "models/attention/k_means.h"

#include "framework/ops/batched_product.h"
#include "framework/ops/centroids.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/head_norm.h"
#include "models/attention/index_lists.h"

namespace tapeformer::models {

void KMeansSettings::read(config::Section& section) {
  section.field("clusters", clusters, config::between(1, 1 << 16), "centroids of each head");
  section.field("decay", decay, config::from_below(0, 1), "of the averages that centroids follow");
  section.field("commitment", commitment, config::at_least(0),
                "weight of the loss that draws queries and keys to their centroids; 0: none");
  section.field("epsilon", epsilon, config::above(0), "added to the counts of members, so that an empty cluster divides by no zero");
  section.field("update", update, "whether centroids follow their members; else they stay as drawn");
}

void KMeansSettings::check(config::Section& section, const Choice&) const {
  if (update) return;
  for (const char* key : {"decay", "epsilon"}) section.unused(key, section.path("update"));
}

KMeans::KMeans(const nn::Builder& build, const HeadSettings& s, const KMeansSettings& own, const kernels::HeadNormCall& norm)
    : settings_(own), norm_(norm), heads_(s.heads), head_dim_(s.head_dim) {
  const int64_t rows = int64_t{heads_} * own.clusters;
  const Tensor drawn(build.dtype, {rows, head_dim_});
  for (int h = 0; h < heads_; ++h)
    nn::fill_gaussian({random_key(build.seed, "centroids", s.layer_name, s.first_head + h), no_sample, 0},
                      drawn.rows(int64_t{h} * own.clusters, own.clusters));
  Context context{.dtype = build.dtype};
  norm_.heads = 1;
  centroids_ = {s.name + ".centroids", ops::head_norm(context, {drawn, no_node}, norm_).value};
  counts_ = {s.name + ".centroid_counts", build.constant("", {rows}, 1).value};
  sums_ = {s.name + ".centroid_sums", centroids_.value.clone()};
  norm_.heads = 2 * heads_;
  norm_.kept = heads_;
}

void KMeans::visit(nn::Visitor& visitor) {
  for (nn::Buffer* b : {&centroids_, &counts_, &sums_}) visitor.buffer(*b);
}

Variable KMeans::points(Context& context, const Variable& projected) const { return ops::head_norm(context, projected, norm_); }

Tensor KMeans::scores(Context& context, const Tensor& points, const Packing& packing) const {
  const int64_t m = settings_.clusters, d = head_dim_;
  std::vector<ProductGroup> groups;
  for (int b = 0; b < packing.sequences(); ++b)
    for (int64_t g = 0; g < 2 * heads_; ++g) {
      const int64_t first = packing.offsets()[static_cast<size_t>(b)], n = packing.length(b);
      if (n > 0) groups.push_back({{g % heads_ * m, m, 0, d}, {first, n, g * d, d}, {g * m, m, first, n}});
    }
  return ops::batched_product(context, Variable{centroids_.value, no_node}, Variable{points, no_node}, {2 * heads_ * m, packing.rows()},
                              std::move(groups), {.transpose_b = true})
      .value;
}

Tensor KMeans::classes(const Context& context, const Tensor& scores) const {
  return ops::largest_scores(context, scores, settings_.clusters);
}

// Rows are added in their order, so that cutting a batch into micro-batches changes nothing.
void KMeans::gather(const Context& context, const Tensor& points, const Tensor& classes) {
  if (step_ != context.step) {
    step_ = context.step;
    members_.assign(index(heads_, 0), 0);
    totals_.assign(index(heads_, 0) * static_cast<size_t>(head_dim_), 0);
  }
  ops::add_members(context, points, classes, settings_.clusters, members_, totals_);
}

std::optional<ops::Loss> KMeans::learn(Context& context, const Variable& points, const Tensor& classes) {
  if (context.mode != Mode::train || points.value.shape()[0] == 0) return {};
  if (settings_.update) gather(context, points.value, classes);
  if (!has_loss()) return {};
  return ops::centroid_loss(context, points, centroids_.value, settings_.clusters, classes, settings_.commitment);
}

// N <- decay N + (1 - decay) members, S likewise, centroid = S / N', where N' = (N + epsilon) / (sum N + clusters epsilon) sum N.
void KMeans::after_update(const Context& context) {
  if (step_ == 0 || step_ != context.step) return;
  step_ = 0;
  if (centroids_.frozen) return;
  const double keep = settings_.decay, take = 1 - settings_.decay;
  ops::dispatch(counts_.value.dtype(), [&]<class T>(T) {
    T *counts = counts_.value.data<T>(), *sums = sums_.value.data<T>(), *centroids = centroids_.value.data<T>();
    for (size_t i = 0; i < members_.size(); ++i) counts[i] = static_cast<T>(keep * counts[i] + take * members_[i]);
    for (size_t i = 0; i < totals_.size(); ++i) sums[i] = static_cast<T>(keep * sums[i] + take * totals_[i]);
    for (int h = 0; h < heads_; ++h) {
      double all = 0;
      for (int m = 0; m < settings_.clusters; ++m) all += static_cast<double>(counts[index(h, m)]);
      for (int m = 0; m < settings_.clusters; ++m) {
        const double count = (counts[index(h, m)] + settings_.epsilon) / (all + settings_.clusters * settings_.epsilon) * all;
        const auto first = index(h, m) * static_cast<size_t>(head_dim_);
        for (size_t i = first; i < first + static_cast<size_t>(head_dim_); ++i) centroids[i] = static_cast<T>(sums[i] / count);
      }
    }
  });
}

}  // namespace tapeformer::models
