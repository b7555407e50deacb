// SPDX-License-Identifier: Apache-2.0
// Local attention: a row sees its neighbours. `band` is exact (`left` and `right` extra keys; Beltagy, Peters, Cohan 2020, 2004.05150),
// `blocked` cuts the sequence into blocks and a row sees its own block and whole neighbours (Parmar et al. 2018, 1802.05751).
#include <algorithm>

#include "models/attention/planned_heads.h"
#include "models/attention/variant.h"

namespace tapeformer::models {
namespace {

enum class Form : uint8_t { band, blocked };

struct LocalSettings {
  Form form = Form::band;
  int left = 128, right = 128;
  int block = 64;
  int blocks_left = 1, blocks_right = 1;

  void read(config::Section&);
  void check(config::Section&, const Choice&) const;
};

void LocalSettings::read(config::Section& section) {
  const auto size = config::between(0, 1 << 30);
  section.choice("form", form, {{"band", Form::band}, {"blocked", Form::blocked}},
                 "band: an exact window; blocked: blocks of rows and their neighbours");
  section.field("left", left, size, "band: extra keys a row sees before itself");
  section.field("right", right, size, "band: extra keys a row sees after itself");
  section.field("block", block, config::between(1, 1 << 30), "blocked: rows of a block");
  section.field("blocks_left", blocks_left, size, "blocked: whole blocks a row sees before its own");
  section.field("blocks_right", blocks_right, size, "blocked: whole blocks a row sees after its own");
}

void LocalSettings::check(config::Section& section, const Choice& choice) const {
  if (form == Form::band)
    for (const char* key : {"block", "blocks_left", "blocks_right"}) section.unused(key, section.path("form"));
  else
    for (const char* key : {"left", "right"}) section.unused(key, section.path("form"));
  if (choice.layer.causal && choice.layer.extra_rows == 0) section.unused(form == Form::band ? "right" : "blocks_right", choice.causal_key);
}

class Local : public PlannedHeads {
 public:
  static constexpr bool can_be_causal = true;

  Local(const nn::Builder&, const HeadSettings& settings, const LocalSettings& own) : PlannedHeads(settings), own_(own) {}

  bool in_pattern(int32_t, int, int32_t i, int32_t j) const override {
    if (own_.form == Form::band) return j >= i - own_.left && j <= i + own_.right;
    const int32_t distance = j / own_.block - i / own_.block;
    return distance >= -own_.blocks_left && distance <= own_.blocks_right;
  }

 protected:
  TilePlan plan(int32_t n, int) const override {
    std::vector<int32_t> first, end;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t b = own_.block, block = i / b;
      const int64_t from = own_.form == Form::band ? i - own_.left : (block - own_.blocks_left) * b;
      const int64_t to = own_.form == Form::band ? i + own_.right + 1 : (block + own_.blocks_right + 1) * b;
      first.push_back(static_cast<int32_t>(std::clamp<int64_t>(from, 0, n)));
      end.push_back(static_cast<int32_t>(std::clamp<int64_t>(to, 0, n)));
    }
    return interval_plan(n, std::move(first), std::move(end));
  }

 private:
  LocalSettings own_;
};

}  // namespace

AttentionVariant local_variant() { return variant<Local, LocalSettings>("local", true); }

}  // namespace tapeformer::models
