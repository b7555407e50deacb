// SPDX-License-Identifier: Apache-2.0
// Global attention: some rows of a sequence see and are seen by all, a row that is not global sees them and itself (Beltagy, Peters,
// Cohan 2020, 2004.05150).
#include <fmt/format.h>

#include "models/attention/global_heads.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct GlobalSettings {
  int count = 1;
  std::vector<int> rows;
  bool share_projections = true;

  void read(config::Section& section) {
    section.field("count", count, config::between(0, 1 << 30), "global rows: the first of each sequence");
    read_global_rows(section, rows);
    if (count == 0 && rows.empty())
      section.fault("count", fmt::format("{} is 0 and {} names none: no row would be global", section.path("count"), section.path("rows")),
                    "a row would see itself and nothing else");
    section.field("share_projections", share_projections, "false: global rows project query, key and value by weights of their own");
  }
  void check(config::Section& section, const Choice& choice) const { check_global_rows(section, rows, choice); }
};

class Global : public GlobalHeads {
 public:
  static constexpr bool can_be_causal = true;

  Global(const nn::Builder& build, const HeadSettings& settings, const GlobalSettings& own)
      : GlobalHeads(
            build, settings,
            {.skipped = settings.layer.extra_rows, .count = own.count, .rows = own.rows, .own_projections = !own.share_projections}) {}
};

}  // namespace

AttentionVariant global_variant() { return variant<Global, GlobalSettings>("global", true); }

}  // namespace tapeformer::models
