// SPDX-License-Identifier: Apache-2.0
// BigBird (Zaheer et al. 2020, 2007.14062): blocks of rows see the neighbouring blocks, global blocks or learned global rows, and a few
// blocks at random. The layout is drawn for each layer and head, is a function of the number of blocks, and never changes. In causal heads
// a block's layout is that of a sequence which ends with it, so that it does not change as the sequence grows.
#include <algorithm>

#include "framework/core/random.h"
#include "models/attention/interval_sets.h"
#include "models/attention/planned_heads.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

enum class Globals : uint8_t { first, ends, external };
enum class Fallback : uint8_t { never, short_sequences };

struct BigBirdSettings {
  int block = 64, random_blocks = 3, random_prefix = 0;
  Globals globals = Globals::first;
  int count = 16;
  Fallback fallback = Fallback::never;

  int64_t short_length() const { return (int64_t{5} + 2 * int64_t{random_blocks}) * block; }

  void read(config::Section& section) {
    section.field("block", block, config::between(1, 1 << 24), "rows of a block");
    section.field("random_blocks", random_blocks, config::between(0, 1 << 24),
                  "blocks drawn for each block, beside its neighbours and the global ones");
    section.field("random_prefix", random_prefix, config::between(0, 1 << 24),
                  "above 0: random blocks are drawn from the sequence's first so many blocks only, as published code does");
    section.choice("globals", globals, {{"first", Globals::first}, {"ends", Globals::ends}, {"external", Globals::external}},
                   "what sees and is seen by all: the first block, the first and the last, or learned rows in front of the sequence");
    section.field("count", count, config::between(1, 1 << 16), "external: how many learned rows");
    section.choice("fallback", fallback, {{"never", Fallback::never}, {"short", Fallback::short_sequences}},
                   "short: full attention for sequences of up to (5 + 2 random_blocks) blocks");
  }
  void check(config::Section& section, const Choice& choice) const {
    if (globals != Globals::external) section.unused("count", section.path("globals"));
    if (choice.layer.causal) {
      const auto knows_the_end = [&](const char* key, const char* word, const char* advice) {
        section.fault(key,
                      fmt::format("'{}' is {}, but '{}' is true: a row would see other rows once the sequence has grown", section.path(key),
                                  word, choice.causal_key),
                      advice);
      };
      if (globals == Globals::ends) knows_the_end("globals", "ends", "take first or external");
      if (fallback == Fallback::short_sequences) knows_the_end("fallback", "short", "take never");
    }
    if (random_blocks == 0) section.unused("random_prefix", section.path("random_blocks"));
    if (fallback == Fallback::short_sequences)
      section.warn("fallback", fmt::format("'{}' bigbird: sequences of up to {} rows get full attention ('{}' is short)", choice.type_key,
                                           short_length(), section.path("fallback")));
  }
  ExtraRows extra_rows() const { return globals == Globals::external ? ExtraRows{.count = count} : ExtraRows{}; }
};

class BigBird : public PlannedHeads {
 public:
  static constexpr bool can_be_causal = true;

  BigBird(const nn::Builder& build, const HeadSettings& settings, const BigBirdSettings& own)
      : PlannedHeads(settings), own_(own), seed_(build.seed), front_(own.extra_rows().count) {}

  // By the definition: a random block is one of the random_blocks candidates of smallest words.
  bool in_pattern(int32_t n, int head, int32_t i, int32_t j) const override {
    if (i < front_ || j < front_) return true;
    const int32_t rows = n - front_;
    if (own_.fallback == Fallback::short_sequences && rows <= own_.short_length()) return true;
    const int32_t u = (i - front_) / own_.block, v = (j - front_) / own_.block;
    const int32_t blocks = settings().layer.causal ? u + 1 : (rows + own_.block - 1) / own_.block;
    if (v >= blocks) return false;
    const auto global = [&](int32_t block) {
      return own_.globals != Globals::external && (block == 0 || (own_.globals == Globals::ends && block == blocks - 1));
    };
    if (global(u) || global(v) || std::abs(u - v) <= 1) return true;
    if (own_.random_prefix > 0 && v >= own_.random_prefix) return false;
    const uint64_t key = random_key(seed_, "layout", settings().layer_name, head);
    const auto word = [&](int32_t block) {
      const auto column = static_cast<uint32_t>(block);
      return philox({column / 4, static_cast<uint32_t>(u), no_sample, static_cast<uint32_t>(blocks)}, key)[column % 4];
    };
    const uint32_t own = word(v);
    int smaller = 0;
    const int32_t drawable = own_.random_prefix > 0 ? std::min(own_.random_prefix, blocks) : blocks;
    for (int32_t w = 0; w < drawable; ++w) {
      if (global(w) || std::abs(u - w) <= 1) continue;
      const uint32_t other = word(w);
      smaller += other < own || (other == own && w < v);
    }
    return smaller < own_.random_blocks;
  }

 protected:
  bool differs_by_head() const override { return own_.random_blocks > 0; }

  std::vector<TilePlan> parts(int32_t n, int head) const override {
    std::vector<TilePlan> out;
    const int32_t rows = n - front_, b = own_.block, blocks = (rows + b - 1) / b;
    if (own_.fallback == Fallback::short_sequences && rows <= own_.short_length()) {
      out.push_back(full_plan(n, n));
      return out;
    }
    std::vector<Interval> runs;
    out.push_back(interval_sets_plan(n, n, [&](int32_t i) -> const std::vector<Interval>& {
      if (i < front_) return runs;
      if ((i - front_) % b == 0) {
        runs.assign(1, {0, front_});
        const int32_t u = (i - front_) / b;
        for (const int32_t v : seen_by(u, settings().layer.causal ? u + 1 : blocks, head))
          runs.push_back({front_ + v * b, std::min(n, front_ + (v + 1) * b)});
      }
      return runs;
    }));
    if (front_ == 0 || n == 0) return out;
    out.push_back(full_plan(front_, n));
    for (int32_t i = 0; i < front_; ++i) out.back().query_rows.push_back(i);
    return out;
  }

 private:
  Draw layout(int head, int32_t blocks) const {
    return {random_key(seed_, "layout", settings().layer_name, head), no_sample, static_cast<uint32_t>(blocks)};
  }

  // The blocks that block u sees.
  std::vector<int32_t> seen_by(int32_t u, int32_t blocks, int head) const {
    std::vector<bool> base(static_cast<size_t>(blocks), false);
    std::vector<int32_t> global;
    if (own_.globals != Globals::external) global.push_back(0);
    if (own_.globals == Globals::ends) global.push_back(blocks - 1);
    for (const int32_t g : global) {
      if (g == u) base.assign(base.size(), true);
      base[static_cast<size_t>(g)] = true;
    }
    for (int32_t v = std::max(0, u - 1); v <= std::min(blocks - 1, u + 1); ++v) base[static_cast<size_t>(v)] = true;
    std::vector<int32_t> seen, candidates;
    for (int32_t v = 0; v < blocks; ++v)
      if (base[static_cast<size_t>(v)]) seen.push_back(v);
      else if (own_.random_prefix == 0 || v < own_.random_prefix) candidates.push_back(v);
    const std::vector<int32_t> drawn =
        picks(layout(head, blocks), static_cast<uint32_t>(u), candidates, static_cast<size_t>(own_.random_blocks));
    seen.insert(seen.end(), drawn.begin(), drawn.end());
    return seen;
  }

  BigBirdSettings own_;
  uint64_t seed_;
  int32_t front_;  // learned rows before each sequence
};

}  // namespace

AttentionVariant bigbird_variant() { return variant<BigBird, BigBirdSettings>("bigbird", true); }

}  // namespace tapeformer::models
