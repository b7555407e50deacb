// SPDX-License-Identifier: Apache-2.0
// Linformer (Wang, Li, Khabsa, Fang, Ma 2020, 2006.04768): learned matrices E and F [rank, max_length] press the keys and values of a
// sequence into `rank` slots along its positions, K~ = E K and V~ = F V, and every row looks at all slots: softmax(Q K~' / sqrt(D)) V~. A
// sequence of n rows uses the first n columns. Biases of the projections are pressed with the keys, as K and V are projected first.
#include <cmath>
#include <numbers>

#include "framework/ops/batched_product.h"
#include "framework/ops/columns.h"
#include "framework/ops/sparse_rows.h"
#include "models/attention/dense.h"
#include "models/attention/fewer_keys.h"
#include "models/attention/max_length.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

enum class Share : uint8_t { none, head, kv, layer };

struct LinformerSettings {
  int rank = 256;
  MaxLength max_length;
  Share share = Share::kv;
  bool length_scale = false;

  void read(config::Section&);
  void check(config::Section& section, const Choice& choice) const { max_length.check(section, choice); }
};

void LinformerSettings::read(config::Section& section) {
  section.field("rank", rank, config::between(1, 1 << 20), "slots that the keys and values of a sequence are pressed into");
  max_length.read(section);
  section.choice("share", share, {{"none", Share::none}, {"head", Share::head}, {"kv", Share::kv}, {"layer", Share::layer}},
                 "none: matrices for each head's keys and values; head: for keys and values; kv: one a layer; layer: one for all layers");
  section.field("length_scale", length_scale, "multiply by sqrt(max_length / n), so that short sequences keep the variance of the longest");
}

class Linformer : public Heads {
 public:
  Linformer(const nn::Builder&, const HeadSettings&, const LinformerSettings&);
  HeadOutput forward(Context&, HeadInput&) override;
  void visit(nn::Visitor&) override;
  AttentionCost cost(const std::vector<int32_t>& lengths) const override;
  double pairs(int32_t n) const override { return static_cast<double>(n) * own_.rank; }
  std::vector<double> dense_weights(const DenseInput&) const override;
  std::vector<double> dense_output(const DenseInput&) const override;

 private:
  int64_t columns() const { return int64_t{settings().heads} * settings().head_dim; }
  int64_t matrices() const { return own_.share == Share::none ? 2 * settings().heads : own_.share == Share::head ? 2 : 1; }
  double length_factor(int32_t n) const { return own_.length_scale ? std::sqrt(static_cast<double>(max_length_) / n) : 1; }
  Parameter make(const nn::Builder&, const std::string& name) const;
  std::pair<std::vector<double>, std::vector<double>> dense_slots(const DenseInput&) const;
  Variable press(Context&, const HeadInput&);

  LinformerSettings own_;
  int64_t max_length_;
  // [matrices() * rank, max_length], one below the other: of the keys of every head, then of the values, as far as they differ.
  nn::SharedParameter compression_;
};

Linformer::Linformer(const nn::Builder& build, const HeadSettings& s, const LinformerSettings& own)
    : Heads(s), own_(own), max_length_(own.max_length.of(s.layer)) {
  if (own.share != Share::layer) {
    const std::string name = s.name + ".compression";
    compression_ = {std::make_shared<Parameter>(make(build, name)), true};
    return;
  }
  const std::string name = "encoder.linformer.compression";
  compression_ = build.shared(name, [&] { return make(build, name); });
  const Shape& shape = compression_.parameter->value.shape();
  if (shape != Shape{own.rank, max_length_})
    fail(ExitCode::usage, "{}: 'rank' {} and '{}' {}, but the layers that it shares a matrix with have {}; give them the same", s.name,
         own.rank, own.max_length.key, max_length_, shape.text());
}

// Each matrix by itself with gain 1 / sqrt(2), as fairseq does.
Parameter Linformer::make(const nn::Builder& build, const std::string& name) const {
  Parameter p = build.constant(name, {matrices() * own_.rank, max_length_}, 0);
  for (int64_t m = 0; m < matrices(); ++m)
    nn::fill_xavier_uniform(build.seed, matrices() == 1 ? name : fmt::format("{}.{}", name, m), p.value.rows(m * own_.rank, own_.rank),
                            1 / std::numbers::sqrt2);
  return p;
}

// [rank * B, 2 * heads * D]: the slots of the keys and of the values side by side. Neighbouring columns under one matrix are one product.
Variable Linformer::press(Context& context, const HeadInput& input) {
  own_.max_length.check(input.packing, max_length_);
  const int64_t r = own_.rank, width = 2 * columns() / matrices();
  std::vector<ProductGroup> groups;
  RowMap factors;
  for (int b = 0; b < input.packing.sequences(); ++b) {
    const int32_t n = input.packing.length(b);
    const int64_t first = input.packing.offsets()[static_cast<size_t>(b)];
    for (int64_t m = 0; m < matrices(); ++m)
      groups.push_back({{m * r, r, 0, n}, {first, n, columns() + m * width, width}, {b * r, r, m * width, width}});
    for (int64_t s = 0; s < r; ++s) {
      factors.source.push_back(static_cast<int32_t>(b * r + s));
      factors.weight.push_back(length_factor(std::max(1, n)));
      factors.begin.push_back(static_cast<int32_t>(factors.source.size()));
    }
  }
  factors.rows = factors.result_rows();
  const Variable slots = ops::batched_product(context, *compression_.parameter, input.projected, {factors.rows, 2 * columns()}, groups);
  return own_.length_scale ? ops::sparse_rows(context, slots, std::make_shared<const RowMap>(std::move(factors))) : slots;
}

HeadOutput Linformer::forward(Context& context, HeadInput& input) {
  const Packing& slots = input.packing.rows_each(own_.rank);
  const Variable pressed = press(context, input);
  return ops::cross_attention(context, ops::columns(context, input.projected, {{0, columns()}}),
                              ops::columns(context, pressed, {{0, columns()}}), ops::columns(context, pressed, {{columns(), columns()}}),
                              input.packing, slots, full_part(input.packing, slots), softmax());
}

void Linformer::visit(nn::Visitor& visitor) {
  if (compression_.made_here) visitor.parameter(*compression_.parameter);
}

// Pressing 4 r D a row and head, looking 4 r D; backward twice and two and a half times as much. The log-sum-exp and the slots are kept.
AttentionCost Linformer::cost(const std::vector<int32_t>& lengths) const {
  AttentionCost sum;
  const double heads = settings().heads, d = settings().head_dim, r = own_.rank;
  for (const int32_t n : lengths) sum += {8 * n * r * d * heads, 18 * n * r * d * heads, 4 * heads * (n + 2 * r * d)};
  return sum;
}

// Pressed keys E k [r,D], and F [r,n], both cut to n columns.
std::pair<std::vector<double>, std::vector<double>> Linformer::dense_slots(const DenseInput& in) const {
  const auto n = static_cast<size_t>(in.n), d = static_cast<size_t>(in.head_dim), r = static_cast<size_t>(own_.rank);
  const Tensor all = compression_.parameter->value.converted(Dtype::f64);
  const auto entry = [&](size_t part, size_t slot, size_t j) {
    const size_t head = static_cast<size_t>(in.head - settings().first_head), heads = static_cast<size_t>(settings().heads);
    const size_t matrix = own_.share == Share::none ? part * heads + head : own_.share == Share::head ? part : 0;
    const double value = all.data<double>()[(matrix * r + slot) * static_cast<size_t>(max_length_) + j];
    return own_.length_scale ? value * std::sqrt(static_cast<double>(max_length_) / static_cast<double>(n)) : value;
  };
  std::vector<double> keys(r * d), values(r * n);
  for (size_t slot = 0; slot < r; ++slot)
    for (size_t j = 0; j < n; ++j) {
      for (size_t c = 0; c < d; ++c) keys[slot * d + c] += entry(0, slot, j) * in.k()[j * d + c];
      values[slot * n + j] = entry(1, slot, j);
    }
  return {keys, values};
}

// softmax(q (E k)' / sqrt(D)) F for one head.
std::vector<double> Linformer::dense_weights(const DenseInput& in) const {
  const auto [keys, values] = dense_slots(in);
  return dense::weighted(dense::softmax_weights(in.q(), keys, static_cast<size_t>(in.head_dim)), values, static_cast<size_t>(in.n));
}

// The same times v, where dropout is of slots.
std::vector<double> Linformer::dense_output(const DenseInput& in) const {
  if (in.n == 0) return {};
  const auto [keys, values] = dense_slots(in);
  const auto d = static_cast<size_t>(in.head_dim);
  std::vector<double> weights = dense::softmax_weights(in.q(), keys, d);
  dense::drop(weights, static_cast<size_t>(own_.rank), in.kept);
  return dense::weighted(weights, dense::weighted(values, in.v(), d), d);
}

}  // namespace

AttentionVariant linformer_variant() { return variant<Linformer, LinformerSettings>("linformer", true); }

}  // namespace tapeformer::models
