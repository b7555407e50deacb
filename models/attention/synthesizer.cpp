// SPDX-License-Identifier: Apache-2.0
// Synthesizer (Tay, Bahri, Metzler, Juan, Zhao, Zheng 2020, 2005.00743): softmax attention whose scores are made from each row alone
// (dense), or are learned for each pair of positions (random), whole or as products of small factors; alone, or mixed with queries times
// keys.
#include <algorithm>
#include <cmath>

#include "framework/ops/activation.h"
#include "framework/ops/attention.h"
#include "framework/ops/batched_product.h"
#include "framework/ops/columns.h"
#include "framework/ops/extra_rows.h"
#include "framework/ops/multiply.h"
#include "framework/ops/softmax.h"
#include "framework/ops/synthetic_attention.h"
#include "models/attention/fewer_keys.h"
#include "models/attention/index_lists.h"
#include "models/attention/max_length.h"
#include "models/attention/ones.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

enum class Scores : uint8_t { dense, random, frozen_random, factorised_random, factorised_dense };
enum class Mixture : uint8_t { none, sum, alpha };

struct SynthesizerSettings {
  Scores mode = Scores::factorised_random;
  Mixture mixture = Mixture::none;
  int rank = 32;
  MaxLength max_length;

  void read(config::Section& section) {
    section.choice(
        "mode", mode,
        {{"dense", Scores::dense},
         {"random", Scores::random},
         {"frozen_random", Scores::frozen_random},
         {"factorised_random", Scores::factorised_random},
         {"factorised_dense", Scores::factorised_dense}},
        "dense: from each row by two layers; random: a number for each pair of positions, frozen as drawn or learned; factorised: from "
        "two small factors");
    section.choice("mixture", mixture, {{"none", Mixture::none}, {"sum", Mixture::sum}, {"alpha", Mixture::alpha}},
                   "sum: queries times keys are added; alpha: in learned shares");
    section.field("rank", rank, config::between(1, 1 << 20), "factorised_random: inner size of the product");
    max_length.read(section);
  }
  void check(config::Section& section, const Choice& choice) const {
    if (mode != Scores::factorised_random) section.unused("rank", section.path("mode"));
    max_length.check(section, choice);
  }
  bool reads_rows() const { return mode == Scores::dense || mode == Scores::factorised_dense; }
  // Only what takes part: queries stand for the first layer where scores are made from rows.
  std::vector<std::string> projections() const {
    if (mixture != Mixture::none) return query_key_value();
    if (reads_rows()) return {"query", "value"};
    return {"value"};
  }
};

// Columns that each head has of a variable [T, heads * width].
struct HeadColumns {
  Variable x;
  int64_t width;
};

class Synthesizer : public Heads {
 public:
  static constexpr bool can_be_causal = true;

  Synthesizer(const nn::Builder&, const HeadSettings&, const SynthesizerSettings&);
  HeadOutput forward(Context&, HeadInput&) override;
  void visit(nn::Visitor&) override;
  AttentionCost cost(const std::vector<int32_t>& lengths) const override;
  // Scores belong to positions, also those of learned rows in front, which see the rows up to themselves.
  bool in_pattern(int32_t, int, int32_t i, int32_t j) const override { return !settings().layer.causal || j <= i; }
  std::vector<double> dense_weights(const DenseInput&) const override;

 private:
  bool mixed() const { return own_.mixture != Mixture::none; }
  bool factored() const { return own_.mode == Scores::dense || own_.mode == Scores::factorised_random; }
  int64_t score_width() const;
  Variable shares(Context&);
  Variable share_of(Context&, const Variable& x, const Variable& shares, int which) const;
  Variable positions_of(Context&, Parameter&, const Packing&);
  Variable join(Context&, const std::vector<HeadColumns>& parts, int64_t width) const;
  Variable as_product(Context&, const Variable& q, const Variable& k, const Variable& v, const Variable& shares, const Packing&);
  Variable as_scores(Context&, const Variable& q, const Variable& k, const Variable& v, const Variable& shares, const Packing&);
  Variable factor(Context&, const Variable& rows, Parameter& weight, int64_t width) const;
  double dense_score(const DenseInput&, int head, int32_t i, int32_t j) const;

  SynthesizerSettings own_;
  int64_t length_, inner_ = 0, outer_ = 0;
  // dense: weight [length, heads * D] and bias [length, heads]; factorised_random: [length, heads * rank] twice; random: [heads * length,
  // length]; factorised_dense: [heads * inner, D] and [heads * outer, D]
  std::optional<Parameter> first_, second_, alpha_;
  std::optional<nn::Buffer> frozen_;  // as random
};

Synthesizer::Synthesizer(const nn::Builder& build, const HeadSettings& s, const SynthesizerSettings& own)
    : Heads(s), own_(own), length_(std::max<int64_t>(1, own.max_length.of(s.layer))) {
  const int64_t d = s.head_dim;
  const auto n = static_cast<double>(length_);
  // Xavier's bound for each head's [out, in], whatever the shape that holds all heads.
  const auto xavier = [&](const std::string& name, int64_t rows, int64_t columns, int64_t out, int64_t in) {
    return build.xavier_uniform(s.name + name, rows, columns,
                                std::sqrt(static_cast<double>(rows + columns) / static_cast<double>(out + in)));
  };
  switch (own.mode) {
    case Scores::dense:
      first_ = xavier(".scores.weight", length_, s.heads * d, length_, d);
      second_ = build.constant(s.name + ".scores.bias", {length_, s.heads}, 0);
      break;
    case Scores::random:
      first_ = build.normal(s.name + ".scores.table", {s.heads * length_, length_}, 1 / std::sqrt(n));
      break;
    case Scores::frozen_random:
      frozen_ = nn::Buffer{s.name + ".scores.table",
                           build.normal(s.name + ".scores.table", {s.heads * length_, length_}, 1 / std::sqrt(n)).value};
      break;
    case Scores::factorised_random: {
      // So that the products have the deviation 1 / sqrt(length) too.
      const double deviation = std::pow(n * own.rank, -0.25);
      first_ = build.normal(s.name + ".scores.queries", {length_, s.heads * own.rank}, deviation);
      second_ = build.normal(s.name + ".scores.keys", {length_, s.heads * own.rank}, deviation);
      break;
    }
    case Scores::factorised_dense:
      inner_ = static_cast<int64_t>(std::ceil(std::sqrt(n)));
      outer_ = (length_ + inner_ - 1) / inner_;
      first_ = xavier(".scores.inner", s.heads * inner_, d, inner_, d);
      second_ = xavier(".scores.outer", s.heads * outer_, d, outer_, d);
      break;
  }
  if (own.mixture == Mixture::alpha) alpha_ = build.constant(s.name + ".scores.alpha", {1, 1}, 0);
}

void Synthesizer::visit(nn::Visitor& visitor) {
  for (std::optional<Parameter>* p : {&first_, &second_, &alpha_})
    if (*p) visitor.parameter(**p);
  if (frozen_) visitor.buffer(*frozen_);
}

HeadOutput Synthesizer::forward(Context& context, HeadInput& input) {
  own_.max_length.check(input.packing, length_);
  const int64_t width = int64_t{settings().heads} * settings().head_dim, parts = input.projected.value.shape()[1] / width;
  const auto part = [&](int64_t p) { return ops::columns(context, input.projected, {{p * width, width}}); };
  const Variable v = part(parts - 1), q = parts > 1 ? part(0) : Variable{}, k = parts > 2 ? part(1) : Variable{};
  const Variable two = own_.mixture == Mixture::alpha ? shares(context) : Variable{};
  return factored() ? as_product(context, q, k, v, two, input.packing) : as_scores(context, q, k, v, two, input.packing);
}

// [sigmoid(a), 1 - sigmoid(a)], the softmax of a and 0.
Variable Synthesizer::shares(Context& context) {
  return ops::softmax(context,
                      ops::batched_product(context, *alpha_, ones(context, 1, 1), {1, 2}, {{{0, 1, 0, 1}, {0, 1, 0, 1}, {0, 1, 0, 1}}}));
}

// x times one of the shares, row by row; x itself where there are none.
Variable Synthesizer::share_of(Context& context, const Variable& x, const Variable& two, int which) const {
  if (!two.value.defined()) return x;
  std::vector<ProductGroup> groups;
  for (int64_t r = 0; r < x.value.shape()[0]; ++r) {
    const Block row{r, 1, 0, x.value.shape()[1]};
    groups.push_back({{0, 1, which, 1}, row, row});
  }
  return ops::batched_product(context, two, x, x.value.shape(), std::move(groups));
}

// For each row of the packing, the parameter's row of its position.
Variable Synthesizer::positions_of(Context& context, Parameter& p, const Packing& packing) {
  return ops::sparse_rows(context, ops::parameter(context, p), std::make_shared<const RowMap>(gather_map(length_, packing.positions())));
}

// The columns of each head side by side, followed by zeros up to `width` a head.
Variable Synthesizer::join(Context& context, const std::vector<HeadColumns>& parts, int64_t width) const {
  std::vector<Variable> joined;
  int64_t used = 0;
  for (const HeadColumns& part : parts) used += part.width;
  const int64_t rows = parts[0].x.value.shape()[0];
  const Variable zeros{used < width ? Tensor::zeros(context.dtype, {rows, width - used}) : Tensor(), no_node};
  for (int64_t h = 0; h < settings().heads; ++h) {
    for (const HeadColumns& part : parts) joined.push_back(ops::columns(context, part.x, {{h * part.width, part.width}}));
    if (zeros.value.defined()) joined.push_back(zeros);
  }
  return ops::join_columns(context, joined);
}

int64_t Synthesizer::score_width() const {
  const int64_t d = settings().head_dim;
  return (own_.mode == Scores::dense ? d + 1 : own_.mode == Scores::factorised_random ? own_.rank : 0) + (mixed() ? d : 0);
}

// Scores that are products of longer rows: relu(q), 1 by W, b of the key's position; the two factors of a table; beside them q by k.
Variable Synthesizer::as_product(Context& context, const Variable& q, const Variable& k, const Variable& v, const Variable& two,
                                 const Packing& packing) {
  const HeadSettings& s = settings();
  const int64_t d = s.head_dim;
  std::vector<HeadColumns> queries, keys;
  const auto add = [&](const Variable& query, const Variable& key, int64_t width) {
    queries.push_back({share_of(context, query, two, 0), width});
    keys.push_back({key, width});
  };
  if (own_.mode == Scores::dense) {
    add(ops::activation(context, Activation::relu, q), positions_of(context, *first_, packing), d);
    add(ones(context, packing.rows(), s.heads), positions_of(context, *second_, packing), 1);
  } else {
    add(positions_of(context, *first_, packing), positions_of(context, *second_, packing), own_.rank);
  }
  if (mixed()) {
    queries.push_back({share_of(context, ops::scale(context, q, scale()), two, 1), d});
    keys.push_back({k, d});
  }
  const int64_t width = std::max(d, score_width());
  ops::AttentionSettings how = softmax();
  how.scale = 1;
  const ops::AttentionPart pattern =
      settings().layer.causal ? prefix_part(packing, packing, [](int32_t, int32_t i) { return i + 1; }) : full_part(packing, packing);
  const Variable o = ops::attention(context, join(context, queries, width), join(context, keys, width), join(context, {{v, d}}, width),
                                    packing, pattern, how);
  if (width == d) return o;
  std::vector<ops::ColumnRange> values;
  for (int64_t h = 0; h < s.heads; ++h) values.push_back({h * width, d});
  return ops::columns(context, o, values);
}

// relu(q) of each head by its weights [width, D]: [T, heads * width].
Variable Synthesizer::factor(Context& context, const Variable& rows, Parameter& weight, int64_t width) const {
  const int64_t d = settings().head_dim, t = rows.value.shape()[0];
  std::vector<ProductGroup> groups;
  for (int64_t h = 0; h < settings().heads && t > 0; ++h)
    groups.push_back({{0, t, h * d, d}, {h * width, width, 0, d}, {0, t, h * width, width}});
  return ops::batched_product(context, rows, weight, {t, settings().heads * width}, std::move(groups), {.transpose_b = true});
}

Variable Synthesizer::as_scores(Context& context, const Variable& q, const Variable& k, const Variable& v, const Variable& two,
                                const Packing& packing) {
  ops::SyntheticScores scores;
  scores.causal = settings().layer.causal;
  if (own_.mode == Scores::factorised_dense) {
    const Variable rows = ops::activation(context, Activation::relu, q);
    scores.first = share_of(context, factor(context, rows, *first_, inner_), two, 0);
    scores.second = factor(context, rows, *second_, outer_);
  } else {
    const Variable table = frozen_ ? Variable{frozen_->value, no_node} : ops::parameter(context, *first_);
    scores.table = share_of(context, table, two, 0);
  }
  if (mixed()) {
    scores.q = share_of(context, q, two, 1);
    scores.k = k;
  }
  return ops::synthetic_attention(context, scores, v, packing, softmax());
}

// Products of all pairs of a head with rows of the scores' width E and of the values' D: 2 E + 2 D forward; backward the scores again, dP,
// dV and two for the factors. A table or two short rows take a few FLOPs a pair; only what stands beside them is a product.
AttentionCost Synthesizer::cost(const std::vector<int32_t>& lengths) const {
  AttentionCost sum;
  const double d = settings().head_dim, e = static_cast<double>(score_width()), heads = settings().heads;
  const double width = factored() ? std::max(d, e) : 0;
  for (const int32_t rows : lengths) {
    const double n = rows, looked = heads * pairs(rows), backward = factored() ? 6 * e + 4 * d : 4 * d + 1 + 6 * e;
    sum += {looked * (2 * e + 2 * d), looked * backward, 4 * heads * n * (3 * width + (factored() ? 1 : 0) + d)};
  }
  return sum;
}

double Synthesizer::dense_score(const DenseInput& in, int h, int32_t i, int32_t j) const {
  const auto at = [](const Tensor& t, int64_t r, int64_t c) {
    const int64_t place = r * t.shape()[1] + c;
    return t.dtype() == Dtype::f64 ? t.data<double>()[place] : static_cast<double>(t.data<float>()[place]);
  };
  const int64_t d = in.head_dim;
  const auto relu = [&](int64_t c) { return std::max(0.0, in.q()[static_cast<size_t>(i * d + c)]); };
  if (frozen_) return at(frozen_->value, h * length_ + i, j);
  const Tensor& first = first_->value;
  double s = 0, t = 0;
  switch (own_.mode) {
    case Scores::dense:
      s = at(second_->value, j, h);
      for (int64_t c = 0; c < d; ++c) s += relu(c) * at(first, j, h * d + c);
      return s;
    case Scores::factorised_random:
      for (int64_t c = 0; c < own_.rank; ++c) s += at(first, i, h * own_.rank + c) * at(second_->value, j, h * own_.rank + c);
      return s;
    case Scores::factorised_dense:
      for (int64_t c = 0; c < d; ++c) {
        s += relu(c) * at(first, h * inner_ + j % inner_, c);
        t += relu(c) * at(second_->value, h * outer_ + j / inner_, c);
      }
      return s * t;
    default:
      return at(first, h * length_ + i, j);
  }
}

std::vector<double> Synthesizer::dense_weights(const DenseInput& in) const {
  const auto n = static_cast<size_t>(in.n), d = static_cast<size_t>(in.head_dim);
  std::vector<double> w(n * n);
  double share = 1, other = mixed() ? 1 : 0;
  if (alpha_) {
    const double a =
        alpha_->value.dtype() == Dtype::f64 ? alpha_->value.data<double>()[0] : static_cast<double>(alpha_->value.data<float>()[0]);
    share = 1 / (1 + std::exp(-a));
    other = 1 - share;
  }
  for (size_t i = 0; i < n; ++i) {
    double sum = 0;
    const size_t seen = settings().layer.causal ? i + 1 : n;
    for (size_t j = 0; j < seen; ++j) {
      double dot = 0;
      for (size_t c = 0; c < d && mixed(); ++c) dot += in.q()[i * d + c] * in.k()[j * d + c] / std::sqrt(static_cast<double>(d));
      const double s =
          share * dense_score(in, in.head - settings().first_head, static_cast<int32_t>(i), static_cast<int32_t>(j)) + other * dot;
      sum += w[i * n + j] = std::exp(s);
    }
    for (size_t j = 0; j < seen; ++j) w[i * n + j] /= sum;
  }
  return w;
}

}  // namespace

AttentionVariant synthesizer_variant() { return variant<Synthesizer, SynthesizerSettings>("synthesizer", true); }

}  // namespace tapeformer::models
