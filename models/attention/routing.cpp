// SPDX-License-Identifier: Apache-2.0
// Routing Transformer (Roy, Saffar, Vaswani, Grangier 2020, 2003.05997): each centroid takes the queries and the keys nearest to it,
// attends inside, and a row averages what its clusters give. Members are gathered cluster by cluster, so that each cluster is a block of
// tiles.
#include <cmath>

#include "framework/ops/attention.h"
#include "framework/ops/dispatch.h"
#include "models/attention/index_lists.h"
#include "models/attention/k_means.h"
#include "models/attention/largest.h"

namespace tapeformer::models {
namespace {

struct RoutingSettings : KMeansSettings {
  int window = 0;  // 0: rows / clusters, rounded up
  bool cover = true;
  double logit_scale = 1;

  void read(config::Section& section) {
    KMeansSettings::read(section);
    section.number_or_word("window", window, "auto", 0, config::between(1, 1 << 24),
                           "queries and keys of a cluster; auto: a sequence's rows over the clusters");
    section.field("cover", cover, "whether a query that no cluster took joins its nearest; else it gets zeros");
    section.field("logit_scale", logit_scale, config::between(1e-3, 1e3), "factor of the scores beside 1 / sqrt(D)");
  }
};

class Routing : public Heads {
 public:
  Routing(const nn::Builder& build, const HeadSettings& s, const RoutingSettings& own)
      : Heads(s), own_(own), k_means_(build, s, own, {.centred = true, .epsilon = 1e-6}) {}

  HeadOutput forward(Context& context, HeadInput& input) override {
    const HeadSettings& s = settings();
    const Packing& packing = input.packing;
    const Variable points = k_means_.points(context, input.projected);
    const Tensor scores = k_means_.scores(context, points.value, packing);
    const Tensor classes = context.structure(s.name + ".classes", [&] { return k_means_.classes(context, scores); });
    std::optional<ops::Loss> loss = k_means_.learn(context, points, classes);
    const Tensor members = context.structure(s.name + ".members", [&] { return select(context, scores, classes, packing); });
    const Gathering way(*this, context, IndexLists(members), packing);

    const Variable gathered = ops::sparse_rows(context, points, way.gather, 3 * s.heads);
    ops::AttentionSettings how = softmax();
    how.scale *= own_.logit_scale;
    const Variable o = ops::attention(context, gathered, packing.with_lengths(way.lengths), way.plans, how);
    HeadOutput out = ops::sparse_rows(context, o, way.means, s.heads);
    if (loss) out.auxiliary.push_back(std::move(*loss));
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
  // How rows go to clusters and back. A gathered row holds a query and, apart from it, a key with its value.
  struct Gathering {
    std::vector<ops::RowMapPointer> gather, means;  // [3 * heads]: queries, keys, values; [heads]
    std::vector<int32_t> lengths;                   // gathered rows of each sequence
    ops::AttentionPart plans;

    Gathering(const Routing& of, const Context& context, const IndexLists& members, const Packing& packing);
  };
  // Gathered rows of cluster m's queries. They begin at a tile where clusters are as large as one: no tile then meets two clusters.
  int32_t places(const IndexLists& members, int32_t n, int b, int h, int m) const {
    const auto count = static_cast<int32_t>(members[list(b, h, 0, m)].size());
    return window(n) < TilePlan::tile ? count : TilePlan::tiles_of(count) * TilePlan::tile;
  }

  int32_t window(int32_t n) const { return std::min(n, own_.window ? own_.window : (n + own_.clusters - 1) / own_.clusters); }
  // Members: for each sequence, head, side (queries, keys) and cluster.
  size_t list(int b, int h, int side, int cluster) const {
    return static_cast<size_t>(((b * settings().heads + h) * 2 + side) * own_.clusters + cluster);
  }
  size_t lists(const Packing& packing) const { return list(packing.sequences(), 0, 0, 0); }
  Tensor select(const Context&, const Tensor& scores, const Tensor& classes, const Packing&) const;

  RoutingSettings own_;
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

// One head of one sequence, being gathered.
class GatheredHead {
 public:
  GatheredHead(int32_t n, int32_t first_row) : first_row_(first_row), times_(static_cast<size_t>(n)) {}

  void query(int32_t i, int32_t first_key, int32_t end_key) {
    ++times_[static_cast<size_t>(i)];
    query_places.push_back(i);
    first.push_back(first_key);
    end.push_back(end_key);
  }
  // Rows without a query, up to `count`.
  void no_queries_until(int32_t count) {
    query_places.resize(static_cast<size_t>(count), -1);
    first.resize(static_cast<size_t>(count));
    end.resize(static_cast<size_t>(count));
  }
  // Appends the rows at `places` to a map.
  void append(RowMap& map, const std::vector<int32_t>& places) const {
    for (const int32_t i : places) {
      if (i >= 0) map.source.push_back(first_row_ + i);
      map.begin.push_back(static_cast<int32_t>(map.source.size()));
    }
  }
  // Appends to a map, for each row, the mean of the gathered rows that hold its query, from row `offset` on.
  void append_means(RowMap& map, int32_t offset) const {
    const auto start = static_cast<int32_t>(map.source.size());
    std::vector<int32_t> next;
    int32_t at = start;
    for (const int32_t t : times_) {
      next.push_back(at);
      map.weight.insert(map.weight.end(), static_cast<size_t>(t), 1 / static_cast<double>(t));
      map.begin.push_back(at += t);
    }
    map.source.resize(static_cast<size_t>(at));
    for (size_t e = 0; e < query_places.size(); ++e)
      if (query_places[e] >= 0)
        map.source[static_cast<size_t>(next[static_cast<size_t>(query_places[e])]++)] = offset + static_cast<int32_t>(e);
  }

  std::vector<int32_t> query_places, key_places, first, end;

 private:
  int32_t first_row_;
  std::vector<int32_t> times_;  // that a row's query was gathered
};

Routing::Gathering::Gathering(const Routing& of, const Context& context, const IndexLists& members, const Packing& packing)
    : plans(static_cast<size_t>(packing.sequences() * of.settings().heads)) {
  const int heads = of.settings().heads, clusters = of.own_.clusters;
  for (int b = 0; b < packing.sequences(); ++b) {
    lengths.push_back(clusters * of.window(packing.length(b)));
    for (int h = 0; h < heads; ++h) {
      int32_t count = 0;
      for (int m = 0; m < clusters; ++m) count += of.places(members, packing.length(b), b, h, m);
      lengths.back() = std::max(lengths.back(), count);
    }
  }
  const Packing& gathered = packing.with_lengths(lengths);
  const bool drops = context.draws_dropout(of.settings().layer.dropout);
  gather.resize(static_cast<size_t>(3 * heads));
  means.resize(static_cast<size_t>(heads));
  for_each_head(context.on, Packing({1}, {0}), heads, [&](int, int h) {
    const auto queries = std::make_shared<RowMap>(), keys = std::make_shared<RowMap>(), back = std::make_shared<RowMap>();
    queries->rows = keys->rows = packing.rows();
    back->rows = gathered.rows();
    for (int b = 0; b < packing.sequences(); ++b) {
      const int32_t n = packing.length(b), w = of.window(n);
      GatheredHead head(n, packing.offsets()[static_cast<size_t>(b)]);
      for (int m = 0; m < clusters; ++m) {
        const auto start = static_cast<int32_t>(head.first.size());
        for (const int32_t i : members[of.list(b, h, 0, m)]) head.query(i, m * w, (m + 1) * w);
        head.no_queries_until(start + of.places(members, n, b, h, m));
        const std::span<const int32_t> of_keys = members[of.list(b, h, 1, m)];
        head.key_places.insert(head.key_places.end(), of_keys.begin(), of_keys.end());
      }
      head.no_queries_until(gathered.length(b));
      head.key_places.resize(static_cast<size_t>(gathered.length(b)), -1);
      head.append(*queries, head.query_places);
      head.append(*keys, head.key_places);
      head.append_means(*back, gathered.offsets()[static_cast<size_t>(b)]);
      TilePlan plan = interval_plan(gathered.length(b), std::move(head.first), std::move(head.end));
      if (drops) {
        plan.query_places = std::move(head.query_places);
        plan.key_places = std::move(head.key_places);
      }
      plans[static_cast<size_t>(b * heads + h)] = std::make_shared<const TilePlan>(std::move(plan));
    }
    gather[static_cast<size_t>(h)] = queries;
    gather[static_cast<size_t>(heads + h)] = gather[static_cast<size_t>(2 * heads + h)] = keys;
    means[static_cast<size_t>(h)] = back;
  });
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

AttentionVariant routing_variant() { return variant<Routing, RoutingSettings>("routing", true); }

}  // namespace tapeformer::models
