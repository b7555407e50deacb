// SPDX-License-Identifier: Apache-2.0
// Induced points, the ISAB of the Set Transformer (Lee, Lee, Kim, Kosiorek, Choi, Teh 2019, 1810.00825) in its attention-only form: learned
// points I [m,C] look at all rows, H = Attention(I, X), and all rows look at what the points gathered, Y = Attention(X, H). Both are whole
// attention layers with scores divided by sqrt(D); there is no residual, norm or feed-forward between them.

#include "framework/ops/extra_rows.h"
#include "models/attention/dense.h"
#include "models/attention/point_attention.h"
#include "models/attention/stacked_linear.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct InducedSettings {
  int points = 32;

  void read(config::Section& section) {
    section.field("points", points, config::between(1, 1 << 20), "learned points that gather from a sequence and give back to it");
  }
};

class Induced : public Attention {
 public:
  Induced(const nn::Builder&, const std::string& name, const AttentionSettings&, const InducedSettings&);
  AttentionOutput forward(Context&, const Variable& x, const Packing&, const Sublayer&) override;
  void visit(nn::Visitor&) override;
  AttentionCost cost(const std::vector<int32_t>& lengths) const override;
  int projections() const override { return 4; }
  double pairs(int32_t n) const override { return static_cast<double>(n) * own_.points; }
  // Of the two attentions one after the other, each head with the head of its number.
  Tensor weights(Context&, const Variable& x, const Packing&, const Sublayer&) override;
  InputReaders input_readers() override { return InputReaders{{{of_rows_.weight().value, of_rows_.bias().value}}}; }
  std::vector<double> dense_output(int32_t n, std::span<const double> x) const override;

 private:
  // The queries of the points, the same for every sequence: [m * B, C].
  Variable asks(Context&, const Packing&);
  // What the points saw, projected: key and value of the second attention.
  Variable of_points(Context&, const Variable& asks, const Variable& rows, const Packing&);

  std::string name_;
  AttentionSettings settings_;
  InducedSettings own_;
  PointAttention through_;
  Parameter points_;         // [m,C]
  nn::Linear gather_query_;  // of the points
  StackedLinear of_rows_;    // key and value of the first attention, query of the second
  nn::Linear gather_output_;
  StackedLinear of_gathered_;  // key and value of the second
  nn::Linear output_;
};

Induced::Induced(const nn::Builder& build, const std::string& name, const AttentionSettings& s, const InducedSettings& own)
    : name_(name),
      settings_(s),
      own_(own),
      through_(name, s, own.points),
      points_(build.xavier_uniform(name + ".points", own.points, s.dim, 1)),
      gather_query_(build, name + ".gather.query", s.dim, s.dim, projection_gain),
      of_rows_(build, {name + ".gather.key", name + ".gather.value", name + ".query"}, s.dim, s.dim),
      gather_output_(build, name + ".gather.output", s.dim, s.dim),
      of_gathered_(build, {name + ".key", name + ".value"}, s.dim, s.dim),
      output_(build, name + ".output", s.dim, s.dim) {}

Variable Induced::asks(Context& context, const Packing& packing) {
  return through_.repeated(context, gather_query_.forward(context, ops::parameter(context, points_)), packing);
}

Variable Induced::of_points(Context& context, const Variable& asks, const Variable& rows, const Packing& packing) {
  const Variable gathered = through_.gather(context, asks, through_.part(context, rows, 0), through_.part(context, rows, 1), packing);
  return of_gathered_.forward(context, gather_output_.forward(context, gathered));
}

AttentionOutput Induced::forward(Context& context, const Variable& x, const Packing& packing, const Sublayer& around) {
  LayerInput input(x, packing, around.norm);
  const Variable rows = input.project(context, of_rows_.weight(), &of_rows_.bias());
  const Variable points = of_points(context, asks(context, packing), rows, packing);
  const Variable o = through_.give_back(context, through_.part(context, rows, 2), through_.part(context, points, 0),
                                        through_.part(context, points, 1), packing);
  if (context.inspect) context.inspect(name_, o.value);
  const DropoutDraw dropout = context.dropout(around.dropout, "dropout", name_, packing);
  return {ops::linear_residual(context, o, output_.weight, &output_.bias, dropout, around.residual), {}};
}

Tensor Induced::weights(Context& context, const Variable& x, const Packing& packing, const Sublayer& around) {
  LayerInput input(x, packing, around.norm);
  const Variable rows = input.project(context, of_rows_.weight(), &of_rows_.bias());
  const Variable queries = asks(context, packing), points = of_points(context, queries, rows, packing);
  return through_.weights(context, queries, through_.part(context, rows, 0), through_.part(context, rows, 2),
                          through_.part(context, points, 0), packing);
}

void Induced::visit(nn::Visitor& visitor) {
  visitor.parameter(points_);
  gather_query_.visit(visitor);
  of_rows_.visit(visitor);
  gather_output_.visit(visitor);
  of_gathered_.visit(visitor);
  output_.visit(visitor);
}

// Both attentions 4 D a row, point and head forward and 10 D backward; three projections of the points for each sequence. Kept: two
// log-sum-exps, the points' queries, what they gathered, and their projections.
AttentionCost Induced::cost(const std::vector<int32_t>& lengths) const {
  AttentionCost sum;
  const double c = static_cast<double>(settings_.dim), m = own_.points, heads = settings_.heads;
  for (const int32_t n : lengths)
    sum += {8 * n * m * c + 6 * m * c * c, 20 * n * m * c + 12 * m * c * c, 4 * (heads * (n + m) + 5 * m * c)};
  return sum;
}

std::vector<double> Induced::dense_output(int32_t, std::span<const double> x) const {
  const auto c = static_cast<size_t>(settings_.dim), heads = static_cast<size_t>(settings_.heads);
  auto& self = const_cast<Induced&>(*this);
  const auto of = [&](const dense::Rows& in, StackedLinear& l, size_t i) { return dense::linear(in, l.weight(), l.bias(), i * c, c); };
  const dense::Rows rows = dense::rows(x, c);
  const dense::Rows query = dense::linear(dense::rows(points_), gather_query_.weight, gather_query_.bias, 0, c);
  const dense::Rows seen = dense::attention(query, of(rows, self.of_rows_, 0), of(rows, self.of_rows_, 1), heads);
  const dense::Rows points = dense::linear(seen, gather_output_.weight, gather_output_.bias, 0, c);
  const dense::Rows o =
      dense::attention(of(rows, self.of_rows_, 2), of(points, self.of_gathered_, 0), of(points, self.of_gathered_, 1), heads);
  return dense::linear(o, output_.weight, output_.bias, 0, c).values;
}

}  // namespace

AttentionVariant induced_variant() { return variant<Induced, InducedSettings>("induced", true); }

}  // namespace tapeformer::models
