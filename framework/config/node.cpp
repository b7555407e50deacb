// SPDX-License-Identifier: Apache-2.0
// Walks over the tree. Its depth is limited by the parser, so recursion is safe.
#include "framework/config/node.h"

#include <algorithm>
#include <utility>

#include "framework/config/print.h"
#include "framework/config/scalar.h"
#include "framework/core/log.h"

namespace tapeformer::config {

const Entry* Node::find(std::string_view key) const {
  const auto at = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key == key; });
  return at == entries.end() ? nullptr : &*at;
}

Entry* Node::find(std::string_view key) { return const_cast<Entry*>(std::as_const(*this).find(key)); }

int size_of(const Node& node) {
  int n = 1;
  for (const Entry& e : node.entries) n += size_of(e.value);
  for (const Node& item : node.items) n += size_of(item);
  return n;
}

int depth_of(const Node& node) {
  int deepest = 0;
  for (const Entry& e : node.entries) deepest = std::max(deepest, depth_of(e.value));
  for (const Node& item : node.items) deepest = std::max(deepest, depth_of(item));
  return deepest + (node.kind != Node::Kind::scalar);
}

std::string found(const Node& node) {
  if (node.kind == Node::Kind::list) return "a list";
  if (node.kind == Node::Kind::map) return "a map";
  if (node.is_empty()) return "nothing";
  if (!node.plain) return "the text " + in_quotes(node.text);
  return looks_numeric(node.text) || node.text == "true" || node.text == "false" ? shortened(node.text) : in_quotes(node.text);
}

std::string flow_text(const Node& node) {
  if (node.kind == Node::Kind::scalar) return node.plain ? printable(node.text) : yaml_text(node.text);
  std::string text;
  for (const Entry& e : node.entries) text += (text.empty() ? "" : ", ") + yaml_text(e.key) + ": " + flow_text(e.value);
  for (const Node& item : node.items) text += (text.empty() ? "" : ", ") + flow_text(item);
  return node.kind == Node::Kind::list ? "[" + text + "]" : "{" + text + "}";
}

}  // namespace tapeformer::config
