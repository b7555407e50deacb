// SPDX-License-Identifier: Apache-2.0
#include "models/attention/k_means.h"

#include <algorithm>

#include "framework/ops/batched_product.h"
#include "framework/ops/centroid_loss.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/head_norm.h"
#include "models/attention/index_lists.h"

namespace tapeformer::models {
namespace {

// best[r] = the row m of scores [M, T] with the largest score of column r.
template <class T>
void largest_rows(const View<const T>& scores, int64_t first, int64_t rows, int32_t* best) {
  std::vector<T> largest(scores.row(first), scores.row(first) + scores.columns);
  std::fill_n(best, scores.columns, 0);
  for (int64_t m = 1; m < rows; ++m) {
    const T* row = scores.row(first + m);
    for (int64_t r = 0; r < scores.columns; ++r) {
      const bool more = row[r] > largest[static_cast<size_t>(r)];
      largest[static_cast<size_t>(r)] = more ? row[r] : largest[static_cast<size_t>(r)];
      best[r] = more ? static_cast<int32_t>(m) : best[r];
    }
  }
}

}  // namespace

void KMeansSettings::read(config::Section& section) {
  section.field("clusters", clusters, config::between(1, 1 << 16), "centroids of each head");
  section.field("decay", decay, config::from_below(0, 1), "of the averages that centroids follow");
  section.field("commitment", commitment, config::at_least(0),
                "weight of the loss that draws queries and keys to their centroids; 0: none");
  section.field("epsilon", epsilon, config::above(0), "added to the counts of members, so that an empty cluster divides by no zero");
  section.field("update", update, "whether centroids follow their members; else they stay as drawn");
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

Tensor KMeans::scores(const Context& context, const Tensor& points, const Packing& packing) const {
  const int64_t m = settings_.clusters, d = head_dim_;
  std::vector<ProductGroup> groups;
  for (int b = 0; b < packing.sequences(); ++b)
    for (int64_t g = 0; g < 2 * heads_; ++g) {
      const int64_t first = packing.offsets()[static_cast<size_t>(b)], n = packing.length(b);
      if (n > 0) groups.push_back({{g % heads_ * m, m, 0, d}, {first, n, g * d, d}, {g * m, m, first, n}});
    }
  Context quiet = context;
  quiet.tape = nullptr;
  return ops::batched_product(quiet, Variable{centroids_.value, no_node}, Variable{points, no_node}, {2 * heads_ * m, packing.rows()},
                              std::move(groups), {.transpose_b = true})
      .value;
}

Tensor KMeans::classes(const Context& context, const Tensor& scores) const {
  Tensor out(Dtype::i32, {2 * heads_, scores.shape()[1]});
  const auto task = [&](int64_t g) {
    ops::dispatch(scores.dtype(), [&]<class T>(T) {
      largest_rows<T>(scores.matrix<const T>(), g * settings_.clusters, settings_.clusters, out.matrix<int32_t>().row(g));
    });
  };
  if (scores.shape()[1] == 0) return out;
  if (context.on.device == Device::reference)
    for (int64_t g = 0; g < 2 * heads_; ++g) task(g);
  else context.on.threads->run(2 * heads_, task);
  return out;
}

// Rows are added in their order, so that cutting a batch into micro-batches changes nothing.
void KMeans::gather(const Context& context, const Tensor& points, const Tensor& classes) {
  if (step_ != context.step) {
    step_ = context.step;
    members_.assign(index(heads_, 0), 0);
    totals_.assign(index(heads_, 0) * static_cast<size_t>(head_dim_), 0);
  }
  const auto task = [&](int64_t h) {
    ops::dispatch(points.dtype(), [&]<class T>(T) {
      const View<const T> x = points.matrix<const T>();
      for (int64_t r = 0; r < x.rows; ++r)
        for (const int64_t g : {h, heads_ + h}) {
          const size_t at = index(static_cast<int>(h), classes.matrix<int32_t>().row(g)[r]);
          members_[at] += 1;
          double* sum = totals_.data() + at * static_cast<size_t>(head_dim_);
          for (int d = 0; d < head_dim_; ++d) sum[d] += static_cast<double>(x.row(r)[g * head_dim_ + d]);
        }
    });
  };
  if (context.on.device == Device::reference)
    for (int64_t h = 0; h < heads_; ++h) task(h);
  else context.on.threads->run(heads_, task);
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
