// SPDX-License-Identifier: Apache-2.0
// Keys that another key leaves without meaning.
#include <fmt/format.h>

#include <algorithm>

#include "framework/config/print.h"
#include "framework/config/section.h"
#include "framework/config/state.h"

namespace tapeformer::config {

void Section::unused(std::string_view key, std::string_view other) {
  const auto at = std::find_if(state_->members.begin(), state_->members.end(),
                               [&](const Member& m) { return !m.section && m.field.key == key && m.field.text != m.field.default_text; });
  if (at == state_->members.end()) return;
  Field& field = at->field;
  const Member& reason = member_at(*state_->document, other);
  field.meaningless_with = reason.section ? std::string(other) : fmt::format("{}: {}", other, shortened(reason.field.text));
  const Place& from = field.place;
  if (state_->document->stored && !from.source->command_line) return;  // written by a version that did not mind
  const SourcePtr& by = (reason.section ? reason.section->place : reason.field.place).source;
  const bool together = !by || by == from.source || (by->command_line && from.source->command_line);
  std::string message = fmt::format("'{}' has no meaning with '{}'", path(key), field.meaningless_with);
  if (together) fault(key, std::move(message), "remove it");
  else warn(key, std::move(message));
}

}  // namespace tapeformer::config
