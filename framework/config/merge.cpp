// SPDX-License-Identifier: Apache-2.0
// Reads a chain of base files and merges it. The chain is short by rule, so recursion is safe.
#include "framework/config/merge.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/config/parse.h"
#include "framework/config/print.h"
#include "framework/core/log.h"

namespace tapeformer::config {

void lay_over(Node& under, Node over) {
  if (under.kind == Node::Kind::map && over.is_empty()) return;  // `optim:` with nothing below it changes nothing
  if (under.kind != Node::Kind::map || over.kind != Node::Kind::map) {
    over.overrode = std::move(under.overrode);
    over.overrode.push_back({under.place, flow_text(under)});
    under = std::move(over);
    return;
  }
  for (Entry& entry : over.entries) {
    if (Entry* below = under.find(entry.key)) {
      const bool passes_through = entry.key_place.source->command_line && below->value.kind == Node::Kind::map;
      if (!passes_through) below->key_place = entry.key_place;
      lay_over(below->value, std::move(entry.value));
    } else {
      under.entries.push_back(std::move(entry));
    }
  }
  under.place = over.place;
}

std::optional<std::filesystem::path> base_path(const Node& value, const std::filesystem::path& dir) {
  if (value.kind != Node::Kind::scalar || value.text.empty()) return {};
  return (dir / value.text).lexically_normal();
}

std::optional<Node> BaseLoader::load(std::string_view bytes, const std::string& name, const std::filesystem::path& dir) {
  const auto source = std::make_shared<const Source>(Source{name, normalised(bytes), dir, next_order_++});
  std::optional<Node> root = parse(source, report_);
  if (!root) return {};
  if (root->is_empty()) {
    report_.error({source}, "the config is empty", "a config is a map of sections, such as model: and train:");
    return {};
  }
  if (root->kind != Node::Kind::map) {
    report_.error(root->place, "a config is a map of keys at the top, found " + found(*root), "write key: value lines");
    return {};
  }
  const auto base = std::find_if(root->entries.begin(), root->entries.end(), [](const Entry& e) { return e.key == "base"; });
  if (base == root->entries.end()) return root;
  const Entry entry = *base;
  root->entries.erase(base);
  std::optional<Node> under = load_base(entry, dir);
  if (under) lay_over(*under, std::move(*root));
  return under;
}

std::optional<Node> BaseLoader::load_file(const std::filesystem::path& file, const Place* asked, std::string& bytes) {
  const Place place = asked != nullptr ? *asked : Place{std::make_shared<const Source>(Source{file.string(), {}, {}, next_order_})};
  std::string why;
  if (!read_bytes(file, bytes, why)) {
    report_.error(place,
                  asked != nullptr ? fmt::format("can't read the base '{}': {}", printable(file.string()), why) : "can't read it: " + why);
    return {};
  }
  std::error_code ignored;
  const std::filesystem::path real = std::filesystem::weakly_canonical(file, ignored);
  if (std::find(open_.begin(), open_.end(), real) != open_.end()) {
    report_.error(place, fmt::format("'{}' is a base of itself", printable(file.string())),
                  "remove one of the 'base:' lines that lead around");
    return {};
  }
  if (static_cast<int>(open_.size()) > base_limit) {
    report_.error(place, fmt::format("more than {} bases of bases", base_limit), "merge two of the files");
    return {};
  }
  open_.push_back(real);
  std::optional<Node> root = load(bytes, file.string(), file.parent_path());
  open_.pop_back();
  return root;
}

std::optional<Node> BaseLoader::load_base(const Entry& entry, const std::filesystem::path& dir) {
  const auto file = base_path(entry.value, dir);
  if (!file) {
    report_.error(entry.value.place, "'base' must be the path of one config file, found " + found(entry.value));
    return {};
  }
  std::string bytes;
  return load_file(*file, &entry.value.place, bytes);
}

}  // namespace tapeformer::config
