// SPDX-License-Identifier: Apache-2.0
// Sparse Transformer (Child, Gray, Radford, Sutskever 2019, 1904.10509) for encoders: a local pattern and one that reaches far, in one
// softmax (`merged`), in turns over the heads or over the layers. `strided`: a window of stride / 2 rows on each side (causal: of stride
// rows before), and every stride-th row. `fixed`: the own block of `stride` rows, and the last `summary` rows of every block.
#include <algorithm>
#include <array>

#include "models/attention/interval_sets.h"
#include "models/attention/planned_heads.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

enum class Pattern : uint8_t { strided, fixed };
enum class Use : uint8_t { merged, heads, alternating };

struct SparseTransformerSettings {
  Pattern pattern = Pattern::strided;
  Use use = Use::merged;
  int stride = 128, summary = 8;

  void read(config::Section& section) {
    section.choice("pattern", pattern, {{"strided", Pattern::strided}, {"fixed", Pattern::fixed}},
                   "strided: a window and every stride-th row; fixed: the own block and the last rows of every block");
    section.choice(
        "use", use, {{"merged", Use::merged}, {"heads", Use::heads}, {"alternating", Use::alternating}},
        "merged: both patterns in one softmax; heads: the near one in even heads, the far one in odd heads; alternating: the same "
        "of its layers");
    section.field("stride", stride, config::between(1, 1 << 30), "rows from one far key to the next; fixed: rows of a block");
    section.field("summary", summary, config::between(1, 1 << 30), "fixed: rows at the end of a block that all see");
    if (pattern == Pattern::fixed && summary > stride)
      section.fault("summary", fmt::format("'{}' is {}, more than the rows of a block: '{}' is {}", section.path("summary"), summary,
                                           section.path("stride"), stride));
  }
  void check(config::Section& section, const Choice& choice) const {
    if (pattern == Pattern::strided) section.unused("summary", section.path("pattern"));
    if (use == Use::alternating && choice.layer.turns == 1)
      section.fault("use",
                    fmt::format("'{}' is alternating, but 'model.layers' and '{}' give it one layer: that has one of the two patterns only",
                                section.path("use"), choice.type_key),
                    "give it more layers, or take merged");
    if (use == Use::heads && choice.heads == 1)
      section.fault(
          "use",
          fmt::format("'{}' is heads, but '{}' is 1: one head has one of the two patterns only", section.path("use"), choice.heads_key),
          "give it more heads, or take merged");
  }
};

class SparseTransformer : public PlannedHeads {
 public:
  static constexpr bool can_be_causal = true;

  SparseTransformer(const nn::Builder&, const HeadSettings& settings, const SparseTransformerSettings& own)
      : PlannedHeads(settings), own_(own) {}

  bool in_pattern(int32_t n, int head, int32_t i, int32_t j) const override {
    const int32_t s = own_.stride;
    bool near = false, far = false;
    if (own_.pattern == Pattern::strided) {
      near = j - i <= s / 2 && i - j <= (settings().layer.causal ? s : s / 2);
      far = (i - j) % s == 0;
    } else {
      int64_t end = (int64_t{j} / s + 1) * s;  // of j's block
      if (!settings().layer.causal) end = std::min<int64_t>(n, end);
      near = i / s == j / s;
      far = j >= end - own_.summary;
    }
    return (near && uses_near(head)) || (far && uses_far(head));
  }

 protected:
  bool differs_by_head() const override { return own_.use == Use::heads; }

  std::vector<TilePlan> parts(int32_t n, int head) const override {
    std::vector<TilePlan> out;
    if (uses_near(head)) out.push_back(near_plan(n));
    if (uses_far(head)) out.push_back(own_.pattern == Pattern::strided ? residues(n, uses_near(head)) : summaries(n, uses_near(head)));
    return out;
  }

 private:
  bool uses_near(int head) const { return turn(head) != 1; }
  bool uses_far(int head) const { return turn(head) != 0; }
  // 0: near, 1: far, 2: both.
  int turn(int head) const {
    if (own_.use == Use::merged) return 2;
    return (own_.use == Use::heads ? head : settings().layer.turn) % 2;
  }

  TilePlan near_plan(int32_t n) const {
    std::vector<int32_t> first, end;
    const int64_t s = own_.stride;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t from = own_.pattern == Pattern::strided ? i - back() : i / s * s;
      const int64_t to = own_.pattern == Pattern::strided ? i + s / 2 + 1 : (i / s + 1) * s;
      first.push_back(static_cast<int32_t>(std::max<int64_t>(from, 0)));
      end.push_back(static_cast<int32_t>(std::min<int64_t>(to, n)));
    }
    return interval_plan(n, std::move(first), std::move(end));
  }

  // The rows that a strided window reaches back: encoders halve it.
  int32_t back() const { return settings().layer.causal ? own_.stride : own_.stride / 2; }

  // Rows residue by residue; of its residue a row sees all, or all but those that it sees near.
  TilePlan residues(int32_t n, bool but_near) const {
    std::vector<int32_t> rows, begin, end;
    for (int32_t residue = 0; residue < std::min(own_.stride, n); ++residue) {
      const auto first = static_cast<int32_t>(rows.size());
      for (int64_t i = residue; i < n; i += own_.stride) rows.push_back(static_cast<int32_t>(i));
      begin.resize(rows.size(), first);
      end.resize(rows.size(), static_cast<int32_t>(rows.size()));
    }
    TilePlan plan = !but_near ? interval_plan(n, begin, end) : interval_sets_plan(n, n, [&](int32_t at) {
      const int32_t first = begin[static_cast<size_t>(at)];
      return std::array{Interval{first, std::max(first, at - back() / own_.stride)}, Interval{at + 1, end[static_cast<size_t>(at)]}};
    });
    plan.query_rows = rows;
    plan.key_rows = std::move(rows);
    return plan;
  }

  // The keys are the last rows of the blocks, side by side; a row sees all, or all but those of its own block. A last block that is not
  // whole ends where the sequence does; to causal heads, which do not know that, where it would.
  TilePlan summaries(int32_t n, bool but_own_block) const {
    std::vector<int32_t> keys, block_begin{0};
    for (int64_t block = 0; block < n; block += own_.stride) {
      const int64_t whole = block + own_.stride, end = std::min<int64_t>(n, whole);
      for (int64_t j = std::max(block, (settings().layer.causal ? whole : end) - own_.summary); j < end; ++j)
        keys.push_back(static_cast<int32_t>(j));
      block_begin.push_back(static_cast<int32_t>(keys.size()));
    }
    const auto count = static_cast<int32_t>(keys.size());
    TilePlan plan = !but_own_block ? full_plan(n, count) : interval_sets_plan(n, count, [&](int32_t i) {
      const auto block = static_cast<size_t>(i / own_.stride);
      return std::array{Interval{0, block_begin[block]}, Interval{block_begin[block + 1], count}};
    });
    plan.key_rows = std::move(keys);
    return plan;
  }

  SparseTransformerSettings own_;
};

}  // namespace

AttentionVariant sparse_transformer_variant() { return variant<SparseTransformer, SparseTransformerSettings>("sparse_transformer", true); }

}  // namespace tapeformer::models
