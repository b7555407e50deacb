// SPDX-License-Identifier: Apache-2.0
// Sparse Sinkhorn attention (Tay, Bahri, Yang, Metzler, Juan 2020, 2002.11296): a small net sorts the blocks of a sequence, and a block
// looks at itself and at the block that was sorted to its place. SortCut: every row looks at the first sorted blocks. The sorting is a
// mixture (soft) or an exact permutation with a straight-through gradient (hard). Causal heads mix the blocks before a row's own, by one
// softmax: the sums over columns would have rows behind it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "framework/ops/add.h"
#include "framework/ops/attention.h"
#include "framework/ops/columns.h"
#include "framework/ops/sinkhorn.h"
#include "models/attention/fewer_keys.h"
#include "models/attention/interval_sets.h"
#include "models/attention/max_length.h"
#include "models/attention/planned_heads.h"
#include "models/attention/sort_net.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct SinkhornSettings {
  int block = 64;
  int iterations = 8;
  double temperature = 0.75;
  double noise = 1;
  bool hard = false;
  int sort_cut = 0;
  bool add_full = false;
  SortNet::Form net = SortNet::Form::linear;
  MaxLength max_length;

  void read(config::Section& section) {
    section.field("block", block, config::between(1, 1 << 24), "rows of a block");
    section.field("iterations", iterations, config::between(1, 10000), "normalisations of rows and columns");
    section.field("temperature", temperature, config::between(1e-3, 1e3),
                  "divides the scores of the sorting: low is nearer to a permutation");
    section.field("noise", noise, config::between(0, 1e3), "factor of the Gumbel noise on the scores in training");
    section.field("hard", hard, "sort by an exact permutation; the gradient is that of the soft one");
    section.field("sort_cut", sort_cut, config::between(0, 1 << 24),
                  "every row looks at this many sorted blocks and not at its own; 0: off");
    section.field("add_full", add_full, "add the output of full attention");
    section.choice(
        "net", net, {{"linear", SortNet::Form::linear}, {"two_layers", SortNet::Form::two_layers}, {"attention", SortNet::Form::attention}},
        "what scores the sorting: a linear or two-layer net of a block's sum of keys, or mean query times mean key of two blocks");
    max_length.read(section);
  }
  void check(config::Section& section, const Choice& choice) const {
    if (net != SortNet::Form::attention) max_length.check(section, choice);
    else section.unused("max_length", section.path("net"));
    if (!choice.layer.causal) return;
    section.unused("iterations", choice.causal_key);
    const auto knows_the_end = [&](const char* key, std::string_view value, const char* advice) {
      section.fault(key,
                    fmt::format("'{}' is {}, but '{}' is true: the first blocks would hold what stands behind them", section.path(key),
                                value, choice.causal_key),
                    advice);
    };
    if (hard) knows_the_end("hard", "true", "set it to false");
    if (sort_cut > 0) knows_the_end("sort_cut", fmt::format("{}", sort_cut), "set it to 0");
  }
};

class Sinkhorn : public Heads {
 public:
  static constexpr bool can_be_causal = true;

  Sinkhorn(const nn::Builder& build, const HeadSettings& settings, const SinkhornSettings& own)
      : Heads(settings), own_(own), net_(build, settings, own.net, max_blocks(settings, own)) {
    if (own.net != SortNet::Form::attention) length_ = own.max_length.of(settings.layer);
  }

  HeadOutput forward(Context&, HeadInput&) override;
  void visit(nn::Visitor& visitor) override { net_.visit(visitor); }
  AttentionCost cost(const std::vector<int32_t>& lengths) const override;
  double pairs(int32_t n) const override;
  std::vector<double> dense_output(const DenseInput&) const override;

 private:
  // What the sorting of one sequence's head decides beside the values: slots of each sorted block that hold something and aren't its own
  // rows once more, and for a permutation where the blocks come from.
  struct Sorted {
    std::vector<int32_t> slots, source;
  };

  static int64_t max_blocks(const HeadSettings& settings, const SinkhornSettings& own) {
    if (own.net == SortNet::Form::attention) return 0;
    return (own.max_length.of(settings.layer) + own.block - 1) / own.block;
  }
  int32_t blocks_of(int64_t n) const { return static_cast<int32_t>((n + own_.block - 1) / own_.block); }
  int32_t made(int32_t blocks) const { return own_.sort_cut ? std::min(own_.sort_cut, blocks) : blocks; }
  bool own_rows() const { return own_.sort_cut == 0; }
  Sorted whole(int32_t n) const;
  Sorted sorted(const Packing& packing, const Packing& blocks, const View<const double>& weights, const Tensor& permutations, int b,
                int h) const;
  std::vector<Interval> keys_of(const Sorted&, int32_t n, int32_t i) const;
  // Where the rows end that row i sees of its own block, or, of a sequence, with full attention added.
  int32_t own_end(int32_t n, int32_t i) const { return std::min((i / own_.block + 1) * own_.block, full_end(n, i)); }
  int32_t full_end(int32_t n, int32_t i) const { return settings().layer.causal ? std::min(n, std::max(i + 1, front())) : n; }
  TilePlan plan(const Sorted&, int32_t n) const;
  ops::AttentionPart plans(const Packing& packing, const Packing& blocks, const ops::SortedBlocks& rows, const Tensor& permutations);
  std::vector<double> dense_sorting(const DenseInput&, int32_t m) const;

  SinkhornSettings own_;
  SortNet net_;
  int64_t length_ = 0;
  PlanCache plans_;
};

HeadOutput Sinkhorn::forward(Context& context, HeadInput& input) {
  const HeadSettings& s = settings();
  if (length_ > 0) own_.max_length.check(input.packing, length_);
  std::vector<int32_t> counts;
  for (int b = 0; b < input.packing.sequences(); ++b) counts.push_back(blocks_of(input.packing.length(b)));
  const Packing& blocks = input.packing.with_lengths(counts);
  const int64_t width = int64_t{s.heads} * s.head_dim;

  const Variable scores = net_.scores(context, input.projected, input.packing, blocks, own_.block);
  const Tensor noise =
      ops::gumbel_noise(context, blocks, s.heads, scores.value.shape()[1] / s.heads, own_.noise, s.layer_name, s.first_head);
  Tensor permutations;
  if (own_.hard)
    permutations =
        context.structure(s.name + ".permutations", [&] { return ops::best_permutations(context, scores.value, noise, blocks, s.heads); });
  const Variable p =
      ops::sinkhorn(context, scores, noise, blocks, {s.heads, own_.temperature, own_.iterations, s.layer.causal}, permutations);

  ops::SortedBlocksSettings of_keys{
      .heads = s.heads, .block = own_.block, .most = own_.sort_cut, .own = own_rows(), .first_column = width, .columns = width};
  const ops::SortedBlocks keys = ops::sorted_blocks(context, p, input.projected, input.packing, blocks, of_keys);
  of_keys.first_column = 2 * width;
  const ops::SortedBlocks values = ops::sorted_blocks(context, p, input.projected, input.packing, blocks, of_keys);
  const Variable queries = ops::columns(context, input.projected, {{0, width}});
  const Variable o = ops::cross_attention(context, queries, keys.rows, values.rows, input.packing, *keys.packing,
                                          plans(input.packing, blocks, keys, permutations), softmax());
  if (!own_.add_full) return o;
  const ops::AttentionPart full = s.layer.causal
                                      ? prefix_part(input.packing, input.packing, [&](int32_t n, int32_t i) { return full_end(n, i); })
                                      : full_part(input.packing, input.packing);
  return ops::add(context, o, ops::attention(context, input.projected, input.packing, full, softmax()));
}

// All slots of all sorted blocks hold something, as they do unless a weight is 0 or a permutation says otherwise; a single block that is
// not full has no more slots than rows.
Sinkhorn::Sorted Sinkhorn::whole(int32_t n) const {
  const int32_t m = blocks_of(n);
  Sorted out{std::vector<int32_t>(static_cast<size_t>(made(m)), m == 1 ? n : own_.block), {}};
  if (settings().layer.causal && m > 0) out.slots[0] = 0;  // no block stands before the first
  return out;
}

Sinkhorn::Sorted Sinkhorn::sorted(const Packing& packing, const Packing& blocks, const View<const double>& weights,
                                  const Tensor& permutations, int b, int h) const {
  const int32_t n = packing.length(b), m = blocks.length(b), full_slots = n - (m - 1) * own_.block;
  Sorted out = whole(n);
  for (int32_t u = 0; u < made(m); ++u) {
    const double* row = weights.row(blocks.offsets()[static_cast<size_t>(b)] + u);
    int32_t& slots = out.slots[static_cast<size_t>(u)];
    if (row[settings().heads + h] == 0) slots = full_slots;
    if (row[h] == 0) slots = 0;
    if (!permutations.defined()) continue;
    const int32_t from = permutations.matrix<const int32_t>().row(blocks.offsets()[static_cast<size_t>(b)] + u)[h];
    out.source.push_back(from);
    if (from == m - 1) slots = std::min(slots, full_slots);
    if (own_rows() && from == u) slots = 0;  // its own rows stand there once already
  }
  return out;
}

std::vector<Interval> Sinkhorn::keys_of(const Sorted& sorted, int32_t n, int32_t i) const {
  const int32_t b = own_.block, u = i / b;
  if (own_rows()) {
    const int32_t own = static_cast<int32_t>(sorted.slots.size()) * b;
    return {{u * b, u * b + sorted.slots[static_cast<size_t>(u)]}, {own + u * b, own + own_end(n, i)}};
  }
  std::vector<Interval> all;
  for (int32_t v = 0; v < static_cast<int32_t>(sorted.slots.size()); ++v)
    all.push_back({v * b, v * b + sorted.slots[static_cast<size_t>(v)]});
  return all;
}

// Queries are the sequence's rows, keys its sorted blocks and then, if they take part, its own rows. In dropout's draws a soft slot stands
// at its place among the keys of its query, a row that was permuted at its place in the sequence.
TilePlan Sinkhorn::plan(const Sorted& sorted, int32_t n) const {
  const int32_t b = own_.block, slots = static_cast<int32_t>(sorted.slots.size()) * b, keys = slots + (own_rows() ? n : 0);
  std::vector<Interval> runs;
  TilePlan out = interval_sets_plan(n, keys, [&](int32_t i) -> const std::vector<Interval>& {
    if (i == 0 || settings().layer.causal || (own_rows() && i % b == 0)) runs = keys_of(sorted, n, i);
    return runs;
  });
  for (int32_t j = 0; j < keys; ++j) {
    const int32_t u = j / b, t = j % b;
    if (j >= slots) out.key_places.push_back(sorted.source.empty() ? b + (j - slots) % b : j - slots);
    else if (!sorted.source.empty()) out.key_places.push_back(sorted.source[static_cast<size_t>(u)] * b + t);
    else out.key_places.push_back(own_rows() ? t : j);
  }
  return out;
}

// Plans depend on the data only where something is missing or permuted.
ops::AttentionPart Sinkhorn::plans(const Packing& packing, const Packing& blocks, const ops::SortedBlocks& rows,
                                   const Tensor& permutations) {
  plans_.make_room();
  const Tensor weights = rows.weights.dtype() == Dtype::f64 ? rows.weights : rows.weights.converted(Dtype::f64);
  bool usual = !permutations.defined();
  ops::AttentionPart shared, each;
  for (int b = 0; b < packing.sequences(); ++b) {
    const int32_t n = packing.length(b);
    for (int h = 0; h < settings().heads; ++h) {
      const Sorted s = sorted(packing, blocks, weights.matrix<const double>(), permutations, b, h);
      const bool as_whole = !permutations.defined() && s.slots == whole(n).slots;
      usual = usual && as_whole;
      each.push_back(as_whole ? plans_.get(n, 0, [&] { return std::vector{plan(s, n)}; })[0]
                              : std::make_shared<const TilePlan>(plan(s, n)));
      if (h == 0) shared.push_back(each.back());
    }
  }
  return usual ? shared : each;
}

double Sinkhorn::pairs(int32_t n) const {
  if (settings().layer.causal) {
    double sum = 0;
    for (int32_t i = 0; i < n; ++i) {
      const int32_t first = i / own_.block * own_.block;
      sum += (first > 0 ? own_.block : 0) + own_end(n, i) - first + (own_.add_full ? full_end(n, i) : 0);
    }
    return sum;
  }
  const double b = own_.block, m = blocks_of(n), rows = n, last = rows - (m - 1) * b;
  if (n == 0) return 0;
  const double slots = m == 1 ? rows : b;
  double sum = own_rows() ? (m - 1) * b * (slots + b) + last * (slots + last) : rows * made(blocks_of(n)) * slots;
  if (own_.hard && m == 1) sum = rows * rows;  // the one block is its own
  return std::min(rows * rows, sum) + (own_.add_full ? rows * rows : 0);
}

// As counted in the paper's terms: net, Sinkhorn, mixing, attention; kept are the scores, the matrices, the sorted keys and values and the
// log-sum-exp.
AttentionCost Sinkhorn::cost(const std::vector<int32_t>& lengths) const {
  AttentionCost sum;
  const double d = settings().head_dim, k = settings().layer.causal ? 0.25 : own_.iterations;  // causal: one softmax of half the matrix
  for (const int32_t n : lengths) {
    const double m = blocks_of(n), sorted = made(blocks_of(n)), slots = sorted * own_.block, work = pairs(n) * d;
    const double net = own_.net == SortNet::Form::two_layers ? 2 * m * d * (d + m) : 2 * m * d * m;
    const double forward = net + 8 * k * m * m + 4 * slots * m * d + 4 * work;
    const double backward = 2 * net + 12 * k * m * m + 8 * slots * m * d + 10 * work;
    const double kept = 2 * m * m + 2 * (slots + (own_rows() ? n : 0)) * d + n * (d + 1);
    sum += {settings().heads * forward, settings().heads * backward, 4 * settings().heads * kept};
  }
  return sum;
}

// exp of the normalised scores [m,m], or 0 and 1.
std::vector<double> Sinkhorn::dense_sorting(const DenseInput& in, int32_t m) const {
  const auto size = static_cast<size_t>(m);
  std::vector<double> p = net_.dense_scores(in, own_.block, m);
  if (own_.hard) {
    // The best sum over all sets of columns given to the first rows.
    std::vector<double> best(size_t{1} << size, -1e300);
    std::vector<int> last(best.size());
    best[0] = 0;
    for (size_t set = 1; set < best.size(); ++set) {
      const auto row = static_cast<size_t>(std::popcount(set)) - 1;
      for (size_t c = 0; c < size; ++c)
        if (set >> c & 1)
          if (const double sum = best[set ^ size_t{1} << c] + p[row * size + c]; sum > best[set])
            best[set] = sum, last[set] = static_cast<int>(c);
    }
    std::fill(p.begin(), p.end(), 0);
    for (size_t set = best.size() - 1; set > 0; set ^= size_t{1} << last[set])
      p[(static_cast<size_t>(std::popcount(set)) - 1) * size + static_cast<size_t>(last[set])] = 1;
    return p;
  }
  for (double& v : p) v = std::exp(v / own_.temperature);
  for (size_t u = 0; settings().layer.causal && u < size; ++u) {
    double sum = 0;
    for (size_t v = 0; v < u; ++v) sum += p[u * size + v];
    for (size_t v = 0; v < size; ++v) p[u * size + v] = v < u ? p[u * size + v] / sum : 0;
  }
  if (settings().layer.causal) return p;
  for (int k = 0; k < own_.iterations; ++k)
    for (const bool rows : {true, false})
      for (size_t i = 0; i < size; ++i) {
        double sum = 0;
        for (size_t j = 0; j < size; ++j) sum += p[rows ? i * size + j : j * size + i];
        for (size_t j = 0; j < size; ++j) p[rows ? i * size + j : j * size + i] /= sum;
      }
  return p;
}

std::vector<double> Sinkhorn::dense_output(const DenseInput& in) const {
  const int32_t b = own_.block, m = blocks_of(in.n);
  const auto d = static_cast<size_t>(in.head_dim);
  const std::vector<double> p = dense_sorting(in, m);
  std::vector<double> o(static_cast<size_t>(in.n) * d);
  for (int32_t i = 0; i < in.n; ++i) {
    std::vector<std::vector<double>> keys, values;
    const auto add_row = [&](const std::vector<std::pair<int32_t, double>>& weights) {
      keys.emplace_back(d);
      values.emplace_back(d);
      for (const auto& [j, w] : weights)
        for (size_t c = 0; c < d; ++c) {
          keys.back()[c] += w * in.k()[static_cast<size_t>(j) * d + c];
          values.back()[c] += w * in.v()[static_cast<size_t>(j) * d + c];
        }
    };
    const auto softmax_over = [&](double factor) {
      double sum = 0;
      std::vector<double> w;
      for (const auto& key : keys) {
        double s = 0;
        for (size_t c = 0; c < d; ++c) s += key[c] * in.q()[static_cast<size_t>(i) * d + c];
        sum += w.emplace_back(std::exp(s / std::sqrt(static_cast<double>(d))));
      }
      for (size_t j = 0; j < w.size(); ++j)
        for (size_t c = 0; c < d; ++c) o[static_cast<size_t>(i) * d + c] += factor * w[j] / sum * values[j][c];
      keys.clear();
      values.clear();
    };
    std::set<int32_t> seen;
    for (int32_t u = own_.sort_cut ? 0 : i / b; u < (own_.sort_cut ? std::min(own_.sort_cut, m) : i / b + 1); ++u)
      for (int32_t t = 0; t < b; ++t) {
        std::vector<std::pair<int32_t, double>> weights;
        double sum = 0;
        for (int32_t v = 0; v < m && v * b + t < in.n; ++v)
          if (const double w = p[static_cast<size_t>(u * m + v)]; w > 0) sum += w, weights.emplace_back(v * b + t, w);
        for (auto& [j, w] : weights) w /= sum;
        if (weights.empty() || (own_.hard && !seen.insert(weights[0].first).second)) continue;
        add_row(weights);
      }
    const auto seen_of_own = [&](int32_t j) { return !settings().layer.causal || j <= i || j < front(); };
    for (int32_t j = i / b * b; j < std::min(in.n, (i / b + 1) * b) && !own_.sort_cut; ++j)
      if (seen_of_own(j) && (!own_.hard || seen.insert(j).second)) add_row({{j, 1.0}});
    softmax_over(1);
    for (int32_t j = 0; j < in.n && own_.add_full; ++j)
      if (seen_of_own(j)) add_row({{j, 1.0}});
    if (own_.add_full) softmax_over(1);
  }
  return o;
}

}  // namespace

AttentionVariant sinkhorn_variant() { return variant<Sinkhorn, SinkhornSettings>("sinkhorn", true); }

}  // namespace tapeformer::models
