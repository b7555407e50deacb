// SPDX-License-Identifier: Apache-2.0
// Global attention: the first rows of a sequence see and are seen by all, a row that is not global sees them and itself (Beltagy, Peters,
// Cohan 2020, 2004.05150).
#include "models/attention/global_heads.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

struct Settings {
  int count = 1;
  bool share_projections = true;

  void read(config::Section& section) {
    section.field("count", count, config::between(1, 1 << 30), "global rows: the first of each sequence");
    section.field("share_projections", share_projections, "false: global rows project query, key and value by weights of their own");
  }
};

class Global : public GlobalHeads {
 public:
  Global(const nn::Builder& build, const HeadSettings& settings, const Settings& own)
      : GlobalHeads(build, settings, {.count = own.count, .own_projections = !own.share_projections}) {}
};

}  // namespace

AttentionVariant global_variant() { return variant<Global, Settings>("global", true); }

}  // namespace tapeformer::models
