// SPDX-License-Identifier: Apache-2.0
// Improved clustered attention (Vyas, Katharopoulos, Fleuret 2020, 2007.04825, section 3.3): as clustered attention, but over the `topk`
// keys that matter most to its group a query has probabilities of its own, of the same sum. With A the group's probabilities, T its best
// keys and m the sum of A over T: o_i = m softmax_T(q_i k) v + sum over j not in T of A_j v_j.
#include <algorithm>

#include "framework/ops/add.h"
#include "framework/ops/attention.h"
#include "framework/ops/batched_product.h"
#include "framework/ops/columns.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/multiply.h"
#include "models/attention/clustered_heads.h"
#include "models/attention/dense.h"
#include "models/attention/largest.h"
#include "models/attention/tile_bits.h"

namespace tapeformer::models {
namespace {

struct ImprovedClusteredSettings : ClusteredSettings {
  int topk = 32;

  void read(config::Section& section) {
    ClusteredSettings::read(section);
    section.field("topk", topk, config::between(1, 1 << 24), "keys over which a query has probabilities of its own");
  }
};

class ImprovedClustered : public ClusteredHeads {
 public:
  ImprovedClustered(const nn::Builder& build, const HeadSettings& s, const ImprovedClusteredSettings& own)
      : ClusteredHeads(build, s, own), own_(own) {}

  // m and the sum over the other keys come from the same softmax: its keys are all keys but T, and T once more behind them. With the values
  // 0 of T it gives the sum, with 1 for T and 0 for all else it gives m.
  HeadOutput forward(Context& context, HeadInput& input) override {
    const HeadSettings& s = settings();
    const Packing& packing = input.packing;
    const int64_t width = int64_t{s.heads} * s.head_dim;
    const auto part = [&](int64_t p) { return ops::columns(context, input.projected, {{p * width, width}}); };
    const Variable q = part(0), k = part(1), v = part(2);
    const Groups groups = group(context, q.value, packing);
    const Variable mean = ops::sparse_rows(context, q, groups.means, s.heads);
    const IndexLists best(context.structure(s.name + ".best_keys", [&] { return select(context, groups, mean.value, k.value, packing); }));
    const Maps maps(*this, best, packing);
    const Plans plans = make_plans(context, groups, best, packing);

    const Variable extended = ops::sparse_rows(context, k, maps.extended, s.heads);
    const Variable zeros = ops::sparse_rows(context, v, maps.zeros);
    const Variable own =
        ops::cross_attention(context, q, ops::sparse_rows(context, k, maps.gathered, s.heads),
                             ops::sparse_rows(context, v, maps.gathered, s.heads), packing, *maps.gathered_packing, plans.own, softmax());
    ops::AttentionSettings how = softmax("cluster_dropout");
    const Variable others = ops::cross_attention(context, mean, extended, zeros, *groups.packing, *maps.extended_packing, plans.group, how);
    how.dropout = 0;
    const Variable mass = ops::cross_attention(context, mean, extended, {maps.ones(context, packing, width), no_node}, *groups.packing,
                                               *maps.extended_packing, plans.group, how);
    const Variable weighted = ops::multiply(context, ops::sparse_rows(context, mass, groups.expand, s.heads), own);
    return ops::add(context, weighted, ops::sparse_rows(context, others, groups.expand, s.heads));
  }

  double pairs(int32_t n) const override { return std::min(1.0 * n * n, ClusteredHeads::pairs(n) + 1.0 * n * best_of(n)); }
  AttentionCost cost(const std::vector<int32_t>& lengths) const override {
    AttentionCost sum = ClusteredHeads::cost(lengths);
    const double heads = settings().heads, d = settings().head_dim;
    for (const int32_t n : lengths) {
      const double k = clusters_of(n), t = best_of(n), own = n * t * d * heads, mass = k * n * d * heads;
      sum += {4 * (own + mass) + 2 * mass, 10 * (own + mass), 4 * heads * (k * t * (1 + 3 * d) + 4 * n * d) + heads * k * n / 8};
    }
    return sum;
  }

  std::vector<double> dense_weights(const DenseInput& in) const override {
    const auto n = static_cast<size_t>(in.n);
    const Tensor& groups = in.structures->at(settings().name + ".groups_of_queries");
    const int32_t h = in.head - settings().first_head;
    const int32_t* group = groups.data<int32_t>() + h * groups.shape()[1] + in.first;
    const std::span<const int32_t> all = in.structures->at(settings().name + ".best_keys").span<int32_t>();
    const auto best = [&](size_t i) {
      const auto at = static_cast<size_t>(1 + (in.sequence * settings().heads + h) * own_.clusters + group[i]);
      return all.subspan(static_cast<size_t>(all[at]), static_cast<size_t>(all[at + 1] - all[at]));
    };
    std::vector<double> weights = dense_groups(in);
    const std::vector<double> own = dense::softmax_weights(in.q(), in.k(), static_cast<size_t>(in.head_dim), [&](size_t i, size_t j) {
      return std::ranges::count(best(i), static_cast<int32_t>(j)) > 0;
    });
    for (size_t i = 0; i < n; ++i) {
      double mass = 0;
      for (const int32_t j : best(i)) mass += weights[i * n + static_cast<size_t>(j)];
      for (const int32_t j : best(i)) weights[i * n + static_cast<size_t>(j)] = mass * own[i * n + static_cast<size_t>(j)];
    }
    return weights;
  }

 private:
  // Gathered keys: best_of(n) places for each group of a sequence, also for a group without members. Extended keys: all, then those.
  struct Maps {
    std::vector<ops::RowMapPointer> gathered, extended;  // [heads]
    ops::RowMapPointer zeros;                            // extended, nothing in the places of gathered keys
    const Packing *gathered_packing, *extended_packing;

    Maps(const ImprovedClustered& of, const IndexLists& best, const Packing& packing);
    Tensor ones(const Context& context, const Packing& packing, int64_t width) const;
  };
  struct Plans {
    ops::AttentionPart group, own;
  };

  int32_t best_of(int32_t n) const { return std::min(own_.topk, n); }
  size_t list(int b, int h, int32_t c) const { return static_cast<size_t>((b * settings().heads + h) * own_.clusters + c); }
  Tensor select(Context&, const Groups&, const Tensor& mean, const Tensor& k, const Packing&) const;
  Plans make_plans(const Context&, const Groups&, const IndexLists& best, const Packing&) const;
  TilePlan group_plan(const std::vector<int32_t>& groups, const IndexLists& best, int b, int h, int32_t n) const;
  TilePlan own_plan(const Context&, std::span<const int32_t> of_query, const IndexLists& best, int b, int h) const;

  ImprovedClusteredSettings own_;
};

// The best keys of each group with members, ascending.
Tensor ImprovedClustered::select(Context& context, const Groups& groups, const Tensor& mean, const Tensor& k,
                                 const Packing& packing) const {
  const int64_t heads = settings().heads, d = settings().head_dim, rows = groups.packing->rows();
  std::vector<ProductGroup> products;
  for (int b = 0; b < packing.sequences(); ++b)
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t first = groups.packing->offsets()[static_cast<size_t>(b)], count = groups.packing->length(b), n = packing.length(b);
      if (n == 0) continue;
      products.push_back(
          {{first, count, h * d, d}, {packing.offsets()[static_cast<size_t>(b)], n, h * d, d}, {h * rows + first, count, 0, n}});
    }
  const Tensor scores = ops::batched_product(context, Variable{mean, no_node}, Variable{k, no_node}, {heads * rows, packing.longest()},
                                             std::move(products), {.transpose_b = true})
                            .value;
  std::vector<std::vector<int32_t>> best(list(packing.sequences(), 0, 0));
  for_each_head(context.on, packing, settings().heads, [&](int b, int h) {
    const int32_t n = packing.length(b);
    ops::dispatch(scores.dtype(), [&]<class T>(T) {
      for (const int32_t c : members_of(groups, packing, b, h))
        best[list(b, h, c)] =
            largest(scores.matrix<const T>().row(h * rows + groups.packing->offsets()[static_cast<size_t>(b)] + c), n, best_of(n));
    });
  });
  return IndexLists::packed(best);
}

ImprovedClustered::Maps::Maps(const ImprovedClustered& of, const IndexLists& best, const Packing& packing) {
  std::vector<int32_t> gathered_counts, extended_counts;
  for (int b = 0; b < packing.sequences(); ++b) {
    const int32_t n = packing.length(b);
    gathered_counts.push_back(of.clusters_of(n) * of.best_of(n));
    extended_counts.push_back(n + gathered_counts.back());
  }
  gathered_packing = &packing.with_lengths(gathered_counts);
  extended_packing = &packing.with_lengths(extended_counts);
  const auto add = [](RowMap& map, int32_t source) {
    if (source >= 0) map.source.push_back(source);
    map.begin.push_back(static_cast<int32_t>(map.source.size()));
  };
  const auto none = std::make_shared<RowMap>();
  for (int h = 0; h < of.settings().heads; ++h) {
    const auto only = std::make_shared<RowMap>(), with_all = std::make_shared<RowMap>();
    only->rows = with_all->rows = none->rows = packing.rows();
    for (int b = 0; b < packing.sequences(); ++b) {
      const int32_t n = packing.length(b), first = packing.offsets()[static_cast<size_t>(b)];
      for (int32_t j = 0; j < n; ++j) {
        add(*with_all, first + j);
        if (h == 0) add(*none, first + j);
      }
      for (int32_t c = 0; c < of.clusters_of(n); ++c) {
        const std::span<const int32_t> keys = best[of.list(b, h, c)];
        for (size_t e = 0; e < static_cast<size_t>(of.best_of(n)); ++e) {
          const int32_t source = e < keys.size() ? first + keys[e] : -1;
          add(*with_all, source);
          add(*only, source);
          if (h == 0) add(*none, -1);
        }
      }
    }
    gathered.push_back(only);
    extended.push_back(with_all);
  }
  zeros = none;
}

// 1 in the rows of gathered keys.
Tensor ImprovedClustered::Maps::ones(const Context& context, const Packing& packing, int64_t width) const {
  Tensor out = Tensor::zeros(context.dtype, {extended_packing->rows(), width});
  ops::dispatch(context.dtype, [&]<class T>(T) {
    for (int b = 0; b < packing.sequences(); ++b)
      for (int64_t r = extended_packing->offsets()[static_cast<size_t>(b)] + packing.length(b);
           r < extended_packing->offsets()[static_cast<size_t>(b) + 1]; ++r)
        std::fill_n(out.matrix<T>().row(r), width, T{1});
  });
  return out;
}

ImprovedClustered::Plans ImprovedClustered::make_plans(const Context& context, const Groups& groups, const IndexLists& best,
                                                       const Packing& packing) const {
  const auto count = static_cast<size_t>(packing.sequences() * settings().heads);
  Plans out{ops::AttentionPart(count), ops::AttentionPart(count)};
  for_each_head(context.on, packing, settings().heads, [&](int b, int h) {
    const auto at = static_cast<size_t>(b * settings().heads + h);
    const std::vector<int32_t> members = members_of(groups, packing, b, h);
    out.group[at] = std::make_shared<const TilePlan>(group_plan(members, best, b, h, packing.length(b)));
    out.own[at] = std::make_shared<const TilePlan>(own_plan(context, groups.of(packing, b, h), best, b, h));
  });
  return out;
}

// A group sees the extended keys without its best ones, and these in its own places behind.
TilePlan ImprovedClustered::group_plan(const std::vector<int32_t>& groups, const IndexLists& best, int b, int h, int32_t n) const {
  const int32_t top = best_of(n), keys = n + clusters_of(n) * top;
  MaskedPlan plan(static_cast<int32_t>(groups.size()), keys);
  std::vector<TileMask> masks;  // of one tile of groups, by key tiles
  for (size_t q = 0; q < groups.size(); q += tile) {
    masks.assign(static_cast<size_t>(TilePlan::tiles_of(keys)), TileMask{});
    for (size_t g = q; g < std::min(groups.size(), q + tile); ++g) {
      const auto word = [&](int32_t key) -> uint64_t& { return masks[static_cast<size_t>(key / tile)].keys[g - q]; };
      for (int32_t j = 0; j < n; j += tile) word(j) = tile_bits(0, n - j);
      for (const int32_t j : best[list(b, h, groups[g])]) word(j) &= ~(uint64_t{1} << j % tile);
      for (int32_t j = n + groups[g] * top; j < n + (groups[g] + 1) * top; ++j) word(j) |= uint64_t{1} << j % tile;
    }
    for (size_t t = 0; t < masks.size(); ++t) plan.add(static_cast<int32_t>(t), masks[t]);
    plan.end_query_tile();
  }
  TilePlan out = plan.finish();
  out.query_rows = groups;
  return out;
}

// Queries sorted by group see their group's gathered keys.
TilePlan ImprovedClustered::own_plan(const Context& context, std::span<const int32_t> of_query, const IndexLists& best, int b,
                                     int h) const {
  const auto n = static_cast<int32_t>(of_query.size());
  const int32_t top = best_of(n), clusters = clusters_of(n);
  ClassOrder order = order_by_class(of_query, clusters);
  std::vector<int32_t> first, end;
  for (const int32_t i : order.rows) {
    first.push_back(of_query[static_cast<size_t>(i)] * top);
    end.push_back(first.back() + top);
  }
  TilePlan plan = interval_plan(clusters * top, std::move(first), std::move(end));
  plan.query_rows = std::move(order.rows);
  if (context.draws_dropout(settings().layer.dropout)) {
    plan.key_places.assign(static_cast<size_t>(clusters * top), 0);
    for (int32_t c = 0; c < clusters; ++c) std::ranges::copy(best[list(b, h, c)], plan.key_places.begin() + c * top);
  }
  return plan;
}

}  // namespace

AttentionVariant improved_clustered_variant() { return variant<ImprovedClustered, ImprovedClusteredSettings>("improved_clustered", true); }

}  // namespace tapeformer::models
