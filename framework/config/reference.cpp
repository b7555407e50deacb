// SPDX-License-Identifier: Apache-2.0
// What a document prints about itself: the resolved config, its values, the reference, and the history of one key.
#include <fmt/format.h>

#include "framework/config/document.h"
#include "framework/config/print.h"
#include "framework/config/state.h"

namespace tapeformer::config {
namespace {

std::string origin_of(const Field& field) {
  if (field.meaningless_with.empty()) return origin(field.place);
  return fmt::format("default; {} has no meaning with {}", origin(field.place), field.meaningless_with);
}

void print_resolved(const SectionState& section, const std::string& indent, std::string& text) {
  for (const Member& m : section.members) {
    if (!m.section) {
      text += fmt::format("{}{}: {}  # from: {}\n", indent, yaml_text(m.field.key), m.field.effective_text(), origin_of(m.field));
      continue;
    }
    const char* nothing = !m.section->members.empty() ? "" : m.section->is_list ? " []" : " {}";
    text += fmt::format("{}{}:{}  # from: {}\n", indent, yaml_text(m.section->key), nothing, origin(m.section->place));
    if (!m.section->is_list) {
      print_resolved(*m.section, indent + "  ", text);
      continue;
    }
    for (const Member& item : m.section->members) {
      const size_t dash = text.size() + indent.size() + 2;
      print_resolved(*item.section, indent + "    ", text);
      text[dash] = '-';
    }
  }
}

void collect_values(const SectionState& section, bool given, std::map<std::string, std::string>& values) {
  for (const Member& m : section.members) {
    if (m.section) collect_values(*m.section, given, values);
    else values.emplace(section.path_of(m.field.key), given ? m.field.text : m.field.effective_text());
  }
}

void print_reference(const SectionState& section, std::string& text);
void print_reference(const Member& m, const std::string& path, std::string& text) {
  if (m.section) {
    text += fmt::format("\n{}: {}\n", m.section->path, m.section->help);
    print_reference(*m.section, text);
  } else {
    text += fmt::format("  {}: {}; default {}\n      {}\n", path, m.field.type, m.field.default_text, m.field.help);
  }
}
// The keys of a section first, then the sections below it.
void print_reference(const SectionState& section, std::string& text) {
  for (const bool sections : {false, true})
    for (const Member& m : section.members)
      if (static_cast<bool>(m.section) == sections) print_reference(m, section.path_of(m.field.key), text);
}

// Of the one key that no component reads.
constexpr std::string_view base_text =
    "  base: a file name, relative to this file\n      another config, whose keys hold where this one does not give them\n";

std::string history(const DocumentState& document, const Field& field, const std::string& path) {
  std::string text = fmt::format("{} = {}\n  from {}\n", path, field.text, origin(field.place));
  std::vector<Overridden> chain;
  const Node* node = &document.tree;
  for (size_t begin = 0; begin <= path.size() && node != nullptr;) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const Entry* entry = node->find(std::string_view(path).substr(begin, end - begin));
    node = entry == nullptr ? nullptr : &entry->value;
    begin = end + 1;
  }
  if (node != nullptr) chain = node->overrode;
  if (const auto at = document.removed.find(path); at != document.removed.end()) chain = at->second;
  for (auto o = chain.rbegin(); o != chain.rend(); ++o) text += fmt::format("  overrides {}: {}\n", origin(o->place), o->text);
  if (!field.meaningless_with.empty()) text += fmt::format("  has no meaning with {}\n", field.meaningless_with);
  if (field.place.source) text += fmt::format("  overrides default: {}\n", field.default_text);
  return text + fmt::format("  {}: {}\n", field.type, field.help);
}

}  // namespace

std::string Document::resolved() const {
  std::string text;
  print_resolved(*state_->root, "", text);
  return text;
}

std::map<std::string, std::string> Document::values() const {
  std::map<std::string, std::string> values;
  collect_values(*state_->root, false, values);
  return values;
}

std::map<std::string, std::string> Document::given_values() const {
  std::map<std::string, std::string> values;
  collect_values(*state_->root, true, values);
  return values;
}

std::string Document::reference(std::string_view key) const {
  std::string text;
  if (key.empty() || key == "base") text = base_text;
  if (key.empty()) print_reference(*state_->root, text);
  else if (key != "base") print_reference(member_at(*state_, key), std::string(key), text);
  return text.substr(0, 1) == "\n" ? text.substr(1) : text;
}

std::string Document::explain(std::string_view key) const {
  if (key == "base") return std::string(base_text);
  const Member& member = member_at(*state_, key);
  if (!member.section) return history(*state_, member.field, std::string(key));
  return fmt::format("{}: {}\n  from {}\n", key, member.section->help, origin(member.section->place));
}

}  // namespace tapeformer::config
