// SPDX-License-Identifier: Apache-2.0
// What a document knows: its tree, its faults, and every key that was asked for. Private to this folder.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/config/fault.h"
#include "framework/config/node.h"
#include "framework/config/override.h"

namespace tapeformer::config {

struct SectionState;

// One key that a component asked for.
struct Field {
  std::string key, type, help;  // the type in words: "a number > 0"
  std::string default_text, text;
  Place place;                   // of the value; no source: the default
  bool refused = false;          // what was given is not one of its values
  std::string meaningless_with;  // "data.task: regression", which leaves the value without effect

  const std::string& effective_text() const { return meaningless_with.empty() ? text : default_text; }
};

// Fields and sections in the order in which they were asked for.
struct Member {
  Field field;
  std::shared_ptr<SectionState> section;  // null for a field
};

struct DocumentState;

struct SectionState {
  DocumentState* document = nullptr;
  SectionState* parent = nullptr;
  std::string key, path, help;
  const Node* node = nullptr;  // a map, or null when the section is not given
  Place place;                 // of its key
  bool is_list = false;        // of sections named 0, 1, ...
  std::vector<Member> members;

  std::string path_of(std::string_view key) const { return path.empty() ? std::string(key) : path + "." + std::string(key); }
  const Entry* entry(std::string_view key) const { return node == nullptr ? nullptr : node->find(key); }
};

struct DocumentState {
  std::string user_text;
  bool stored = false;               // a resolved config of a run
  bool unavailable_allowed = false;  // nothing is run by it
  bool meaningless = false;          // a key was given that another leaves without meaning
  SourcePtr source;                  // the file; the place of what has no other
  Node tree;
  Report report;
  Removed removed;
  std::shared_ptr<SectionState> root;
};

// Adds an error for every key that no component asked for.
void report_unknown_keys(DocumentState& document);
// The key or section at a dotted path, or fails with a suggestion.
const Member& member_at(const DocumentState& document, std::string_view path);

}  // namespace tapeformer::config
