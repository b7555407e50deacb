// SPDX-License-Identifier: Apache-2.0
#include "datasets/foreign_hdf5.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/log.h"

namespace tapeformer::datasets {
namespace {

// Keras and scikit-learn, the same in small letters, Caffe, and words.
constexpr std::array<std::pair<const char*, const char*>, 4> usual{
    {{"/X", "/y"}, {"/x", "/y"}, {"/data", "/label"}, {"/sequences", "/labels"}}};

// A group with rows and labels by our names; others have groups /test too.
bool has_part(const io::Hdf5File& file, const std::string& group) {
  return file.has(group + "/labels") && (file.has(group + "/input_ids") || file.has(group + "/values") || file.has(group + "/X"));
}

std::string rooted(const std::string& name) { return name.empty() || name[0] == '/' ? name : "/" + name; }

// Of the groups and data sets at the top and one level below.
std::string contents(const io::Hdf5File& file) {
  std::vector<std::string> names;
  for (const auto& child : file.children("/")) {
    names.push_back(printable("/" + child.name));
    if (child.kind != io::Hdf5File::ChildKind::group) continue;
    for (const auto& below : file.children("/" + child.name)) names.push_back(printable("/" + child.name + "/" + below.name));
  }
  if (names.size() > 20) names.resize(20);
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

// What the config names, or nothing where it leaves the default, which is the name of a column.
std::string named_label(const Source& source, data::Task task) {
  if (task == data::Task::regression && source.target.size() == 1 && source.target[0] != "target") return rooted(source.target[0]);
  if (task == data::Task::tagging && source.tags != "tags") return rooted(source.tags);
  return source.label == "label" ? "" : rooted(source.label);
}

[[noreturn]] void not_found(const io::Hdf5File& file, const Source& source, const std::string& what, const char* key) {
  fail(ExitCode::data, "{}: {}; name it with data.{} (the file has {})", printable(source.path), what, key, contents(file));
}

}  // namespace

bool is_foreign(const io::Hdf5File& file, const Source& source) {
  return !source.input.empty() || !(is_marked(file) || file.has("/train") || has_part(file, "/valid") || has_part(file, "/test"));
}

ForeignPaths foreign_paths(const io::Hdf5File& file, const Source& source, data::Task task) {
  ForeignPaths found;
  SeqPaths& paths = found.paths;
  paths.rows = rooted(source.input);
  paths.labels = named_label(source, task);
  const bool input_named = !paths.rows.empty(), label_named = !paths.labels.empty();
  if (input_named && !file.has(paths.rows)) not_found(file, source, fmt::format("no data set {}", printable(paths.rows)), "input");
  if (label_named && !file.has(paths.labels)) not_found(file, source, fmt::format("no data set {}", printable(paths.labels)), "label");
  for (const auto& [input, label] : usual) {
    if (!paths.rows.empty() && !paths.labels.empty()) break;
    if ((!input_named && !file.has(input)) || (!label_named && !file.has(label))) continue;
    if (!input_named) paths.rows = input;
    if (!label_named) paths.labels = label;
  }
  if (paths.rows.empty() && !input_named) not_found(file, source, "which data set holds the sequences cannot be guessed", "input");
  if (paths.labels.empty()) not_found(file, source, "which data set holds the labels cannot be guessed", "label");
  if (!input_named || !label_named)
    found.guessed = fmt::format("{}: guessed {}{}{}; data.input and data.label name others", printable(source.path),
                                input_named ? "" : "the sequences in " + paths.rows, input_named || label_named ? "" : ", ",
                                label_named ? "" : "the labels in " + paths.labels);
  paths.name = paths.rows;
  paths.ids = rooted(source.id);
  paths.weights = rooted(source.weight);
  if (paths.ids.empty() && file.has("/ids")) paths.ids = "/ids";
  if (paths.weights.empty() && file.has("/weights")) paths.weights = "/weights";
  return found;
}

}  // namespace tapeformer::datasets
