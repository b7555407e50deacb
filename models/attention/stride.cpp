// SPDX-License-Identifier: Apache-2.0
// Strided (dilated) attention: a row sees every `stride`-th row, `reach` of them on each side (Beltagy, Peters, Cohan 2020, 2004.05150, the
// dilated window; Child et al. 2019, 1904.10509). Rows of one residue see only each other, and among them the pattern is a band: the rows
// are listed residue by residue, so it costs what a band of as many keys costs. Each head may have its own stride and reach.
#include <algorithm>
#include <array>

#include "models/attention/interval_sets.h"
#include "models/attention/per_head.h"
#include "models/attention/planned_heads.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct StrideSettings {
  std::vector<int> stride = {2}, reach = {64};  // one for all heads, or one a head
  bool include_self = true;

  void read(config::Section& section) {
    section.field("stride", stride, config::between(1, 1 << 30), "rows from one key to the next; a list has one number a head");
    section.field("reach", reach, config::between(0, 1 << 30), "keys a row sees on each side; a list has one number a head");
    section.field("include_self", include_self, "whether a row sees itself; a row that then sees none gets zeros");
  }
  void check(config::Section& section, const Choice& choice) const {
    check_per_head(section, "stride", stride, choice);
    check_per_head(section, "reach", reach, choice);
    if (!include_self && std::find(reach.begin(), reach.end(), 0) != reach.end())
      section.fault(
          "reach",
          fmt::format("'{}' has a 0, but '{}' is false: a row would see no key", section.path("reach"), section.path("include_self")),
          "give a reach of at least 1");
  }
};

class Stride : public PlannedHeads {
 public:
  static constexpr bool can_be_causal = true;

  Stride(const nn::Builder&, const HeadSettings& settings, const StrideSettings& own) : PlannedHeads(settings), own_(own) {}

  bool in_pattern(int32_t, int head, int32_t i, int32_t j) const override {
    const int64_t distance = std::abs(int64_t{i} - j);
    const int stride = of_head(own_.stride, settings(), head);
    return distance % stride == 0 && distance / stride <= of_head(own_.reach, settings(), head) && (own_.include_self || i != j);
  }

 protected:
  bool differs_by_head() const override { return own_.stride.size() > 1 || own_.reach.size() > 1; }

  TilePlan plan(int32_t n, int head) const override {
    const int stride = of_head(own_.stride, settings(), head), reach = of_head(own_.reach, settings(), head);
    auto [rows, first, end] = residue_rows(n, stride);
    for (int64_t at = 0; at < n; ++at) {
      int32_t &from = first[static_cast<size_t>(at)], &to = end[static_cast<size_t>(at)];
      from = static_cast<int32_t>(std::max<int64_t>(from, at - reach));
      to = static_cast<int32_t>(std::min<int64_t>(to, at + reach + 1));
    }
    TilePlan plan =
        own_.include_self ? interval_plan(n, first, end) : interval_sets_plan(n, n, [&, &first = first, &end = end](int32_t at) {
          return std::array{Interval{first[static_cast<size_t>(at)], at}, Interval{at + 1, end[static_cast<size_t>(at)]}};
        });
    plan.query_rows = rows;
    plan.key_rows = std::move(rows);
    return plan;
  }

 private:
  StrideSettings own_;
};

}  // namespace

AttentionVariant stride_variant() { return variant<Stride, StrideSettings>("stride", true); }

}  // namespace tapeformer::models
