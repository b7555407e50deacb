// SPDX-License-Identifier: Apache-2.0
// Longformer: global rows and, for the others, a window, dilated where a head's stride is above 1; global rows have projections of their
// own, which start as copies (Beltagy, Peters, Cohan 2020, 2004.05150).
#include <fmt/format.h>

#include "models/attention/global_heads.h"
#include "models/attention/per_head.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct LongformerSettings {
  int count = 1;
  std::vector<int> rows;
  int left = 256, right = 256;
  std::vector<int> stride = {1};
  bool share_projections = false;

  void read(config::Section& section) {
    const auto size = config::between(0, 1 << 30);
    section.field("count", count, size, "global rows: the first of each sequence");
    read_global_rows(section, rows);
    section.field("left", left, size, "extra keys a row sees before itself");
    section.field("right", right, size, "extra keys a row sees after itself");
    section.field("stride", stride, config::between(1, 1 << 30),
                  "rows from one key of the window to the next; a list has one number a head");
    section.field("share_projections", share_projections, "true: global rows use the projections of the others");
  }
  void check(config::Section& section, const Choice& choice) const {
    check_global_rows(section, rows, choice);
    check_per_head(section, "stride", stride, choice);
    if (count == 0 && rows.empty() && !share_projections)
      section.fault("share_projections",
                    fmt::format("'{}' is false, but '{}' is 0 and '{}' names none: no row would be projected by the weights of global rows",
                                section.path("share_projections"), section.path("count"), section.path("rows")),
                    "set it to true");
    if (choice.layer.causal && choice.layer.extra_rows == 0) section.unused("right", choice.causal_key);
  }
};

class Longformer : public GlobalHeads {
 public:
  static constexpr bool can_be_causal = true;

  Longformer(const nn::Builder& build, const HeadSettings& settings, const LongformerSettings& own)
      : GlobalHeads(build, settings,
                    {.skipped = settings.layer.extra_rows,
                     .count = own.count,
                     .rows = own.rows,
                     .left = own.left,
                     .right = own.right,
                     .stride = own.stride,
                     .own_projections = !own.share_projections}) {}
};

}  // namespace

AttentionVariant longformer_variant() { return variant<Longformer, LongformerSettings>("longformer", true); }

}  // namespace tapeformer::models
