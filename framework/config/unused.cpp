// SPDX-License-Identifier: Apache-2.0
// Keys that another key leaves without meaning.
#include <fmt/format.h>

#include <algorithm>

#include "framework/config/print.h"
#include "framework/config/section.h"
#include "framework/config/state.h"

namespace tapeformer::config {

void Section::unused(std::string_view key, std::string_view other) {
  DocumentState& document = *state_->document;
  const auto at = std::find_if(state_->members.begin(), state_->members.end(),
                               [&](const Member& m) { return !m.section && m.field.key == key && m.field.text != m.field.default_text; });
  if (at == state_->members.end()) return;
  const Member& reason = member_at(document, other);
  if (!reason.section && reason.field.refused) return;  // what was meant is not known
  Field& field = at->field;
  if (!field.meaningless_with.empty()) return;  // one reason is enough
  const Place& from = field.place;
  // A stored value was there when the run began, and its data were counted with it: it stays.
  if (document.stored && !from.source->command_line) return;
  field.meaningless_with = reason.section ? std::string(other) : fmt::format("{}: {}", other, shortened(reason.field.text));
  document.meaningless = document.meaningless || !document.stored;
  const SourcePtr& by = (reason.section ? reason.section->place : reason.field.place).source;
  const bool overridden = (by && by->command_line) || document.removed.contains(std::string(other));
  const bool together = from.source->command_line ? !by || overridden : !overridden && (!by || by == from.source);
  std::string message = fmt::format("'{}' has no meaning with '{}'", path(key), field.meaningless_with);
  if (together) fault(key, std::move(message), "remove it");
  else warn(key, std::move(message));
}

}  // namespace tapeformer::config
