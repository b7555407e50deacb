// SPDX-License-Identifier: Apache-2.0
#include "models/attention/clustered_heads.h"

#include <numeric>

#include "framework/ops/batched_product.h"
#include "framework/ops/dispatch.h"
#include "models/attention/dense.h"
#include "models/attention/hamming_clusters.h"

namespace tapeformer::models {

void ClusteredSettings::read(config::Section& section) {
  section.field("clusters", clusters, config::between(1, 1 << 16), "groups of queries of each head, at most as many as rows");
  section.field("bits", bits, config::between(1, 64), "of the code by which queries are grouped");
  section.field("iterations", iterations, config::between(1, 1000), "assignments of queries to groups");
  section.field("hash_bias", hash_bias, "whether the planes that give the bits lie off the origin");
}

ClusteredHeads::ClusteredHeads(const nn::Builder& build, const HeadSettings& s, const ClusteredSettings& own)
    : Heads(s), own_(own), redraws_(build, s), planes_(build.dtype, {int64_t{s.heads} * own.bits, s.head_dim + 1}) {
  draw();
}

void ClusteredHeads::draw() {
  for (int h = 0; h < settings().heads; ++h) nn::fill_gaussian(redraws_.draw("planes", h), planes_.rows(int64_t{h} * own_.bits, own_.bits));
  if (!own_.hash_bias) planes_.columns(settings().head_dim, 1).copy_from(Tensor::zeros(planes_.dtype(), {planes_.shape()[0], 1}));
  drawn_ = redraws_.count();
}

Tensor ClusteredHeads::assign(Context& context, const Tensor& q, const Packing& packing) const {
  const int64_t heads = settings().heads, d = settings().head_dim, bits = own_.bits;
  std::vector<ProductGroup> groups;
  for (int b = 0; b < packing.sequences(); ++b)
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t first = packing.offsets()[static_cast<size_t>(b)], n = packing.length(b);
      if (n > 0) groups.push_back({{first, n, h * d, d}, {h * bits, bits, 0, d}, {first, n, h * bits, bits}});
    }
  const Tensor sides = ops::batched_product(context, Variable{q, no_node}, Variable{planes_, no_node}, {packing.rows(), heads * bits},
                                            std::move(groups), {.transpose_b = true})
                           .value;
  Tensor out(Dtype::i32, {heads, packing.rows()});
  for_each_head(context.on, packing, settings().heads, [&](int b, int h) {
    const int32_t n = packing.length(b), first = packing.offsets()[static_cast<size_t>(b)];
    std::vector<uint64_t> codes(static_cast<size_t>(n)), centroids;
    ops::dispatch(sides.dtype(), [&]<class T>(T) {
      for (int32_t i = 0; i < n; ++i)
        for (int64_t bit = 0; bit < bits; ++bit) {
          const T bound = planes_.matrix<const T>().row(h * bits + bit)[d];
          codes[static_cast<size_t>(i)] |= uint64_t{sides.matrix<const T>().row(first + i)[h * bits + bit] > bound} << bit;
        }
    });
    std::vector<int32_t> rows(static_cast<size_t>(n));
    std::iota(rows.begin(), rows.end(), 0);
    for (const int32_t i : picks(redraws_.draw("picks", h), 0, rows, static_cast<size_t>(clusters_of(n))))
      centroids.push_back(codes[static_cast<size_t>(i)]);
    const std::vector<int32_t> cluster = hamming_clusters(codes, std::move(centroids), own_.bits, own_.iterations);
    std::copy(cluster.begin(), cluster.end(), out.matrix<int32_t>().row(h) + first);
  });
  return out;
}

ClusteredHeads::Groups ClusteredHeads::group(Context& context, const Tensor& q, const Packing& packing) {
  if (drawn_ != redraws_.count()) draw();
  Groups out;
  out.of_query = context.structure(settings().name + ".groups_of_queries", [&] { return assign(context, q, packing); });
  std::vector<int32_t> counts;
  for (int b = 0; b < packing.sequences(); ++b) counts.push_back(clusters_of(packing.length(b)));
  out.packing = &packing.with_lengths(counts);
  for (int h = 0; h < settings().heads; ++h) {
    const auto mean = std::make_shared<RowMap>();
    std::vector<int32_t> expand;
    mean->rows = packing.rows();
    for (int b = 0; b < packing.sequences(); ++b) {
      const std::span<const int32_t> of_query = out.of(packing, b, h);
      const ClassOrder order = order_by_class(of_query, counts[static_cast<size_t>(b)]);
      const int32_t first = packing.offsets()[static_cast<size_t>(b)];
      for (size_t c = 0; c + 1 < order.begin.size(); ++c) {
        for (int32_t at = order.begin[c]; at < order.begin[c + 1]; ++at) {
          mean->source.push_back(first + order.rows[static_cast<size_t>(at)]);
          mean->weight.push_back(1.0 / (order.begin[c + 1] - order.begin[c]));
        }
        mean->begin.push_back(static_cast<int32_t>(mean->source.size()));
      }
      for (const int32_t c : of_query) expand.push_back(out.packing->offsets()[static_cast<size_t>(b)] + c);
    }
    out.means.push_back(mean);
    out.expand.push_back(std::make_shared<const RowMap>(gather_map(out.packing->rows(), std::move(expand))));
  }
  return out;
}

std::vector<int32_t> ClusteredHeads::members_of(const Groups& groups, const Packing& packing, int b, int h) const {
  std::vector<bool> used(static_cast<size_t>(clusters_of(packing.length(b))));
  for (const int32_t c : groups.of(packing, b, h)) used[static_cast<size_t>(c)] = true;
  std::vector<int32_t> out;
  for (size_t c = 0; c < used.size(); ++c)
    if (used[c]) out.push_back(static_cast<int32_t>(c));
  return out;
}

AttentionCost ClusteredHeads::cost(const std::vector<int32_t>& lengths) const {
  AttentionCost sum;
  const double heads = settings().heads, d = settings().head_dim;
  for (const int32_t n : lengths) {
    const double k = clusters_of(n), work = k * n * d * heads;
    sum += {4 * work + 2.0 * n * own_.bits * d * heads, 10 * work, 4 * heads * (n + k * (1 + 2 * d))};
  }
  return sum;
}

std::vector<double> ClusteredHeads::dense_groups(const DenseInput& in) const {
  const Tensor& groups = in.structures->at(settings().name + ".groups_of_queries");
  const int32_t* group = groups.data<int32_t>() + (in.head - settings().first_head) * groups.shape()[1] + in.first;
  const auto n = static_cast<size_t>(in.n), d = static_cast<size_t>(in.head_dim);
  std::vector<double> mean(n * d);
  for (size_t i = 0; i < n; ++i) {
    double members = 0;
    for (size_t j = 0; j < n; ++j) members += group[j] == group[i];
    for (size_t j = 0; j < n; ++j)
      for (size_t e = 0; e < d && group[j] == group[i]; ++e) mean[i * d + e] += in.q()[j * d + e] / members;
  }
  return dense::softmax_weights(mean, in.k(), d);
}

std::vector<double> ClusteredHeads::dense_weights(const DenseInput& in) const { return dense_groups(in); }

}  // namespace tapeformer::models
