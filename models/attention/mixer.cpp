// SPDX-License-Identifier: Apache-2.0
// Token mixing of MLP-Mixer (Tolstikhin et al. 2021, 2105.01601): two layers along the positions, the same for all channels,
// Y = W2 f(W1 U + b1) + b2 with U the normalised rows of a sequence. A sequence of n rows uses the first n columns of W1 and rows of W2.
// Causal: hidden position t of T stands at position floor(t L / T) of the L that there may be; it reads the rows up to there, and rows read
// the hidden positions up to themselves. The other weights count as 0.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "framework/ops/activation.h"
#include "framework/ops/add.h"
#include "framework/ops/batched_product.h"
#include "framework/ops/dropout.h"
#include "framework/ops/extra_rows.h"
#include "framework/ops/multiply.h"
#include "models/attention/max_length.h"
#include "models/attention/ones.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct MixerSettings {
  int hidden = 256;
  Activation activation = Activation::gelu;
  MaxLength max_length;

  void read(config::Section& section) {
    section.field("hidden", hidden, config::between(1, 1 << 20), "positions between the two layers");
    section.choice("activation", activation, {{"gelu", Activation::gelu}, {"gelu_tanh", Activation::gelu_tanh}}, "between the two layers");
    max_length.read(section);
  }
  void check(config::Section& section, const Choice& choice) const { max_length.check(section, choice); }
};

class Mixer : public Attention {
 public:
  static constexpr bool can_be_causal = true;

  // LeCun normal (LeCun, Bottou, Orr, Muller 1998): the deviation is 1 / sqrt of the inputs.
  Mixer(const nn::Builder& build, const std::string& name, const AttentionSettings& settings, const MixerSettings& own)
      : name_(name),
        settings_(settings),
        own_(own),
        length_(own.max_length.of(settings)),
        up_weight_(
            build.normal(name + ".up.weight", {own.hidden, length_}, 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, length_))))),
        up_bias_(build.constant(name + ".up.bias", {own.hidden, 1}, 0)),
        down_weight_(build.normal(name + ".down.weight", {length_, own.hidden}, 1 / std::sqrt(static_cast<double>(own.hidden)))),
        down_bias_(build.constant(name + ".down.bias", {length_, 1}, 0)) {
    if (!settings.causal) return;
    Tensor up(Dtype::f64, up_weight_.value.shape()), down(Dtype::f64, down_weight_.value.shape());
    for (int64_t t = 0; t < own.hidden; ++t)
      for (int64_t j = 0; j < length_; ++j) {
        up.matrix<double>().row(t)[j] = j <= place(t);
        down.matrix<double>().row(j)[t] = place(t) <= j;
      }
    up_mask_ = up.converted(build.dtype);
    down_mask_ = down.converted(build.dtype);
  }

  AttentionOutput forward(Context& context, const Variable& x, const Packing& packing, const Sublayer& around) override {
    own_.max_length.check(packing, length_);
    const Variable u = LayerInput(x, packing, around.norm).x(context);
    const Variable hidden = ops::activation(context, own_.activation, mixed(context, Way::up, u, packing));
    const Variable y = mixed(context, Way::down, hidden, packing);
    if (context.inspect) context.inspect(name_, y.value);
    const DropoutDraw dropout = context.dropout(around.dropout, "dropout", name_, packing);
    return {ops::add(context, around.residual, ops::dropout(context, y, dropout)), {}};
  }
  void visit(nn::Visitor& visitor) override {
    for (Parameter* p : {&up_weight_, &up_bias_, &down_weight_, &down_bias_}) visitor.parameter(*p);
  }
  InputReaders input_readers() override { return std::nullopt; }

  AttentionCost cost(const std::vector<int32_t>& lengths) const override {
    AttentionCost sum;
    const auto c = static_cast<double>(settings_.dim), t = static_cast<double>(own_.hidden);
    for (const int32_t n : lengths)
      if (n > 0) sum += {4 * n * t * c, 8 * n * t * c, 4 * (n + t) * c};
    return sum;
  }
  double pairs(int32_t n) const override {
    double sum = 0;
    for (int32_t i = 0; i < n; ++i) sum += static_cast<double>(seen(n, i));
    return sum;
  }
  bool mixes(int32_t n, int32_t i, int32_t j) const override { return j < seen(n, i); }

  std::vector<double> dense_output(int32_t n, std::span<const double> x) const override {
    const auto at = [](const Parameter& p, int64_t i) {
      return p.value.dtype() == Dtype::f64 ? p.value.data<double>()[i] : static_cast<double>(p.value.data<float>()[i]);
    };
    const auto f = [&](double v) {
      if (own_.activation == Activation::gelu) return v / 2 * (1 + std::erf(v / std::numbers::sqrt2));
      return v / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
    };
    const int64_t channels = settings_.dim;
    std::vector<double> y(x.size());
    for (int64_t c = 0; c < channels; ++c) {
      std::vector<double> mixed(static_cast<size_t>(n));
      for (int64_t t = 0; t < own_.hidden; ++t) {
        double sum = at(up_bias_, t);
        const int64_t stands = t * length_ / own_.hidden;
        for (int64_t j = 0; j < (settings_.causal ? std::min<int64_t>(n, stands + 1) : n); ++j)
          sum += at(up_weight_, t * length_ + j) * x[static_cast<size_t>(j * channels + c)];
        for (int64_t i = settings_.causal ? stands : 0; i < n; ++i)
          mixed[static_cast<size_t>(i)] += at(down_weight_, i * own_.hidden + t) * f(sum);
      }
      for (int64_t i = 0; i < n; ++i) y[static_cast<size_t>(i * channels + c)] = mixed[static_cast<size_t>(i)] + at(down_bias_, i);
    }
    return y;
  }

 private:
  // Of a hidden position among those of rows.
  int64_t place(int64_t t) const { return t * length_ / own_.hidden; }
  // Of n rows, how many row i takes from: those up to the last hidden position that it reads.
  int64_t seen(int32_t n, int32_t i) const {
    if (!settings_.causal || length_ == 0) return n;
    const int64_t last = std::min<int64_t>(own_.hidden, ((i + 1) * int64_t{own_.hidden} + length_ - 1) / length_) - 1;
    return place(last) + 1;
  }
  // W x + b for each sequence, x being its rows (up) or its hidden rows (down); [B * hidden, C] or [T,C]. A sequence without rows has no
  // hidden ones.
  enum class Way { up, down };
  Variable mixed(Context& context, Way way, const Variable& x, const Packing& packing) {
    const int64_t c = settings_.dim, t = own_.hidden;
    std::vector<ProductGroup> groups, biases;
    int64_t hidden = 0;
    for (int b = 0; b < packing.sequences(); ++b) {
      const int64_t n = packing.length(b);
      if (n == 0) continue;
      const Block positions{packing.offsets()[static_cast<size_t>(b)], n, 0, c}, slots{hidden, t, 0, c};
      const auto& [from, to] = way == Way::up ? std::pair(positions, slots) : std::pair(slots, positions);
      groups.push_back({{0, to.rows, 0, from.rows}, from, to});
      biases.push_back({{0, to.rows, 0, 1}, {0, 1, 0, c}, to});
      hidden += t;
    }
    Parameter &weight = way == Way::up ? up_weight_ : down_weight_, &bias = way == Way::up ? up_bias_ : down_bias_;
    const Shape shape{way == Way::up ? hidden : packing.rows(), c};
    const Tensor& mask = way == Way::up ? up_mask_ : down_mask_;
    const Variable product = settings_.causal
                                 ? ops::batched_product(context, ops::multiply(context, ops::parameter(context, weight), {mask, no_node}),
                                                        x, shape, std::move(groups))
                                 : ops::batched_product(context, weight, x, shape, std::move(groups));
    return ops::add(context, product, ops::batched_product(context, bias, ones(context, 1, c), shape, std::move(biases)));
  }

  std::string name_;
  AttentionSettings settings_;
  MixerSettings own_;
  int64_t length_;
  Parameter up_weight_, up_bias_;      // [hidden, length], [hidden, 1]
  Parameter down_weight_, down_bias_;  // [length, hidden], [length, 1]
  Tensor up_mask_, down_mask_;         // of the weights, where causal
};

}  // namespace

AttentionVariant mixer_variant() { return variant<Mixer, MixerSettings>("mixer", false); }

}  // namespace tapeformer::models
