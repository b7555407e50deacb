// SPDX-License-Identifier: Apache-2.0
// An HDF5 file as a list of its groups and data sets with their types, shapes and attributes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "framework/core/log.h"
#include "framework/io/hdf5.h"
#include "tools/inspect_file.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string type_of(const io::Hdf5Dataset& d) {
  return d.kind() == io::Hdf5Kind::text ? "text" : d.kind() == io::Hdf5Kind::boolean ? "boolean" : std::string(name_of(d.natural_dtype()));
}

Json attributes_of(const io::Hdf5File& file, const std::string& path) {
  Json out = Json::object();
  for (const std::string& name : file.attribute_names(path)) try {
      if (const auto value = file.attribute(path, name)) std::visit([&](const auto& v) { out[name] = v; }, *value);
    } catch (const Error&) {
      out[name] = nullptr;  // of a type that is none of ours
    }
  return out;
}

Json entry_of(const io::Hdf5File& file, const std::string& path, io::Hdf5File::ChildKind kind) {
  using Kind = io::Hdf5File::ChildKind;
  Json entry{{"path", path}};
  if (kind == Kind::link || kind == Kind::other) {
    entry["type"] = kind == Kind::link ? "link" : "other";
    return entry;
  }
  if (kind == Kind::group) {
    entry["type"] = "group";
  } else {
    try {
      const io::Hdf5Dataset d = file.dataset(path);
      entry["type"] = type_of(d);
      entry["shape"] = d.sizes();
      if (d.chunk()) entry["chunk"] = *d.chunk();
    } catch (const Error& e) {
      entry["type"] = "unreadable";
      entry["reason"] = e.what();
      return entry;
    }
  }
  entry["attributes"] = attributes_of(file, path);
  return entry;
}

void walk(const io::Hdf5File& file, const std::string& group, int depth, Json& entries) {
  for (const auto& child : file.children(group)) {
    const std::string path = (group == "/" ? "" : group) + "/" + child.name;
    entries.push_back(entry_of(file, path, child.kind));
    if (child.kind == io::Hdf5File::ChildKind::group && depth < 32) walk(file, path, depth + 1, entries);
  }
}

std::string text_of(const Json& entry) {
  std::string text = printable(entry["path"].get<std::string>()) + "  " + entry["type"].get<std::string>();
  if (entry.contains("shape"))
    text += entry["shape"].empty() ? " scalar" : fmt::format(" [{}]", fmt::join(entry["shape"].get<std::vector<int64_t>>(), ", "));
  if (entry.contains("chunk")) text += fmt::format(" in chunks of [{}]", fmt::join(entry["chunk"].get<std::vector<int64_t>>(), ", "));
  if (entry.contains("reason")) text += ": " + printable(entry["reason"].get<std::string>());
  text += "\n";
  if (entry.contains("attributes"))
    for (const auto& [name, value] : entry["attributes"].items())
      text += fmt::format("    {} = {}\n", printable(name), value.is_string() ? printable(value.get<std::string>()) : value.dump());
  return text;
}

}  // namespace

std::string inspect_hdf5(const std::filesystem::path& name, bool json) {
  const io::Hdf5File file = io::Hdf5File::open(name);
  Json root = {{"path", "/"}, {"type", "group"}, {"attributes", attributes_of(file, "/")}}, entries = Json::array({root});
  walk(file, "/", 1, entries);
  if (json)
    return Json{{"file", name.string()}, {"kind", "hdf5"}, {"entries", entries}}.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
  std::string text = fmt::format("{}: HDF5 file\n", printable(name.string()));
  for (const Json& entry : entries) text += text_of(entry);
  return text;
}

}  // namespace tapeformer::tools
