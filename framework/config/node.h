// SPDX-License-Identifier: Apache-2.0
// The tree of a parsed config: scalars keep their text and whether it was quoted, everything knows its place.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/source.h"

namespace tapeformer::config {

struct Entry;

// What a value replaced, for `explain`.
struct Overridden {
  Place place;
  std::string text;
};

struct Node {
  enum class Kind { scalar, list, map };
  Kind kind = Kind::scalar;
  std::string text;   // of a scalar, as typed
  bool plain = true;  // a scalar without quotes
  Place place;
  std::vector<Entry> entries;  // of a map, in the order of the file
  std::vector<Node> items;     // of a list
  std::vector<Overridden> overrode;

  bool is_empty() const { return kind == Kind::scalar && plain && text.empty(); }
  const Entry* find(std::string_view key) const;
  Entry* find(std::string_view key);
};

struct Entry {
  std::string key;
  Place key_place;
  Node value;
};

// Number of values in the tree, and of levels of maps and lists.
int size_of(const Node& node);
int depth_of(const Node& node);
// "3", "\"fast\"", "a list", "nothing": for "..., found X".
std::string found(const Node& node);
// The value in one line, as YAML.
std::string flow_text(const Node& node);

}  // namespace tapeformer::config
