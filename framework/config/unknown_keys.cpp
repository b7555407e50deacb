// SPDX-License-Identifier: Apache-2.0
// Keys that nobody asked for, and what the user may have meant.
#include <fmt/format.h>

#include <algorithm>

#include "framework/config/print.h"
#include "framework/config/state.h"
#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/core/suggest.h"

namespace tapeformer::config {
namespace {

constexpr size_t names_shown = 12;

std::string name_of(const Member& m) { return m.section ? m.section->key : m.field.key; }

std::vector<std::string> known_in(const SectionState& section) {
  std::vector<std::string> names;
  for (const Member& m : section.members) names.push_back(name_of(m));
  return names;
}

// "num-Epochs" -> "num_epochs": what other tools write.
std::string unified(std::string_view key) {
  std::string text(key);
  for (char& c : text) {
    if (c == '-' || c == ' ') c = '_';
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// The dotted paths of the sections that know `key`.
void sections_with(const SectionState& section, std::string_view key, std::vector<std::string>& paths) {
  for (const Member& m : section.members) {
    if (name_of(m) == key) paths.push_back(section.path.empty() ? "the top level" : "'" + section.path + "'");
    if (m.section) sections_with(*m.section, key, paths);
  }
}

void collect_keys(const SectionState& section, std::vector<std::string>& keys) {
  for (const Member& m : section.members) {
    keys.push_back(name_of(m));
    if (m.section) collect_keys(*m.section, keys);
  }
}

bool path_exists(const SectionState& section, std::string_view path) {
  const std::string_view head = path.substr(0, path.find('.'));
  for (const Member& m : section.members) {
    if (name_of(m) != head) continue;
    return head.size() == path.size() || (m.section && path_exists(*m.section, path.substr(head.size() + 1)));
  }
  return false;
}

std::string where_known(const SectionState& root, const std::string& key) {
  std::vector<std::string> paths;
  sections_with(root, key, paths);
  return paths.empty() ? std::string() : fmt::format("'{}' is a key of {}", printable(key), joined(paths, 3));
}

std::string hint_for(const SectionState& section, const SectionState& root, const std::string& key) {
  const std::vector<std::string> known = known_in(section);
  if (key.find('.') != std::string::npos && path_exists(section, key))
    return fmt::format("dotted keys are for the command line: here write '{}:' and the rest below it",
                       printable(key.substr(0, key.find('.'))));
  std::string hint = nearest(unified(key), known);
  if (!hint.empty()) hint = fmt::format("did you mean '{}'?", hint);
  std::string elsewhere = where_known(root, key);
  if (elsewhere.empty() && hint.empty()) {
    std::vector<std::string> keys;
    collect_keys(root, keys);
    const std::string near = nearest(unified(key), keys);
    if (!near.empty()) elsewhere = where_known(root, near);
  }
  if (!elsewhere.empty()) hint += (hint.empty() ? "" : "  ") + elsewhere;
  if (known.empty()) return hint;
  return hint + (hint.empty() ? "" : "  ") + "(known here: " + joined(known, names_shown) + ")";
}

// `left` bounds the search for hints, which is slow for thousands of keys that nobody will read about.
void check(const SectionState& section, DocumentState& document, int& left) {
  if (section.node != nullptr) {
    const std::vector<std::string> known = known_in(section);
    for (const Entry& e : section.node->entries) {
      if (std::find(known.begin(), known.end(), e.key) != known.end()) continue;
      const std::string where = section.path.empty() ? "at the top level" : "in '" + section.path + "'";
      document.report.error(e.key_place, fmt::format("unknown key '{}' {}", shortened(e.key), where),
                            left-- > 0 ? hint_for(section, *document.root, e.key) : std::string());
    }
  }
  for (const Member& m : section.members)
    if (m.section) check(*m.section, document, left);
}

void collect_paths(const SectionState& section, std::vector<std::string>& paths) {
  for (const Member& m : section.members) {
    paths.push_back(section.path_of(name_of(m)));
    if (m.section) collect_paths(*m.section, paths);
  }
}

const Member* find_member(const SectionState& section, std::string_view path) {
  for (const Member& m : section.members) {
    if (section.path_of(name_of(m)) == path) return &m;
    if (!m.section) continue;
    if (const Member* below = find_member(*m.section, path)) return below;
  }
  return nullptr;
}

}  // namespace

void report_unknown_keys(DocumentState& document) {
  int hints_left = 200;
  check(*document.root, document, hints_left);
}

const Member& member_at(const DocumentState& document, std::string_view path) {
  if (const Member* found = find_member(*document.root, path)) return *found;
  std::vector<std::string> paths;
  collect_paths(*document.root, paths);
  std::string near = nearest(path, paths);
  const std::string last(path.substr(path.rfind('.') + 1));
  for (const std::string& p : paths)
    if (near.empty() && p.size() > last.size() && p.compare(p.size() - last.size() - 1, std::string::npos, "." + last) == 0) near = p;
  fail(ExitCode::usage, "unknown key '{}'{}", shortened(path), near.empty() ? "" : "; did you mean '" + near + "'?");
}

}  // namespace tapeformer::config
