// SPDX-License-Identifier: Apache-2.0
// Luna, linear unified nested attention (Ma, Kong, Wang, Zhou, May, Ma, Zettlemoyer 2021, 2106.01540; code: XuezheMax/fairseq-apollo). A
// second stream P of l rows runs beside the rows X of each sequence. Pack: P' = Attention(P, X), without output projection. Unpack: Y =
// Attention(X, P'). The next layer's P is Norm(P + P'), with a norm of its own. The first P is learned, plus sinusoids. P is no part of the
// packed rows, as other variants' extra rows are: those go through the norms and feed-forwards of the encoder's layers, which P does not.
// So it is handed from layer to layer apart (Sublayer::second_stream).
#include <cmath>

#include "framework/ops/add.h"
#include "framework/ops/dropout.h"
#include "framework/ops/embedding.h"
#include "framework/ops/extra_rows.h"
#include "models/attention/dense.h"
#include "models/attention/point_attention.h"
#include "models/attention/stacked_linear.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct LunaSettings {
  int points = 32;
  bool tie_kv = true;

  void read(config::Section& section) {
    section.field("points", points, config::between(1, 1 << 20), "rows of the second stream, for sequences of any length");
    section.field("tie_kv", tie_kv, "one projection for keys and values, in both directions");
  }
};

class Luna : public Attention {
 public:
  Luna(const nn::Builder&, const std::string& name, const AttentionSettings&, const LunaSettings&);
  AttentionOutput forward(Context&, const Variable& x, const Packing&, const Sublayer&) override;
  void visit(nn::Visitor&) override;
  AttentionCost cost(const std::vector<int32_t>& lengths) const override;
  int projections() const override { return own_.tie_kv ? 3 : 4; }
  double pairs(int32_t n) const override { return static_cast<double>(n) * own_.points; }
  // Of pack and unpack one after the other, each head with the head of its number.
  Tensor weights(Context&, const Variable& x, const Packing&, const Sublayer&) override;
  InputReaders input_readers() override { return InputReaders{{{of_rows_.weight().value, of_rows_.bias().value}}}; }
  std::vector<double> dense_output(int32_t n, std::span<const double> x) const override;

 private:
  // The stream that comes from the layer before, or where it starts: [l * B, C].
  Variable stream_of(Context&, const Packing&, const Sublayer&);
  Variable pack(Context&, const Variable& asks, const Variable& rows, const Packing&) const;
  // Of the projections in of_rows_ and of_packed_.
  int pack_value() const { return own_.tie_kv ? 0 : 1; }
  int query() const { return own_.tie_kv ? 1 : 2; }

  std::string name_;
  AttentionSettings settings_;
  LunaSettings own_;
  PointAttention through_;      // pack: gather, unpack: give back
  nn::SharedParameter points_;  // [l,C], of all layers: where the stream starts
  nn::Linear pack_query_;       // of the stream
  StackedLinear of_rows_;       // the pack's key and value, the unpack's query
  StackedLinear of_packed_;     // the unpack's key and value
  nn::Linear output_;
  nn::LayerNorm stream_norm_;
};

std::vector<std::string> rows_projections(const std::string& name, bool tied) {
  if (tied) return {name + ".pack.key_value", name + ".query"};
  return {name + ".pack.key", name + ".pack.value", name + ".query"};
}
std::vector<std::string> packed_projections(const std::string& name, bool tied) {
  if (tied) return {name + ".key_value"};
  return {name + ".key", name + ".value"};
}

Luna::Luna(const nn::Builder& build, const std::string& name, const AttentionSettings& s, const LunaSettings& own)
    : name_(name),
      settings_(s),
      own_(own),
      through_(name, s, own.points),
      points_(build.shared("encoder.luna.points",
                           [&] {
                             return build.normal("encoder.luna.points", {own.points, s.dim}, 1 / std::sqrt(static_cast<double>(s.dim)));
                           })),
      pack_query_(build, name + ".pack.query", s.dim, s.dim, projection_gain),
      of_rows_(build, rows_projections(name, own.tie_kv), s.dim, s.dim),
      of_packed_(build, packed_projections(name, own.tie_kv), s.dim, s.dim),
      output_(build, name + ".output", s.dim, s.dim),
      stream_norm_(build, name + ".stream_norm", s.dim, s.norm_epsilon) {}

Variable Luna::stream_of(Context& context, const Packing& packing, const Sublayer& around) {
  if (around.second_stream && around.second_stream->value.defined()) return *around.second_stream;
  const Variable points = through_.repeated(context, ops::parameter(context, *points_.parameter), packing);
  return ops::add_sinusoidal_positions(context, points, packing.rows_each(own_.points));
}

// What the stream's queries see of the rows, whose projections are given.
Variable Luna::pack(Context& context, const Variable& asks, const Variable& rows, const Packing& packing) const {
  return through_.gather(context, asks, through_.part(context, rows, 0), through_.part(context, rows, pack_value()), packing);
}

AttentionOutput Luna::forward(Context& context, const Variable& x, const Packing& packing, const Sublayer& around) {
  const Variable stream = stream_of(context, packing, around);
  LayerInput input(x, packing, around.norm);
  const Variable rows = input.project(context, of_rows_.weight(), &of_rows_.bias());
  const Variable packed = pack(context, pack_query_.forward(context, stream), rows, packing);
  const Variable keys = of_packed_.forward(context, packed);
  const Variable o = through_.give_back(context, through_.part(context, rows, query()), through_.part(context, keys, 0),
                                        through_.part(context, keys, pack_value()), packing);
  if (context.inspect) context.inspect(name_, o.value);
  if (around.second_stream) {
    const DropoutDraw drop = context.dropout(around.dropout, "dropout", name_ + ".pack", packing.rows_each(own_.points));
    *around.second_stream = stream_norm_.forward(context, ops::add(context, stream, ops::dropout(context, packed, drop)));
  }
  const DropoutDraw dropout = context.dropout(around.dropout, "dropout", name_, packing);
  return {ops::linear_residual(context, o, output_.weight, &output_.bias, dropout, around.residual), {}};
}

Tensor Luna::weights(Context& context, const Variable& x, const Packing& packing, const Sublayer& around) {
  LayerInput input(x, packing, around.norm);
  const Variable rows = input.project(context, of_rows_.weight(), &of_rows_.bias());
  const Variable asks = pack_query_.forward(context, stream_of(context, packing, around));
  const Variable keys = of_packed_.forward(context, pack(context, asks, rows, packing));
  return through_.weights(context, asks, through_.part(context, rows, 0), through_.part(context, rows, query()),
                          through_.part(context, keys, 0), packing);
}

void Luna::visit(nn::Visitor& visitor) {
  if (points_.made_here) visitor.parameter(*points_.parameter);
  pack_query_.visit(visitor);
  of_rows_.visit(visitor);
  of_packed_.visit(visitor);
  output_.visit(visitor);
  stream_norm_.visit(visitor);
}

// Both attentions 4 D a row, point and head forward and 10 D backward; the stream's projections. Kept: two log-sum-exps, and of the stream
// the query, what was packed, its key and value, and the stream itself.
AttentionCost Luna::cost(const std::vector<int32_t>& lengths) const {
  AttentionCost sum;
  const double c = static_cast<double>(settings_.dim), l = own_.points, heads = settings_.heads;
  const double projections = own_.tie_kv ? 4 : 6, kept = own_.tie_kv ? 4 : 5;
  for (const int32_t n : lengths)
    sum += {8 * n * l * c + projections * l * c * c, 20 * n * l * c + 2 * projections * l * c * c, 4 * (heads * (n + l) + kept * l * c)};
  return sum;
}

std::vector<double> Luna::dense_output(int32_t, std::span<const double> x) const {
  const auto c = static_cast<size_t>(settings_.dim), heads = static_cast<size_t>(settings_.heads);
  auto& self = const_cast<Luna&>(*this);
  const auto of = [&](const dense::Rows& in, StackedLinear& l, size_t i) { return dense::linear(in, l.weight(), l.bias(), i * c, c); };
  dense::Rows stream = dense::rows(*points_.parameter);
  for (size_t r = 0; r < stream.count; ++r)
    for (size_t i = 0; i < c; ++i) {
      const double angle = static_cast<double>(r) / std::pow(1e4, static_cast<double>(i / 2 * 2) / static_cast<double>(c));
      stream.values[r * c + i] += i % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  const dense::Rows rows = dense::rows(x, c);
  const size_t value = own_.tie_kv ? 0 : 1;
  const dense::Rows packed = dense::attention(dense::linear(stream, pack_query_.weight, pack_query_.bias, 0, c), of(rows, self.of_rows_, 0),
                                              of(rows, self.of_rows_, value), heads);
  const dense::Rows o =
      dense::attention(of(rows, self.of_rows_, value + 1), of(packed, self.of_packed_, 0), of(packed, self.of_packed_, value), heads);
  return dense::linear(o, output_.weight, output_.bias, 0, c).values;
}

}  // namespace

AttentionVariant luna_variant() { return variant<Luna, LunaSettings>("luna", true); }

}  // namespace tapeformer::models
