// SPDX-License-Identifier: Apache-2.0
// Nystroemformer (Xiong, Zeng, Chakraborty, Tan, Fung, Li, Singh 2021, 2102.03902): softmax attention through m landmarks, which are the
// means of queries and of keys over m segments of a sequence. With F = softmax(Q K~'), A = softmax(Q~ K~'), B = softmax(Q~ K'), all scores
// divided by sqrt(D), the heads give F Z B V with Z the pseudo-inverse of A by a few iterations, plus a depthwise convolution of V along
// the positions. Sequences of at most m rows get full attention and the convolution. Segment s of n rows starts at row floor(s n / m).
#include <cmath>

#include "framework/ops/add.h"
#include "framework/ops/batched_product.h"
#include "framework/ops/columns.h"
#include "framework/ops/depthwise_conv.h"
#include "framework/ops/pseudo_inverse.h"
#include "framework/ops/softmax.h"
#include "framework/ops/sparse_rows.h"
#include "models/attention/dense.h"
#include "models/attention/fewer_keys.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct NystromSettings {
  int landmarks = 64;
  int iterations = 6;
  int kernel = 33;

  void read(config::Section& section) {
    section.field("landmarks", landmarks, config::between(1, 1 << 20), "segments of a sequence whose mean queries and keys stand for all");
    section.field("iterations", iterations, config::between(1, 100),
                  "of the pseudo-inverse; 6 as published, 15 to 20 for machine precision");
    section.field("kernel", kernel, config::between(0, 1 << 20),
                  "positions that the convolution of the values spans, odd; 0: no convolution");
    if (kernel > 0 && kernel % 2 == 0)
      section.fault("kernel", fmt::format("'{}' is {}, which has no middle", section.path("kernel"), kernel), "give an odd number, or 0");
  }
};

class Nystrom : public Heads {
 public:
  Nystrom(const nn::Builder&, const HeadSettings&, const NystromSettings&);
  HeadOutput forward(Context&, HeadInput&) override;
  void visit(nn::Visitor&) override;
  AttentionCost cost(const std::vector<int32_t>& lengths) const override;
  double pairs(int32_t n) const override { return static_cast<double>(n) * std::min(n, own_.landmarks); }
  std::vector<double> dense_weights(const DenseInput&) const override;

 private:
  Variable short_sequences(Context&, const HeadInput&) const;
  Variable long_sequences(Context&, const HeadInput&, const Variable& v) const;
  Variable landmarks(Context&, const Variable& x, const Packing&) const;
  int64_t columns() const { return int64_t{settings().heads} * settings().head_dim; }

  NystromSettings own_;
  std::optional<Parameter> convolution_;  // [heads, kernel]
};

Nystrom::Nystrom(const nn::Builder& build, const HeadSettings& s, const NystromSettings& own) : Heads(s), own_(own) {
  if (own.kernel == 0) return;
  // Uniform in +-1 / sqrt(kernel): Xavier's bound with the gain that makes it this one.
  const double gain = std::sqrt((s.heads + own.kernel) / (6.0 * own.kernel));
  convolution_ = build.xavier_uniform(s.name + ".convolution.weight", s.heads, own.kernel, gain);
}

// The mean of each segment of the sequences that have landmarks, in their order.
Variable Nystrom::landmarks(Context& context, const Variable& x, const Packing& packing) const {
  auto map = std::make_shared<RowMap>();
  map->rows = packing.rows();
  for (int b = 0; b < packing.sequences(); ++b) {
    const int64_t n = packing.length(b), m = own_.landmarks, offset = packing.offsets()[static_cast<size_t>(b)];
    for (int64_t s = 0; n > m && s < m; ++s) {
      const int64_t first = s * n / m, end = (s + 1) * n / m;
      for (int64_t i = first; i < end; ++i) {
        map->source.push_back(static_cast<int32_t>(offset + i));
        map->weight.push_back(1 / static_cast<double>(end - first));
      }
      map->begin.push_back(static_cast<int32_t>(map->source.size()));
    }
  }
  return ops::sparse_rows(context, x, std::move(map));
}

// Z B V of each head, as the values of the landmarks.
Variable corrected(Context& context, const Variable& q, const Variable& k, const Variable& seen, int64_t m, int64_t heads, double scale,
                   int iterations) {
  const int64_t d = q.value.shape()[1] / heads, sequences = q.value.shape()[0] / m;
  std::vector<ProductGroup> scores, products;
  for (int64_t l = 0; l < sequences; ++l)
    for (int64_t h = 0; h < heads; ++h) {
      const Block rows{l * m, m, h * d, d}, matrix{(l * heads + h) * m, m, 0, m};
      scores.push_back({rows, rows, matrix});
      products.push_back({matrix, rows, rows});
    }
  const Variable a = ops::batched_product(context, q, k, {sequences * heads * m, m}, scores, {.transpose_b = true, .alpha = scale});
  const Variable z = ops::pseudo_inverse(context, ops::softmax(context, a), iterations);
  return ops::batched_product(context, z, seen, q.value.shape(), products);
}

Variable Nystrom::long_sequences(Context& context, const HeadInput& input, const Variable& v) const {
  const Packing& packing = input.packing;
  std::vector<int32_t> lengths, own;
  for (int b = 0; b < packing.sequences(); ++b) {
    lengths.push_back(packing.length(b) > own_.landmarks ? own_.landmarks : 0);
    own.push_back(packing.length(b) > own_.landmarks ? packing.length(b) : 0);
  }
  const Packing& of_landmarks = packing.with_lengths(lengths);
  // The others take no part: their plans have neither queries nor keys.
  const auto plans = [&](bool landmarks_ask) {
    ops::AttentionPart part = full_part(landmarks_ask ? of_landmarks : packing, landmarks_ask ? packing : of_landmarks);
    const auto none = std::make_shared<const TilePlan>(full_plan(0, 0));
    for (size_t b = 0; b < part.size(); ++b)
      if (own[b] == 0) part[b] = none;
    return part;
  };
  const Variable q = ops::columns(context, input.projected, {{0, columns()}}),
                 k = ops::columns(context, input.projected, {{columns(), columns()}});
  const Variable mean_q = landmarks(context, q, packing), mean_k = landmarks(context, k, packing);
  const Variable seen = ops::cross_attention(context, mean_q, k, v, of_landmarks, packing, plans(true), softmax());
  const Variable values = corrected(context, mean_q, mean_k, seen, own_.landmarks, settings().heads, scale(), own_.iterations);
  return ops::cross_attention(context, q, mean_k, values, packing, of_landmarks, plans(false), softmax());
}

Variable Nystrom::short_sequences(Context& context, const HeadInput& input) const {
  ops::AttentionPart part = full_part(input.packing, input.packing);
  const auto none = std::make_shared<const TilePlan>(full_plan(0, 0));
  for (int b = 0; b < input.packing.sequences(); ++b)
    if (input.packing.length(b) > own_.landmarks) part[static_cast<size_t>(b)] = none;
  return ops::attention(context, input.projected, input.packing, part, softmax());
}

HeadOutput Nystrom::forward(Context& context, HeadInput& input) {
  bool any_short = false, any_long = false;
  for (int b = 0; b < input.packing.sequences(); ++b) (input.packing.length(b) > own_.landmarks ? any_long : any_short) = true;
  std::optional<Variable> v, o;
  if (any_long || convolution_) v = ops::columns(context, input.projected, {{2 * columns(), columns()}});
  if (any_long) o = long_sequences(context, input, *v);
  if (any_short || !any_long) {
    const Variable exact = short_sequences(context, input);
    o = o ? ops::add(context, *o, exact) : exact;
  }
  return convolution_ ? ops::depthwise_conv(context, *v, *convolution_, input.packing, *o) : *o;
}

void Nystrom::visit(nn::Visitor& visitor) {
  if (convolution_) visitor.parameter(*convolution_);
}

// F and B V 4 m D a row and head each, backward 10; each iteration 8 m^3, backward 16. Kept: the log-sum-exps of both, the landmarks'
// queries, keys and values, and A, Z and four matrices of each iteration.
AttentionCost Nystrom::cost(const std::vector<int32_t>& lengths) const {
  AttentionCost sum;
  const double heads = settings().heads, d = settings().head_dim, m = own_.landmarks, t = own_.iterations;
  for (const int32_t rows : lengths) {
    const double n = rows, convolved = 2 * n * own_.kernel * d * heads;
    sum += {convolved, 2 * convolved, 0};
    if (n <= m) sum += {4 * n * n * d * heads, 10 * n * n * d * heads, 4 * heads * n};
    else
      sum += {heads * (8 * n * m * d + 8 * t * m * m * m + 4 * m * m * d), heads * (20 * n * m * d + 16 * t * m * m * m + 8 * m * m * d),
              4 * heads * (n + m + 4 * m * d + (4 * t + 2) * m * m)};
  }
  return sum;
}

// For the oracle: matrices of doubles, row by row.
struct Dense {
  size_t rows, columns;
  std::vector<double> values;
  Dense(size_t r, size_t c) : rows(r), columns(c), values(r * c) {}
  double& operator()(size_t r, size_t c) { return values[r * columns + c]; }
  double operator()(size_t r, size_t c) const { return values[r * columns + c]; }
};

Dense times(const Dense& a, const Dense& b) {
  Dense c(a.rows, b.columns);
  for (size_t i = 0; i < a.rows; ++i)
    for (size_t k = 0; k < a.columns; ++k)
      for (size_t j = 0; j < b.columns; ++j) c(i, j) += a(i, k) * b(k, j);
  return c;
}

Dense probabilities(const Dense& q, const Dense& k) {
  Dense p(q.rows, k.rows);
  p.values = dense::softmax_weights(q.values, k.values, q.columns);
  return p;
}

// Every row falls into one segment: the last that does not start behind it.
Dense segment_means(const Dense& x, size_t m) {
  Dense sum(m, x.columns);
  std::vector<double> count(m);
  for (size_t i = 0; i < x.rows; ++i) {
    size_t s = m - 1;
    while (static_cast<size_t>(std::floor(static_cast<double>(s * x.rows) / static_cast<double>(m))) > i) --s;
    count[s] += 1;
    for (size_t c = 0; c < x.columns; ++c) sum(s, c) += x(i, c);
  }
  for (size_t s = 0; s < m; ++s)
    for (size_t c = 0; c < x.columns; ++c) sum(s, c) /= count[s];
  return sum;
}

// x I - a
Dense shifted(double x, const Dense& a) {
  Dense out(a.rows, a.columns);
  for (size_t i = 0; i < a.rows; ++i)
    for (size_t j = 0; j < a.columns; ++j) out(i, j) = (i == j ? x : 0) - a(i, j);
  return out;
}

Dense inverse_by_iteration(const Dense& a, int iterations) {
  double largest_column = 0, largest_row = 0;
  for (size_t i = 0; i < a.rows; ++i) {
    double row = 0, column = 0;
    for (size_t j = 0; j < a.rows; ++j) row += a(i, j), column += a(j, i);
    largest_row = std::max(largest_row, row);
    largest_column = std::max(largest_column, column);
  }
  Dense z(a.rows, a.rows);
  for (size_t i = 0; i < a.rows; ++i)
    for (size_t j = 0; j < a.rows; ++j) z(i, j) = a(j, i) / (largest_column * largest_row);
  for (int t = 0; t < iterations; ++t) {
    const Dense az = times(a, z);
    z = times(z, shifted(13, times(az, shifted(15, times(az, shifted(7, az))))));
    for (double& v : z.values) v /= 4;
  }
  return z;
}

std::vector<double> Nystrom::dense_weights(const DenseInput& in) const {
  const auto n = static_cast<size_t>(in.n), d = static_cast<size_t>(in.head_dim), m = static_cast<size_t>(own_.landmarks);
  Dense q(n, d), k(n, d);
  q.values.assign(in.q().begin(), in.q().end());
  k.values.assign(in.k().begin(), in.k().end());
  Dense w = probabilities(q, k);
  if (n > m) {
    const Dense mean_q = segment_means(q, m), mean_k = segment_means(k, m);
    w = times(times(probabilities(q, mean_k), inverse_by_iteration(probabilities(mean_q, mean_k), own_.iterations)),
              probabilities(mean_q, k));
  }
  if (!convolution_) return w.values;
  const Tensor kernels = convolution_->value.converted(Dtype::f64);
  const double* kernel = kernels.data<double>() + static_cast<int64_t>(in.head - settings().first_head) * own_.kernel;
  for (int64_t i = 0; i < in.n; ++i)
    for (int64_t t = 0; t < own_.kernel; ++t)
      if (const int64_t j = i + t - (own_.kernel - 1) / 2; j >= 0 && j < in.n)
        w(static_cast<size_t>(i), static_cast<size_t>(j)) += kernel[t];
  return w.values;
}

}  // namespace

AttentionVariant nystrom_variant() { return variant<Nystrom, NystromSettings>("nystrom", false); }

}  // namespace tapeformer::models
