// SPDX-License-Identifier: Apache-2.0
// Routing Transformer (Roy, Saffar, Vaswani, Grangier 2020, 2003.05997): each centroid takes the queries and the keys nearest to it,
// attends inside, and a row averages what its clusters give. Members are gathered cluster by cluster, so that each cluster is a block of
// tiles.
#include <cmath>

#include "framework/ops/attention.h"
#include "framework/ops/columns.h"
#include "framework/ops/dispatch.h"
#include "models/attention/index_lists.h"
#include "models/attention/k_means.h"
#include "models/attention/largest.h"

namespace tapeformer::models {
namespace {

struct Settings : KMeansSettings {
  int window = 0;  // 0: rows / clusters, rounded up
  bool cover = true;
  double logit_scale = 1;

  void read(config::Section& section) {
    KMeansSettings::read(section);
    section.number_or_word("window", window, "auto", 0, config::between(1, 1 << 24),
                           "queries and keys of a cluster; auto: a sequence's rows over the clusters");
    section.field("cover", cover, "whether a query that no cluster took joins its nearest; else it gets zeros");
    section.field("logit_scale", logit_scale, config::above(0), "factor of the scores beside 1 / sqrt(D)");
  }
};

class Routing : public Heads {
 public:
  Routing(const nn::Builder& build, const HeadSettings& s, const Settings& own)
      : Heads(s), own_(own), k_means_(build, s, own, {.centred = true, .epsilon = 1e-6}) {}

  HeadOutput forward(Context& context, HeadInput& input) override {
    const HeadSettings& s = settings();
    const Packing& packing = input.packing;
    const Variable points = k_means_.points(context, input.projected);
    const Tensor scores = k_means_.scores(context, points.value, packing);
    const Tensor classes = context.structure(s.name + ".classes", [&] { return k_means_.classes(context, scores); });
    const Tensor members = context.structure(s.name + ".members", [&] { return select(context, scores, classes, packing); });
    const Gathering way(*this, context, IndexLists(members), packing);

    const int64_t width = int64_t{s.heads} * s.head_dim;
    const Variable q = ops::sparse_rows(context, ops::columns(context, points, {{0, width}}), way.queries, s.heads);
    const Variable k = ops::sparse_rows(context, ops::columns(context, points, {{width, width}}), way.keys, s.heads);
    const Variable v = ops::sparse_rows(context, ops::columns(context, input.projected, {{2 * width, width}}), way.keys, s.heads);
    const Variable o =
        ops::cross_attention(context, q, k, v, packing.with_lengths(way.query_counts), packing.with_lengths(way.key_counts), way.plans,
                             {.heads = s.heads,
                              .scale = own_.logit_scale * scale(),
                              .dropout = s.layer.dropout,
                              .name = s.layer_name,
                              .first_head = s.first_head});
    HeadOutput out = ops::sparse_rows(context, o, way.means, s.heads);
    k_means_.learn(context, points, classes, out);
    return out;
  }
  bool has_auxiliary() const override { return k_means_.has_loss(); }
  void visit(nn::Visitor& visitor) override { k_means_.visit(visitor); }
  void after_update(Context& context) override { k_means_.after_update(context); }

  // Of the members that centroids take, and one cluster for a row at least.
  double pairs(int32_t n) const override {
    const double w = window(n);
    return std::min(1.0 * n * n, std::max(n * w, own_.clusters * w * w));
  }
  AttentionCost cost(const std::vector<int32_t>& lengths) const override {
    AttentionCost sum;
    const double heads = settings().heads, d = settings().head_dim;
    for (const int32_t n : lengths) {
      const double w = window(n), work = own_.clusters * w * w * d * heads;
      sum += {4 * work + k_means_.flops(n) * heads, 10 * work, 4.0 * heads * (own_.clusters * w * (3 + 4 * d) + 2 * n * d)};
    }
    return sum;
  }
  std::vector<double> dense_weights(const DenseInput&) const override;

 private:
  // How rows go to clusters and back, of all heads.
  struct Gathering {
    std::vector<ops::RowMapPointer> queries, keys, means;  // [heads]
    std::vector<int32_t> query_counts, key_counts;         // gathered rows of each sequence
    ops::AttentionPart plans;

    Gathering(const Routing& of, const Context& context, const IndexLists& members, const Packing& packing);
  };

  int32_t window(int32_t n) const { return std::min(n, own_.window ? own_.window : (n + own_.clusters - 1) / own_.clusters); }
  // Members: for each sequence, head, side (queries, keys) and cluster.
  size_t list(int b, int h, int side, int cluster) const {
    return static_cast<size_t>(((b * settings().heads + h) * 2 + side) * own_.clusters + cluster);
  }
  size_t lists(const Packing& packing) const { return list(packing.sequences(), 0, 0, 0); }
  Tensor select(const Context&, const Tensor& scores, const Tensor& classes, const Packing&) const;

  Settings own_;
  KMeans k_means_;
};

Tensor Routing::select(const Context& context, const Tensor& scores, const Tensor& classes, const Packing& packing) const {
  const int heads = settings().heads;
  std::vector<std::vector<int32_t>> members(lists(packing));
  for_each_head(context.on, packing, heads, [&](int b, int h) {
    const int32_t n = packing.length(b), first = packing.offsets()[static_cast<size_t>(b)];
    if (n == 0) return;
    ops::dispatch(scores.dtype(), [&]<class T>(T) {
      for (int side = 0; side < 2; ++side)
        for (int m = 0; m < own_.clusters; ++m)
          members[list(b, h, side, m)] =
              largest(scores.matrix<const T>().row((side * heads + h) * own_.clusters + m) + first, n, window(n));
    });
    if (!own_.cover) return;
    std::vector<bool> held(static_cast<size_t>(n));
    for (int m = 0; m < own_.clusters; ++m)
      for (const int32_t i : members[list(b, h, 0, m)]) held[static_cast<size_t>(i)] = true;
    std::vector<bool> grown(static_cast<size_t>(own_.clusters));
    for (int32_t i = 0; i < n; ++i)
      if (!held[static_cast<size_t>(i)]) {
        const int32_t m = classes.matrix<int32_t>().row(h)[first + i];
        members[list(b, h, 0, m)].push_back(i);
        grown[static_cast<size_t>(m)] = true;
      }
    for (int m = 0; m < own_.clusters; ++m)
      if (grown[static_cast<size_t>(m)]) std::sort(members[list(b, h, 0, m)].begin(), members[list(b, h, 0, m)].end());
  });
  return IndexLists::packed(members);
}

// The queries of a cluster begin at a tile where clusters are as large as one: no tile then meets two clusters. Heads with fewer gathered
// queries than others are filled up with rows that see nothing.
Routing::Gathering::Gathering(const Routing& of, const Context& context, const IndexLists& members, const Packing& packing)
    : plans(static_cast<size_t>(packing.sequences() * of.settings().heads)) {
  const int heads = of.settings().heads, clusters = of.own_.clusters;
  const auto places = [&](int b, int h, int m) {
    const auto count = static_cast<int32_t>(members[of.list(b, h, 0, m)].size());
    return of.window(packing.length(b)) < TilePlan::tile ? count : TilePlan::tiles_of(count) * TilePlan::tile;
  };
  for (int b = 0; b < packing.sequences(); ++b) {
    int32_t most = 0;
    for (int h = 0; h < heads; ++h) {
      int32_t count = 0;
      for (int m = 0; m < clusters; ++m) count += places(b, h, m);
      most = std::max(most, count);
    }
    query_counts.push_back(most);
    key_counts.push_back(clusters * of.window(packing.length(b)));
  }
  const Packing &gathered_queries = packing.with_lengths(query_counts), &gathered_keys = packing.with_lengths(key_counts);
  const bool drops = context.draws_dropout(of.settings().layer.dropout);
  std::vector<std::shared_ptr<RowMap>> to_queries, to_keys, back;
  for (int h = 0; h < heads; ++h) {
    to_queries.push_back(std::make_shared<RowMap>());
    to_keys.push_back(std::make_shared<RowMap>());
    back.push_back(std::make_shared<RowMap>());
    to_queries.back()->rows = to_keys.back()->rows = packing.rows();
    back.back()->rows = gathered_queries.rows();
  }
  for_each_head(context.on, Packing({1}, {0}), heads, [&](int, int h) {
    RowMap &queries_map = *to_queries[static_cast<size_t>(h)], &keys_map = *to_keys[static_cast<size_t>(h)];
    RowMap& means_map = *back[static_cast<size_t>(h)];
    for (int b = 0; b < packing.sequences(); ++b) {
      const int32_t offset = packing.offsets()[static_cast<size_t>(b)], n = packing.length(b), w = of.window(n);
      std::vector<int32_t> query_places, key_places, first, end;
      std::vector<std::vector<int32_t>> found(static_cast<size_t>(n));  // where each row was gathered to
      const auto empty_until = [&](int32_t count) {
        while (static_cast<int32_t>(first.size()) < count) {
          first.push_back(0);
          end.push_back(0);
          query_places.push_back(0);
          queries_map.begin.push_back(static_cast<int32_t>(queries_map.source.size()));
        }
      };
      for (int m = 0; m < clusters; ++m) {
        const auto start = static_cast<int32_t>(first.size());
        for (const int32_t i : members[of.list(b, h, 0, m)]) {
          found[static_cast<size_t>(i)].push_back(gathered_queries.offsets()[static_cast<size_t>(b)] + static_cast<int32_t>(first.size()));
          first.push_back(m * w);
          end.push_back((m + 1) * w);
          query_places.push_back(i);
          queries_map.source.push_back(offset + i);
          queries_map.begin.push_back(static_cast<int32_t>(queries_map.source.size()));
        }
        empty_until(start + places(b, h, m));
        for (const int32_t j : members[of.list(b, h, 1, m)]) {
          key_places.push_back(j);
          keys_map.source.push_back(offset + j);
          keys_map.begin.push_back(static_cast<int32_t>(keys_map.source.size()));
        }
      }
      empty_until(query_counts[static_cast<size_t>(b)]);
      for (const std::vector<int32_t>& rows : found) {
        means_map.source.insert(means_map.source.end(), rows.begin(), rows.end());
        means_map.weight.insert(means_map.weight.end(), rows.size(), 1 / static_cast<double>(rows.size()));
        means_map.begin.push_back(static_cast<int32_t>(means_map.source.size()));
      }
      TilePlan plan = interval_plan(gathered_keys.length(b), std::move(first), std::move(end));
      if (drops) {
        plan.query_places = std::move(query_places);
        plan.key_places = std::move(key_places);
      }
      plans[static_cast<size_t>(b * heads + h)] = std::make_shared<const TilePlan>(std::move(plan));
    }
  });
  queries.assign(to_queries.begin(), to_queries.end());
  keys.assign(to_keys.begin(), to_keys.end());
  means.assign(back.begin(), back.end());
}

std::vector<double> Routing::dense_weights(const DenseInput& in) const {
  const auto n = static_cast<size_t>(in.n), d = static_cast<size_t>(in.head_dim), clusters = static_cast<size_t>(own_.clusters);
  const std::span<const int32_t> all = in.structures->at(settings().name + ".members").span<int32_t>();
  const size_t heads = static_cast<size_t>(settings().heads), h = static_cast<size_t>(in.head - settings().first_head);
  const auto of = [&](size_t side, size_t m) {
    const size_t at = 1 + ((static_cast<size_t>(in.sequence) * heads + h) * 2 + side) * clusters + m;
    return std::vector<int32_t>(all.begin() + all[at], all.begin() + all[at + 1]);
  };
  const auto normal = [&](std::span<const double> x) {
    std::vector<double> y(x.begin(), x.end());
    for (size_t i = 0; i < n; ++i) {
      double mean = 0, square = 0;
      for (size_t e = 0; e < d; ++e) mean += y[i * d + e] / static_cast<double>(d);
      for (size_t e = 0; e < d; ++e) square += std::pow(y[i * d + e] - mean, 2) / static_cast<double>(d);
      for (size_t e = 0; e < d; ++e) y[i * d + e] = (y[i * d + e] - mean) / std::sqrt(square + 1e-6);
    }
    return y;
  };
  const std::vector<double> q = normal(in.q()), k = normal(in.k());
  std::vector<double> weights(n * n);
  std::vector<double> clusters_of(n);
  for (size_t m = 0; m < clusters; ++m)
    for (const int32_t i : of(0, m)) {
      clusters_of[static_cast<size_t>(i)] += 1;
      std::vector<double> p(n);
      double sum = 0;
      for (const int32_t j : of(1, m)) {
        double dot = 0;
        for (size_t e = 0; e < d; ++e) dot += q[static_cast<size_t>(i) * d + e] * k[static_cast<size_t>(j) * d + e];
        sum += p[static_cast<size_t>(j)] = std::exp(own_.logit_scale * dot / std::sqrt(static_cast<double>(d)));
      }
      for (size_t j = 0; j < n; ++j) weights[static_cast<size_t>(i) * n + j] += p[j] / sum;
    }
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n && clusters_of[i] > 0; ++j) weights[i * n + j] /= clusters_of[i];
  return weights;
}

}  // namespace

AttentionVariant routing_variant() { return variant<Routing, Settings>("routing", true); }

}  // namespace tapeformer::models
