// SPDX-License-Identifier: Apache-2.0
// Attention inside clusters: a query sees the keys whose nearest centroid is its own. Queries and keys are sorted by class and each class
// is one block of the pattern, however many members it has. Centroids as in Roy, Saffar, Vaswani, Grangier 2020 (2003.05997).
#include <algorithm>

#include "framework/ops/attention.h"
#include "models/attention/dense.h"
#include "models/attention/index_lists.h"
#include "models/attention/k_means.h"

namespace tapeformer::models {
namespace {

enum class CoverEmpty : uint8_t { self, zero };

struct ClusterSettings : KMeansSettings {
  CoverEmpty cover_empty = CoverEmpty::self;

  void read(config::Section& section) {
    KMeansSettings::read(section);
    section.choice("cover_empty", cover_empty, {{"self", CoverEmpty::self}, {"zero", CoverEmpty::zero}},
                   "what a query sees whose class has no key: itself, or nothing (zeros)");
  }
};

class Cluster : public Heads {
 public:
  static constexpr bool can_be_causal = true;

  Cluster(const nn::Builder& build, const HeadSettings& s, const ClusterSettings& own)
      : Heads(s), own_(own), k_means_(build, s, own, {.factor = scale(), .floor = 1e-12 * scale()}) {}

  HeadOutput forward(Context& context, HeadInput& input) override {
    const HeadSettings& s = settings();
    const Packing& packing = input.packing;
    const Variable points = k_means_.points(context, input.projected);
    const Tensor classes =
        context.structure(s.name + ".classes", [&] { return k_means_.classes(context, k_means_.scores(context, points.value, packing)); });
    ops::AttentionPart plans(static_cast<size_t>(packing.sequences() * s.heads));
    for_each_head(context.on, packing, s.heads, [&](int b, int h) {
      const auto of = [&](int row) {
        return std::span<const int32_t>(classes.matrix<int32_t>().row(row) + packing.offsets()[static_cast<size_t>(b)],
                                        static_cast<size_t>(packing.length(b)));
      };
      plans[static_cast<size_t>(b * s.heads + h)] = std::make_shared<const TilePlan>(plan(of(h), of(s.heads + h)));
    });
    HeadOutput out = ops::attention(context, input.projected, packing, plans, softmax());
    if (std::optional<ops::Loss> loss = k_means_.learn(context, points, classes)) out.auxiliary.push_back(std::move(*loss));
    return out;
  }
  bool has_auxiliary() const override { return k_means_.has_loss(); }
  void visit(nn::Visitor& visitor) override { k_means_.visit(visitor); }
  void after_update(Context& context) override { k_means_.after_update(context); }

  // Of clusters of one size; a row has at least one key.
  double pairs(int32_t n) const override { return std::max(1.0 * n, Heads::pairs(n) / own_.clusters); }
  AttentionCost cost(const std::vector<int32_t>& lengths) const override {
    AttentionCost sum;
    const double heads = settings().heads;
    for (const int32_t n : lengths) {
      const double work = pairs(n) * settings().head_dim * heads;
      sum += {4 * work + k_means_.flops(n) * heads, 10 * work, 4.0 * n * heads * 3};
    }
    return sum;
  }

  std::vector<double> dense_weights(const DenseInput& in) const override {
    const Tensor& classes = in.structures->at(settings().name + ".classes");
    const int64_t rows = classes.shape()[1], h = in.head - settings().first_head;
    const int32_t* of_query = classes.data<int32_t>() + h * rows + in.first;
    const int32_t* of_key = of_query + settings().heads * rows;
    const auto n = static_cast<size_t>(in.n);
    std::vector<double> weights = dense::softmax_weights(in.q(), in.k(), static_cast<size_t>(in.head_dim),
                                                         [&](size_t i, size_t j) { return j < seen(n, i) && of_key[j] == of_query[i]; });
    for (size_t i = 0; i < n && own_.cover_empty == CoverEmpty::self; ++i) {
      const int32_t* const end = of_key + seen(n, i);
      if (std::find(of_key, end, of_query[i]) == end) weights[i * n + i] = 1;
    }
    return weights;
  }

 private:
  // Row i of n sees those of its class among so many rows.
  template <class Row>
  Row seen(Row n, Row i) const {
    return settings().layer.causal ? std::max(static_cast<Row>(front()), i + 1) : n;
  }
  // Queries by class; then those without keys, in the order of their own keys, so that they meet few tiles.
  TilePlan plan(std::span<const int32_t> of_query, std::span<const int32_t> of_key) const {
    const auto n = static_cast<int32_t>(of_query.size());
    ClassOrder keys = order_by_class(of_key, own_.clusters);
    const ClassOrder queries = order_by_class(of_query, own_.clusters);
    std::vector<int32_t> rows, first, end;
    const auto keys_of = [&](int32_t i) {
      const auto c = static_cast<size_t>(of_query[static_cast<size_t>(i)]);
      const auto members = keys.rows.begin() + keys.begin[c], after = keys.rows.begin() + keys.begin[c + 1];
      return std::pair(keys.begin[c], static_cast<int32_t>(std::lower_bound(members, after, seen(n, i)) - keys.rows.begin()));
    };
    for (const int32_t i : queries.rows) {
      const auto [from, to] = keys_of(i);
      if (from == to) continue;
      rows.push_back(i);
      first.push_back(from);
      end.push_back(to);
    }
    for (int32_t at = 0; at < n; ++at) {
      const int32_t i = keys.rows[static_cast<size_t>(at)];
      const auto [from, to] = keys_of(i);
      if (from != to) continue;
      rows.push_back(i);
      first.push_back(at);
      end.push_back(own_.cover_empty == CoverEmpty::self ? at + 1 : at);
    }
    TilePlan plan = interval_plan(n, std::move(first), std::move(end));
    plan.query_rows = std::move(rows);
    plan.key_rows = std::move(keys.rows);
    return plan;
  }

  ClusterSettings own_;
  KMeans k_means_;
};

}  // namespace

AttentionVariant cluster_variant() { return variant<Cluster, ClusterSettings>("cluster", true); }

}  // namespace tapeformer::models
