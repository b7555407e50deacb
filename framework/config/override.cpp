// SPDX-License-Identifier: Apache-2.0
// An override is turned into a small tree under its dotted key and laid over the file's: the same rules, the same faults.
#include "framework/config/override.h"

#include <fmt/format.h>

#include <limits>

#include "framework/config/merge.h"
#include "framework/config/parse.h"
#include "framework/config/print.h"
#include "framework/core/log.h"
#include "framework/core/suggest.h"

namespace tapeformer::config {
namespace {

SourcePtr source_of(const std::string& name, std::string text) {
  const int order = std::numeric_limits<int>::max();
  return std::make_shared<const Source>(Source{"command line: '" + printable(name) + "'", std::move(text), {}, order, true});
}

// The words between the dots; none when one is empty or there are too many.
std::vector<std::string> words_of(std::string_view path) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    if (end == begin || words.size() == static_cast<size_t>(depth_limit)) return {};
    words.emplace_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

void remove(Node& root, const std::string& path, const Place& place, Report& report, Removed& removed) {
  Node* at = &root;
  const std::vector<std::string> words = words_of(path);
  std::string above;
  for (size_t i = 0; i < words.size(); ++i) {
    Entry* entry = at->find(words[i]);
    if (entry == nullptr) {
      std::vector<std::string> known;
      for (const Entry& e : at->entries) known.push_back(e.key);
      const std::string near = nearest(words[i], known);
      return report.error(place, fmt::format("nothing to remove: '{}' is not given in the config", printable(path)),
                          near.empty() ? std::string() : fmt::format("did you mean '~{}'?", printable(above + near)));
    }
    if (i + 1 < words.size()) {
      at = &entry->value;
      above += words[i] + ".";
      continue;
    }
    std::vector<Overridden> chain = std::move(entry->value.overrode);
    chain.push_back({entry->value.place, flow_text(entry->value)});
    chain.push_back({place, "removed"});
    removed[path] = std::move(chain);
    at->entries.erase(at->entries.begin() + (entry - at->entries.data()));
  }
}

void set(Node& root, const std::string& path, Node value, const Place& place, Report& report) {
  const std::vector<std::string> words = words_of(path);
  const Node* at = &root;
  std::string above;
  for (size_t i = 0; i + 1 < words.size() && at != nullptr; ++i) {
    const Entry* entry = at->find(words[i]);
    above += (above.empty() ? "" : ".") + words[i];
    if (entry != nullptr && entry->value.kind != Node::Kind::map && !entry->value.is_empty())
      return report.error(place, fmt::format("'{}' is no section: it holds {}", printable(above), shortened(flow_text(entry->value))));
    at = entry != nullptr ? &entry->value : nullptr;
  }
  for (auto word = words.rbegin(); word != words.rend(); ++word) {
    Node map;
    map.kind = Node::Kind::map;
    map.place = place;
    map.entries.push_back({*word, place, std::move(value)});
    value = std::move(map);
  }
  lay_over(root, std::move(value));
}

}  // namespace

void apply_overrides(Node& root, const std::vector<std::string>& overrides, Report& report, Removed& removed) {
  for (const std::string& text : overrides) {
    const Place whole{source_of(text, {})};
    const bool removes = text.substr(0, 1) == "~";
    const size_t equals = text.find('=');
    const std::string path = removes ? text.substr(1) : text.substr(0, equals);
    if ((!removes && equals == std::string::npos) || words_of(path).empty()) {
      report.error(whole, "not an override", "write key.path=value to set, ~key.path to remove");
      continue;
    }
    if (path == "base" || path.rfind("base.", 0) == 0) {
      report.error(whole, "'base' can only stand in a file");
      continue;
    }
    if (removes) {
      remove(root, path, whole, report, removed);
      continue;
    }
    std::optional<Node> value = parse(source_of(text, normalised(text.substr(equals + 1))), report);
    if (!value) continue;
    if (static_cast<int>(words_of(path).size()) + depth_of(*value) > depth_limit) {
      report.error(whole, fmt::format("more than {} levels of nesting", depth_limit));
      continue;
    }
    set(root, path, std::move(*value), whole, report);
    removed.erase(path);
  }
}

}  // namespace tapeformer::config
