// SPDX-License-Identifier: Apache-2.0
// Memory-compressed attention (Liu et al. 2018, 1801.10198): the keys and values of a window of rows become one key and one value, and
// every row looks at all windows. Window g covers the rows g factor ... g factor + kernel - 1, cut by the end of the sequence. `conv`
// multiplies each tap by a filter of its own and adds a bias, for each head and apart for keys and values; `mean` and `max` take those of
// the rows there are. Causal heads look at the windows that end before them, and at the first row's key and value, which stand by
// themselves in front, so that no row is without keys.
#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/ops/add.h"
#include "framework/ops/batched_product.h"
#include "framework/ops/columns.h"
#include "framework/ops/extra_rows.h"
#include "framework/ops/pooling.h"
#include "framework/ops/reshape.h"
#include "framework/ops/sparse_rows.h"
#include "models/attention/fewer_keys.h"
#include "models/attention/index_lists.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

enum class Mode : uint8_t { conv, mean, max };
enum class Start : uint8_t { xavier, mean };

struct CompressedSettings {
  int factor = 3;
  int kernel = 0;  // 0: the factor
  Mode mode = Mode::conv;
  Start start = Start::xavier;

  void read(config::Section& section) {
    section.field("factor", factor, config::between(1, 1 << 20), "rows from one window to the next");
    section.number_or_word("kernel", kernel, "factor", 0, config::between(1, 1 << 20), "rows of a window");
    section.choice("mode", mode, {{"conv", Mode::conv}, {"mean", Mode::mean}, {"max", Mode::max}},
                   "how a window becomes one key and one value");
    section.choice("start", start, {{"xavier", Start::xavier}, {"mean", Start::mean}},
                   "conv: filters at the start; mean: that of the window");
  }
  void check(config::Section& section, const Choice&) const {
    if (mode != Mode::conv) section.unused("start", section.path("mode"));
  }
  int taps() const { return kernel == 0 ? factor : kernel; }
};

class Compressed : public Heads {
 public:
  static constexpr bool can_be_causal = true;

  Compressed(const nn::Builder&, const HeadSettings&, const CompressedSettings&);
  HeadOutput forward(Context&, HeadInput&) override;
  void visit(nn::Visitor&) override;
  AttentionCost cost(const std::vector<int32_t>& lengths) const override;
  double pairs(int32_t n) const override;
  bool in_pattern(int32_t n, int head, int32_t i, int32_t j) const override;
  // Filters mix the channels of a value, the maximum picks among rows for each channel.
  bool has_weights() const override { return own_.mode == Mode::mean; }
  std::vector<double> dense_output(const DenseInput&) const override;

 private:
  int32_t windows(int32_t n) const { return (n + own_.factor - 1) / own_.factor; }
  bool causal() const { return settings().layer.causal; }
  // Keys of a sequence: its windows, in causal heads behind the first row.
  int32_t slots(int32_t n) const { return windows(n) + (causal() && n > 0 ? 1 : 0); }
  // How many of them row i of n sees.
  int32_t seen(int32_t n, int32_t i) const {
    if (!causal()) return slots(n);
    return i < own_.taps() ? 1 : 2 + (i - own_.taps()) / own_.factor;
  }
  int64_t columns() const { return int64_t{settings().heads} * settings().head_dim; }
  // [slots, 2 heads D]: keys and values side by side.
  Variable convolved(Context&, const HeadInput&);
  Variable pooled(Context&, const HeadInput&, Mode) const;
  // Rows of the batch that become one key: the first of them and how many.
  struct Window {
    int32_t row, rows;
    bool first_row;  // of causal heads, by itself
  };
  std::vector<Window> all_slots(const Packing& rows) const;

  CompressedSettings own_;
  // [2 heads kernel D, D], the filters of each head's keys and then of the values, a tap's D rows after the other's; [1, 2 heads D].
  std::optional<Parameter> filters_, bias_;
};

Compressed::Compressed(const nn::Builder& build, const HeadSettings& s, const CompressedSettings& own) : Heads(s), own_(own) {
  if (own.mode != Mode::conv) return;
  const int64_t d = s.head_dim, rows = own.taps() * d;
  filters_ = build.constant(s.name + ".compression.weight", {2 * s.heads * rows, d}, 0);
  bias_ = build.constant(s.name + ".compression.bias", {1, 2 * columns()}, 0);
  for (int64_t i = 0; i < 2 * s.heads; ++i) {
    const Tensor filter = filters_->value.rows(i * rows, rows);
    if (own.start == Start::xavier) nn::fill_xavier_uniform(build.seed, fmt::format("{}.{}", filters_->name, i), filter, 1);
    else
      for (int64_t r = 0; r < rows; ++r) {
        if (build.dtype == Dtype::f32) filter.data<float>()[r * d + r % d] = 1.f / static_cast<float>(own.taps());
        else filter.data<double>()[r * d + r % d] = 1.0 / own.taps();
      }
  }
}

double Compressed::pairs(int32_t n) const {
  double sum = 0;
  for (int32_t i = 0; i < n; ++i) sum += seen(n, i);
  return sum;
}

// Whether a window that causal row i looks at has row j; others look at all.
bool Compressed::in_pattern(int32_t, int, int32_t i, int32_t j) const {
  if (!causal() || j == 0) return true;
  const int32_t first = std::max(0, (j - own_.taps() + own_.factor) / own_.factor) * own_.factor;  // of the first window that ends behind j
  return first <= j && first + own_.taps() <= i;
}

std::vector<Compressed::Window> Compressed::all_slots(const Packing& rows) const {
  std::vector<Window> out;
  for (int b = 0; b < rows.sequences(); ++b) {
    const int32_t n = rows.length(b), first = rows.offsets()[static_cast<size_t>(b)];
    if (causal() && n > 0) out.push_back({first, 1, true});
    for (int32_t g = 0; g < windows(n); ++g) out.push_back({first + g * own_.factor, std::min(own_.taps(), n - g * own_.factor), false});
  }
  return out;
}

Variable Compressed::convolved(Context& context, const HeadInput& input) {
  const int64_t heads = settings().heads, d = settings().head_dim, taps = own_.taps();
  // With the projection as rows of single heads, [3 heads T, D], a window's taps of one head come to lie side by side.
  RowMap map, of_windows, of_first_rows;
  map.rows = 3 * heads * input.packing.rows();
  of_first_rows.rows = input.packing.rows();
  int32_t windows = 0;
  for (const Window& w : all_slots(input.packing)) {
    if (w.first_row) of_first_rows.source.push_back(w.row);
    else of_windows.source.push_back(windows++);
    of_first_rows.begin.push_back(static_cast<int32_t>(of_first_rows.source.size()));
    of_windows.begin.push_back(static_cast<int32_t>(of_windows.source.size()));
    for (int64_t head = 0; head < 2 * heads && !w.first_row; ++head)
      for (int64_t t = 0; t < taps; ++t) {
        if (t < w.rows) map.source.push_back(static_cast<int32_t>((w.row + t) * 3 * heads + heads + head));
        map.begin.push_back(static_cast<int32_t>(map.source.size()));
      }
  }
  of_windows.rows = windows;
  const Variable rows = ops::reshape(context, input.projected, {map.rows, d});
  const Variable gathered = ops::reshape(context, ops::sparse_rows(context, rows, std::make_shared<const RowMap>(std::move(map))),
                                         {windows, 2 * heads * taps * d});
  std::vector<ProductGroup> groups;
  for (int64_t head = 0; head < 2 * heads; ++head)
    groups.push_back({{0, windows, head * taps * d, taps * d}, {head * taps * d, taps * d, 0, d}, {0, windows, head * d, d}});
  const Variable products = ops::batched_product(context, gathered, *filters_, {windows, 2 * columns()}, groups);
  const auto repeated = std::make_shared<const RowMap>(gather_map(1, std::vector<int32_t>(static_cast<size_t>(windows))));
  const Variable filtered = ops::add(context, products, ops::sparse_rows(context, ops::parameter(context, *bias_), repeated));
  if (!causal()) return filtered;
  const Variable whole = ops::columns(context, input.projected, {{columns(), 2 * columns()}});
  return ops::add(context, ops::sparse_rows(context, filtered, std::make_shared<const RowMap>(std::move(of_windows))),
                  ops::sparse_rows(context, whole, std::make_shared<const RowMap>(std::move(of_first_rows))));
}

Variable Compressed::pooled(Context& context, const HeadInput& input, Mode mode) const {
  const Variable x = ops::columns(context, input.projected, {{columns(), 2 * columns()}});
  std::vector<int32_t> lengths, sources;
  for (const Window& w : all_slots(input.packing)) {
    lengths.push_back(w.rows);
    for (int32_t t = 0; t < w.rows; ++t) sources.push_back(w.row + t);
  }
  if (mode == Mode::mean) {
    RowMap map;
    map.rows = input.packing.rows();
    map.source = std::move(sources);
    for (const int32_t n : lengths) {
      map.weight.insert(map.weight.end(), static_cast<size_t>(n), 1.0 / n);
      map.begin.push_back(map.begin.back() + n);
    }
    return ops::sparse_rows(context, x, std::make_shared<const RowMap>(std::move(map)));
  }
  const auto gathered = std::make_shared<const RowMap>(gather_map(input.packing.rows(), std::move(sources)));
  const Packing of_windows(lengths, std::vector<uint32_t>(lengths.size()));
  return ops::pooling(context, Pooling::max, ops::sparse_rows(context, x, gathered), of_windows);
}

HeadOutput Compressed::forward(Context& context, HeadInput& input) {
  std::vector<int32_t> lengths;
  for (int b = 0; b < input.packing.sequences(); ++b) lengths.push_back(slots(input.packing.length(b)));
  const Packing& of_slots = input.packing.with_lengths(lengths);
  const Variable both = own_.mode == Mode::conv ? convolved(context, input) : pooled(context, input, own_.mode);
  require(both.value.shape()[0] == of_slots.rows(), "compressed: {} keys, expected {}", both.value.shape()[0], of_slots.rows());
  const auto pattern = causal() ? prefix_part(input.packing, of_slots, [&](int32_t n, int32_t i) { return seen(n, i); })
                                : full_part(input.packing, of_slots);
  return ops::cross_attention(context, ops::columns(context, input.projected, {{0, columns()}}),
                              ops::columns(context, both, {{0, columns()}}), ops::columns(context, both, {{columns(), columns()}}),
                              input.packing, of_slots, pattern, softmax());
}

void Compressed::visit(nn::Visitor& visitor) {
  if (!filters_) return;
  visitor.parameter(*filters_);
  visitor.parameter(*bias_);
}

// Filters 4 kernel D^2 a window and head, backward twice as much; 4 D a row and window forward, 10 D backward. The log-sum-exp, the
// windows' keys and values and their taps are kept.
AttentionCost Compressed::cost(const std::vector<int32_t>& lengths) const {
  AttentionCost sum;
  const double heads = settings().heads, d = settings().head_dim, taps = own_.taps();
  for (const int32_t n : lengths) {
    const double filters = own_.mode == Mode::conv ? 4 * windows(n) * taps * d * d * heads : 0, looked = pairs(n) * d * heads;
    const double kept = 2 * windows(n) * d * (own_.mode == Mode::mean ? 1 : 1 + taps);
    sum += {filters + 4 * looked, 2 * filters + 10 * looked, 4 * heads * (n + kept)};
  }
  return sum;
}

std::vector<double> Compressed::dense_output(const DenseInput& in) const {
  const int64_t n = in.n, d = in.head_dim, head = in.head - settings().first_head, taps = own_.kernel > 0 ? own_.kernel : own_.factor;
  const Tensor filters = filters_ ? filters_->value.converted(Dtype::f64) : Tensor(),
               bias = filters_ ? bias_->value.converted(Dtype::f64) : Tensor();
  const auto slot = [&](std::span<const double> x, int64_t part, int64_t first) {
    std::vector<double> out(static_cast<size_t>(d));
    const int64_t end = std::min(n, first + taps), filter = (part * settings().heads + head) * taps * d;
    for (int64_t c = 0; c < d; ++c) {
      double& sum = out[static_cast<size_t>(c)];
      if (own_.mode == Mode::conv) {
        sum = bias.data<double>()[(part * settings().heads + head) * d + c];
        for (int64_t j = first; j < end; ++j)
          for (int64_t from = 0; from < d; ++from)
            sum += x[static_cast<size_t>(j * d + from)] * filters.data<double>()[(filter + (j - first) * d + from) * d + c];
      } else {
        sum = own_.mode == Mode::max ? -std::numeric_limits<double>::infinity() : 0.0;
        for (int64_t j = first; j < end; ++j) {
          const double value = x[static_cast<size_t>(j * d + c)];
          sum = own_.mode == Mode::max ? std::max(sum, value) : sum + value / static_cast<double>(end - first);
        }
      }
    }
    return out;
  };
  std::vector<double> o(static_cast<size_t>(n * d)), total(static_cast<size_t>(n));
  int32_t slots = 0;  // looked at so far
  const auto look = [&](std::span<const double> key, std::span<const double> value, int64_t from) {
    for (int64_t i = from; i < n; ++i) {
      double score = 0;
      for (int64_t c = 0; c < d; ++c) score += in.q()[static_cast<size_t>(i * d + c)] * key[static_cast<size_t>(c)];
      const double p = std::exp(score / std::sqrt(static_cast<double>(d)));
      total[static_cast<size_t>(i)] += p;
      const double kept = in.kept ? p * in.kept(static_cast<int32_t>(i), slots) : p;
      for (int64_t c = 0; c < d; ++c) o[static_cast<size_t>(i * d + c)] += kept * value[static_cast<size_t>(c)];
    }
    ++slots;
  };
  const bool causal = settings().layer.causal;
  if (causal && n > 0) look(in.k().first(static_cast<size_t>(d)), in.v().first(static_cast<size_t>(d)), 0);
  for (int64_t first = 0; first < n; first += own_.factor) look(slot(in.k(), 0, first), slot(in.v(), 1, first), causal ? first + taps : 0);
  for (int64_t i = 0; i < n * d; ++i) o[static_cast<size_t>(i)] /= total[static_cast<size_t>(i / d)];
  return o;
}

}  // namespace

AttentionVariant compressed_variant() { return variant<Compressed, CompressedSettings>("compressed", true); }

}  // namespace tapeformer::models
