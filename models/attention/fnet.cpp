// SPDX-License-Identifier: Apache-2.0
// FNet (Lee-Thorp, Ainslie, Eckstein, Ontanon 2021, 2105.03824): no attention at all, each sequence is mixed by the real part of its
// Fourier transform over positions and channels. Nothing is learned.
#include <cmath>
#include <numbers>

#include "framework/ops/add.h"
#include "framework/ops/dropout.h"
#include "framework/ops/fourier.h"
#include "models/attention/max_length.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

enum class Grid : uint8_t { exact, fixed };

struct FNetSettings {
  Grid grid = Grid::exact;
  MaxLength max_length;

  void read(config::Section& section) {
    section.choice("mode", grid, {{"exact", Grid::exact}, {"grid", Grid::fixed}},
                   "exact: each sequence is transformed at its own length; grid: all at max_length, continued with zeros");
    max_length.read(section);
  }
  void check(config::Section& section, const Choice& choice) const {
    if (grid == Grid::fixed) max_length.check(section, choice);
    else section.unused("max_length", section.path("mode"));
  }
};

class FNet : public Attention {
 public:
  FNet(const nn::Builder&, const std::string& name, const AttentionSettings& settings, const FNetSettings& own)
      : name_(name), settings_(settings), own_(own), tables_(settings.dim) {
    if (own.grid == Grid::fixed) length_ = static_cast<int32_t>(own.max_length.of(settings));
  }

  AttentionOutput forward(Context& context, const Variable& x, const Packing& packing, const Sublayer& around) override {
    if (own_.grid == Grid::fixed) own_.max_length.check(packing, length_);
    const Variable mixed = ops::fourier(context, LayerInput(x, packing, around.norm).x(context), packing, tables_, length_);
    if (context.inspect) context.inspect(name_, mixed.value);
    const DropoutDraw dropout = context.dropout(around.dropout, "dropout", name_, packing);
    return {ops::add(context, around.residual, ops::dropout(context, mixed, dropout)), {}};
  }
  void visit(nn::Visitor&) override {}
  InputReaders input_readers() override { return std::nullopt; }

  // A real transform of n C values, 2.5 n C log2(n C), and the same backward; nothing is kept.
  AttentionCost cost(const std::vector<int32_t>& lengths) const override {
    AttentionCost sum;
    for (const int32_t n : lengths) {
      const double values = static_cast<double>(length_ ? length_ : n) * static_cast<double>(settings_.dim);
      if (n > 0) sum += {2.5 * values * std::log2(values), 2.5 * values * std::log2(values), 0};
    }
    return sum;
  }

  std::vector<double> dense_output(int32_t n, std::span<const double> x) const override {
    const auto channels = static_cast<size_t>(settings_.dim), rows = static_cast<size_t>(n),
               length = static_cast<size_t>(length_ ? length_ : n);
    const auto angle = [](size_t i, size_t j, size_t of) {
      return 2 * std::numbers::pi * static_cast<double>(i * j % of) / static_cast<double>(of);
    };
    std::vector<double> real(rows * channels), imaginary(rows * channels), y(rows * channels);
    for (size_t j = 0; j < rows; ++j)
      for (size_t c = 0; c < channels; ++c)
        for (size_t d = 0; d < channels; ++d) {
          real[j * channels + c] += x[j * channels + d] * std::cos(angle(c, d, channels));
          imaginary[j * channels + c] -= x[j * channels + d] * std::sin(angle(c, d, channels));
        }
    for (size_t k = 0; k < rows; ++k)
      for (size_t j = 0; j < rows; ++j) {
        const double cosine = std::cos(angle(j, k, length)), sine = std::sin(angle(j, k, length));
        for (size_t c = 0; c < channels; ++c) y[k * channels + c] += cosine * real[j * channels + c] + sine * imaginary[j * channels + c];
      }
    return y;
  }

 private:
  std::string name_;
  AttentionSettings settings_;
  FNetSettings own_;
  ops::FourierTables tables_;
  int32_t length_ = 0;  // of the grid; 0: the sequence's own
};

}  // namespace

AttentionVariant fnet_variant() { return variant<FNet, FNetSettings>("fnet", false); }

}  // namespace tapeformer::models
