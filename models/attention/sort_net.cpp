// SPDX-License-Identifier: Apache-2.0
#include "models/attention/sort_net.h"

#include <algorithm>
#include <cmath>

#include "framework/ops/activation.h"
#include "framework/ops/add.h"
#include "framework/ops/batched_product.h"
#include "framework/ops/sparse_rows.h"
#include "models/attention/ones.h"

namespace tapeformer::models {
namespace {

// Weights [heads * out, in] whose start is Xavier's for each head's [out, in].
Parameter of_heads(const nn::Builder& build, const std::string& name, int heads, int64_t out, int64_t in) {
  return build.xavier_uniform(name, heads * out, in, std::sqrt(static_cast<double>(heads * out + in) / static_cast<double>(out + in)));
}

// Rows of each block summed, or their mean.
ops::RowMapPointer block_map(const Packing& packing, const Packing& blocks, int32_t block, bool mean) {
  auto map = std::make_shared<RowMap>();
  map->rows = packing.rows();
  for (int b = 0; b < packing.sequences(); ++b)
    for (int32_t u = 0; u < blocks.length(b); ++u) {
      const int32_t first = packing.offsets()[static_cast<size_t>(b)], end = std::min(packing.length(b), (u + 1) * block);
      for (int32_t i = u * block; i < end; ++i) {
        map->source.push_back(first + i);
        if (mean) map->weight.push_back(1.0 / (end - u * block));
      }
      map->begin.push_back(static_cast<int32_t>(map->source.size()));
    }
  return map;
}

// For each block u the rows first(b, u) ... first(b, u) + count(u) - 1 of x, each times weight(u).
template <class First, class Count, class Weight>
ops::RowMapPointer runs_map(int64_t rows, const Packing& blocks, const First& first, const Count& count, const Weight& weight) {
  auto map = std::make_shared<RowMap>();
  map->rows = rows;
  for (int b = 0; b < blocks.sequences(); ++b)
    for (int32_t u = 0; u < blocks.length(b); ++u) {
      for (int32_t v = 0; v < count(u); ++v) {
        map->source.push_back(first(b, u) + v);
        map->weight.push_back(weight(u));
      }
      map->begin.push_back(static_cast<int32_t>(map->source.size()));
    }
  return map;
}

double value_of(const Parameter& p, size_t i) {
  return p.value.dtype() == Dtype::f64 ? p.value.data<double>()[i] : static_cast<double>(p.value.data<float>()[i]);
}

}  // namespace

SortNet::SortNet(const nn::Builder& build, const HeadSettings& s, Form form, int64_t most)
    : form_(form), causal_(s.layer.causal), heads_(s.heads), first_head_(s.first_head), head_dim_(s.head_dim), most_(most) {
  if (form == Form::attention) return;
  weight_ = of_heads(build, s.name + ".sort.weight", heads_, most, head_dim_);
  if (form == Form::linear) return;
  bias_ = build.constant(s.name + ".sort.bias", {heads_, most}, 0);
  up_weight_ = of_heads(build, s.name + ".sort.up.weight", heads_, head_dim_, head_dim_);
  up_bias_ = build.constant(s.name + ".sort.up.bias", {heads_, head_dim_}, 0);
}

void SortNet::visit(nn::Visitor& visitor) {
  for (std::optional<Parameter>* p : {&up_weight_, &up_bias_, &weight_, &bias_})
    if (*p) visitor.parameter(**p);
}

// Blocks of D columns of x, from first_column on, times the weights of as many places as the sequence has blocks.
Variable SortNet::output(Context& context, const Variable& x, int64_t first_column, const Packing& blocks) {
  const int64_t width = std::max(1, blocks.longest());
  std::vector<ProductGroup> groups, biases;
  for (int b = 0; b < blocks.sequences(); ++b)
    for (int h = 0; h < heads_; ++h) {
      const int64_t row = blocks.offsets()[static_cast<size_t>(b)], m = blocks.length(b);
      if (m == 0) continue;
      groups.push_back({{row, m, first_column + h * head_dim_, head_dim_}, {h * most_, m, 0, head_dim_}, {row, m, h * width, m}});
      biases.push_back({{row, m, 0, 1}, {h, 1, 0, m}, {row, m, h * width, m}});
    }
  const Shape shape{blocks.rows(), heads_ * width};
  const Variable product = ops::batched_product(context, x, *weight_, shape, std::move(groups), {.transpose_b = true});
  if (!bias_) return product;
  return ops::add(context, product, ops::batched_product(context, ones(context, blocks.rows(), 1), *bias_, shape, std::move(biases)));
}

Variable SortNet::hidden(Context& context, const Variable& sums) {
  const int64_t d = head_dim_, rows = sums.value.shape()[0];
  std::vector<ProductGroup> groups, biases;
  for (int h = 0; h < heads_ && rows > 0; ++h) {
    groups.push_back({{0, rows, (heads_ + h) * d, d}, {h * d, d, 0, d}, {0, rows, h * d, d}});
    biases.push_back({{0, rows, 0, 1}, {h, 1, 0, d}, {0, rows, h * d, d}});
  }
  const Shape shape{rows, heads_ * d};
  const Variable product = ops::batched_product(context, sums, *up_weight_, shape, std::move(groups), {.transpose_b = true});
  const Variable bias = ops::batched_product(context, ones(context, rows, 1), *up_bias_, shape, std::move(biases));
  return ops::activation(context, Activation::relu, ops::add(context, product, bias));
}

// The sums, or the means, of all rows up to the first of each block, those of whole blocks being given.
Variable SortNet::up_to_first(Context& context, const Variable& of_blocks, const Variable& projected, const Packing& packing,
                              const Packing& blocks, int32_t block) const {
  const bool mean = form_ == Form::attention;
  const auto of_row = [&](int32_t u) { return mean ? 1 / (1.0 * u * block + 1) : 1; };
  const auto of_block = [&](int32_t u) { return mean ? block * of_row(u) : 1; };
  const auto before = runs_map(
      blocks.rows(), blocks, [&](int b, int32_t) { return blocks.offsets()[static_cast<size_t>(b)]; }, [](int32_t u) { return u; },
      of_block);
  const auto own = runs_map(
      packing.rows(), blocks, [&](int b, int32_t u) { return packing.offsets()[static_cast<size_t>(b)] + u * block; },
      [](int32_t) { return 1; }, of_row);
  return ops::add(context, ops::sparse_rows(context, of_blocks, before), ops::sparse_rows(context, projected, own));
}

Variable SortNet::scores(Context& context, const Variable& projected, const Packing& packing, const Packing& blocks, int32_t block) {
  const Variable of_blocks = ops::sparse_rows(context, projected, block_map(packing, blocks, block, form_ == Form::attention));
  const Variable sums = causal_ ? up_to_first(context, of_blocks, projected, packing, blocks, block) : of_blocks;
  if (form_ == Form::linear) return output(context, sums, int64_t{heads_} * head_dim_, blocks);
  if (form_ == Form::two_layers) return output(context, hidden(context, sums), 0, blocks);
  const int64_t d = head_dim_, width = std::max(1, blocks.longest());
  std::vector<ProductGroup> groups;
  for (int b = 0; b < blocks.sequences(); ++b)
    for (int h = 0; h < heads_; ++h) {
      const int64_t row = blocks.offsets()[static_cast<size_t>(b)], m = blocks.length(b);
      if (m == 0) continue;
      groups.push_back({{row, m, h * d, d}, {row, m, (heads_ + h) * d, d}, {row, m, h * width, m}});
    }
  return ops::batched_product(context, sums, of_blocks, {blocks.rows(), heads_ * width}, std::move(groups),
                              {.transpose_b = true, .alpha = 1 / std::sqrt(static_cast<double>(head_dim_))});
}

std::vector<double> SortNet::dense_scores(const DenseInput& in, int32_t block, int32_t m) const {
  const auto d = static_cast<size_t>(in.head_dim), size = static_cast<size_t>(m), h = static_cast<size_t>(in.head - first_head_);
  std::vector<double> queries, keys, scores(size * size);
  const bool mean = form_ == Form::attention;
  // The sum, or the mean, of the rows that block u is known by, or of its own.
  const auto add_up = [&](std::span<const double> x, int32_t u, bool own, std::vector<double>& out) {
    std::vector<double> sum(d);
    double count = 0;
    for (int32_t i = 0; i < in.n; ++i) {
      if (causal_ && !own ? i > u * block : i / block != u) continue;
      for (size_t c = 0; c < d; ++c) sum[c] += x[static_cast<size_t>(i) * d + c];
      ++count;
    }
    for (const double s : sum) out.push_back(mean ? s / count : s);
  };
  for (int32_t u = 0; u < m; ++u) {
    add_up(in.q(), u, false, queries);
    add_up(in.k(), u, mean, keys);
  }
  for (size_t u = 0; u < size; ++u) {
    std::vector<double> x(keys.begin() + static_cast<std::ptrdiff_t>(u * d), keys.begin() + static_cast<std::ptrdiff_t>((u + 1) * d));
    if (form_ == Form::two_layers) {
      std::vector<double> up(d);
      for (size_t o = 0; o < d; ++o) {
        up[o] = value_of(*up_bias_, h * d + o);
        for (size_t c = 0; c < d; ++c) up[o] += value_of(*up_weight_, (h * d + o) * d + c) * x[c];
        up[o] = std::max(0.0, up[o]);
      }
      x = up;
    }
    for (size_t v = 0; v < size; ++v) {
      double& s = scores[u * size + v];
      if (form_ == Form::two_layers) s = value_of(*bias_, h * static_cast<size_t>(most_) + v);
      for (size_t c = 0; c < d; ++c)
        s += form_ == Form::attention ? queries[u * d + c] * keys[v * d + c] / std::sqrt(static_cast<double>(d))
                                      : x[c] * value_of(*weight_, (h * static_cast<size_t>(most_) + v) * d + c);
    }
  }
  return scores;
}

}  // namespace tapeformer::models
