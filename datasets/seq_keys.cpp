// SPDX-License-Identifier: Apache-2.0
#include "datasets/seq_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tuple>

#include "datasets/foreign_hdf5.h"
#include "datasets/learned.h"
#include "framework/core/error.h"
#include "framework/core/log.h"

namespace tapeformer::datasets {
namespace {

std::string listed(std::vector<std::string> names) {
  const size_t all = names.size();
  if (all > 10) names.resize(10);
  return printable(fmt::format("{}{}", fmt::join(names, ", "), all > 10 ? fmt::format(" and {} more", all - 10) : ""));
}

// `what`: "feature" or "target"; `given`: by the config's `key`.
std::vector<std::string> names_of(const io::Hdf5File& file, const Source& source, const char* what, const char* key,
                                  const std::vector<std::string>& given, int64_t count) {
  std::vector<std::string> names = texts_of(file, fmt::format("/{}_names", what));
  if (static_cast<int64_t>(names.size()) != count) names.clear();
  if (!given.empty() && (static_cast<int64_t>(given.size()) != count || (!names.empty() && names != given)))
    fail(ExitCode::data, "{}: data.{} names {}, but the file has {}; from HDF5 all are read, in its order: name them so, or not at all",
         printable(source.path), key, listed(given),
         names.empty() ? fmt::format("{} {}{} without a name", count, what, count == 1 ? "" : "s") : listed(names));
  if (!given.empty()) return given;
  for (auto i = static_cast<int64_t>(names.size()); i < count; ++i) names.push_back(fmt::format("{}{}", what, i + 1));
  return names;
}

int64_t whole_number(const io::Hdf5File& file, const char* attribute) {
  const auto value = file.attribute("/", attribute);
  return value && std::holds_alternative<int64_t>(*value) ? std::get<int64_t>(*value) : 0;
}

}  // namespace

void check_keys(const io::Hdf5File& file, const DataSettings& d, const Source& source, const std::string& group) {
  const Window& w = d.window;
  if (w.length > 0 && (group.empty() || whole_number(file, "window_length") != w.length || whole_number(file, "window_hop") != w.hop))
    fail(ExitCode::data,
         "{}: data.window says windows of {} rows, {} from one to the next, and the file does not say that its samples are such; only "
         "tables are cut into windows: remove data.window, or convert the table with it",
         printable(source.path), w.length, w.hop);
  if (group.empty()) return;
  for (const auto& [key, named, dataset] : {std::tuple("weight", source.weight, "/weights"), std::tuple("id", source.id, "/ids")})
    if (!named.empty() && !file.has(group + dataset))
      fail(ExitCode::data, "{}: data.{} is '{}', but the file has no {}{}; add it, or remove data.{}", printable(source.path), key,
           printable(named), group, dataset, key);
}

void check_tokenizer(const io::Hdf5File& file, const data::TokenizerSettings& wanted, const Source& source) {
  const bool has_one = file.has("/tokenizer_json");
  const data::TokenizerSettings unsaid,
      own = has_one ? data::Tokenizer::from_json(file.dataset("/tokenizer_json").text()).settings() : unsaid;
  const auto check = [&](const char* key, const auto& of_config, const auto& of_file, const auto& by_default) {
    if (of_config != by_default && !has_one)
      fail(ExitCode::data, "{}: tokenizer.{} is {}, but the file has no text that was cut into tokens; remove the key",
           printable(source.path), key, of_config);
    if (of_config != by_default && of_config != of_file)
      fail(ExitCode::data, "{}: tokenizer.{} is {}, but the file's tokens were made with {}; convert the text again, or remove the key",
           printable(source.path), key, of_config, of_file);
  };
  check("type", data::name_of(wanted.kind), data::name_of(own.kind), data::name_of(unsaid.kind));
  check("lowercase", wanted.lowercase, own.lowercase, unsaid.lowercase);
  check("vocab_size", wanted.vocab_size, own.vocab_size, unsaid.vocab_size);
  check("minimum_count", wanted.minimum_count, own.minimum_count, unsaid.minimum_count);
}

void check_task(const io::Hdf5File& file, data::Task task, const Source& source) {
  const auto own = file.attribute("/", "task");
  if (!own || !std::holds_alternative<std::string>(*own) || std::get<std::string>(*own) == name_of(task)) return;
  fail(ExitCode::data, "{}: data.task is {}, but the file was made for {}", printable(source.path), name_of(task),
       printable(std::get<std::string>(*own)));
}

void check_names(const io::Hdf5File& file, const data::Description& known, const Source& source, bool numeric) {
  const auto check = [&](const char* what, const std::vector<std::string>& expected) {
    const std::vector<std::string> names = texts_of(file, fmt::format("/{}_names", what));
    if (names.size() == expected.size()) check_same_order(names, expected, fmt::format("{}s", what).c_str(), source);
  };
  std::vector<std::string> features = known.feature_names;
  if (known.missing == data::Missing::zero_with_flag) features.resize(features.size() / 2);
  if (numeric) check("feature", features);
  if (known.task == data::Task::regression) check("target", known.target_names);
}

std::vector<std::string> texts_of(const io::Hdf5File& file, const std::string& name) {
  return file.has(name) ? file.dataset(name).texts() : std::vector<std::string>();
}

std::vector<std::string> feature_names(const io::Hdf5File& file, const Source& source, int64_t count) {
  return names_of(file, source, "feature", "features", source.features, count);
}

std::vector<std::string> target_names(const io::Hdf5File& file, const Source& source, int64_t count) {
  // One word is the default, or says which data set holds the targets in a file of another layout.
  const bool names = source.target.size() > 1 || (source.target != std::vector<std::string>{"target"} && !is_foreign(file, source));
  return names_of(file, source, "target", "target", names ? source.target : std::vector<std::string>(), count);
}

std::vector<std::string> label_names(const io::Hdf5File& file, const DataSettings& d, const Source& source) {
  std::vector<std::string> names = texts_of(file, "/label_names");
  if (!names.empty() && d.task == data::Task::classification && d.classes > 0 && names != numbered_labels(d.classes))
    fail(ExitCode::data, "{}: with data.classes: {} labels are 0 to {}, but /label_names has {}; remove data.classes, or correct the names",
         printable(source.path), d.classes, d.classes - 1, listed(names));
  return names;
}

Split left_to_cut(const io::Hdf5File& file, const Split& split, const Source& source) {
  Split left = split;
  if (is_foreign(file, source)) return left;
  if (file.has("/valid")) left.valid = 0;
  if (file.has("/test")) left.test = 0;
  return left;
}

}  // namespace tapeformer::datasets
