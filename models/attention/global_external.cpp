// SPDX-License-Identifier: Apache-2.0
// Global attention by extra learned rows (Ainslie et al. 2020, 2004.08483, whose global rows come from the text's structure; here they are
// learned constants): they see and are seen by all, a row of the sequence sees them and its window. They run through all layers, or each
// layer has its own and forgets what became of them.
#include "framework/ops/extra_rows.h"
#include "models/attention/dense.h"
#include "models/attention/global_heads.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

constexpr double deviation = 0.02;  // of the rows' start

struct GlobalExternalSettings {
  int count = 16;
  bool carry = true;
  int left = 0, right = 0;

  void read(config::Section& section) {
    const auto size = config::between(0, 1 << 30);
    section.field("count", count, config::between(1, 1 << 16), "learned rows in front of each sequence");
    section.field("carry", carry, "true: the rows run through all layers; false: each layer has its own, seen only there");
    section.field("left", left, size, "extra keys a row sees before itself");
    section.field("right", right, size, "extra keys a row sees after itself");
  }
  void check(config::Section& section, const Choice& choice) const {
    if (choice.layer.causal) section.unused("right", choice.causal_key);
  }
  ExtraRows extra_rows() const { return carry ? ExtraRows{count, deviation} : ExtraRows{}; }
};

class GlobalExternal : public GlobalHeads {
 public:
  static constexpr bool can_be_causal = true;

  GlobalExternal(const nn::Builder& build, const HeadSettings& settings, const GlobalExternalSettings& own)
      : GlobalHeads(build, settings, {.count = own.count, .left = own.left, .right = own.right}) {
    if (!own.carry) rows_ = build.normal(settings.name + ".extra_rows", {own.count, settings.layer.dim}, deviation);
  }

  HeadOutput forward(Context& context, HeadInput& input) override {
    if (!rows_) return GlobalHeads::forward(context, input);
    Variable rows = input.project_rows(context, ops::parameter(context, *rows_));
    if (input.plain_values) {  // what goes to rows that are not shown is left out
      const int64_t width = settings().heads * settings().head_dim;
      rows.value = rows.value.clone();
      rows.value.columns(2 * width, width).fill_zero();
    }
    HeadInput longer{ops::put_in_front(context, rows, input.projected, input.packing), input.packing.longer_by(count()), input.layer,
                     input.project_rows, input.plain_values};
    return ops::take_off_front(context, GlobalHeads::forward(context, longer).o, input.packing, count());
  }

  void visit(nn::Visitor& visitor) override {
    if (rows_) visitor.parameter(*rows_);
  }

  // A layer's own rows pass its projection without the norm before it, so that norm cannot move into the projection.
  InputReaders input_readers() override { return rows_ ? InputReaders() : GlobalHeads::input_readers(); }

  // What the layer adds to a sequence is counted with it: its pairs by pairs(), and their log-sum-exp.
  AttentionCost cost(const std::vector<int32_t>& lengths) const override {
    AttentionCost sum = GlobalHeads::cost(lengths);
    sum.saved_bytes += 4.0 * count() * static_cast<double>(lengths.size()) * settings().heads;
    return sum;
  }
  int32_t hidden_rows() const override { return count(); }
  double pairs(int32_t n) const override { return GlobalHeads::pairs(n + count()); }

  std::vector<double> dense_output(const DenseInput& in) const override {
    if (!rows_ || in.n == 0) return {};
    const Tensor e = rows_->value.converted(Dtype::f64);
    std::vector<std::vector<double>> all;
    for (size_t part = 0; part < 3; ++part) {
      all.push_back(in.project_rows(e.span<double>(), part));
      all.back().insert(all.back().end(), in.projected[part].begin(), in.projected[part].end());
    }
    const auto d = static_cast<size_t>(in.head_dim);
    const int32_t g = count();
    std::vector<double> weights = dense::softmax_weights(in.q(), all[1], d, [&](size_t i, size_t j) {
      return allowed(g + in.n, in.head, g + static_cast<int32_t>(i), static_cast<int32_t>(j));
    });
    if (in.kept) dense::drop(weights, all[1].size() / d, [&](int32_t i, int32_t j) { return in.kept(g + i, j); });
    return dense::weighted(weights, all[2], d);
  }

 private:
  int32_t count() const { return rows_ ? static_cast<int32_t>(rows_->value.shape()[0]) : 0; }

  std::optional<Parameter> rows_;  // [g,C], of a layer that keeps them to itself
};

}  // namespace

AttentionVariant global_external_variant() { return variant<GlobalExternal, GlobalExternalSettings>("global_external", true); }

}  // namespace tapeformer::models
