// SPDX-License-Identifier: Apache-2.0
// A checkpoint: how far its run is, its config in short, labels, and every tensor with what its values look like.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "framework/core/log.h"
#include "framework/io/checkpoint_file.h"
#include "tools/experiment.h"
#include "tools/inspect_file.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

using Json = nlohmann::ordered_json;

// Of the finite values; the others are counted.
struct Statistics {
  double mean = 0, squares = 0;
  double least = std::numeric_limits<double>::infinity(), most = -least;
  int64_t count = 0, nonfinite = 0;
  void add(double x) {
    if (!std::isfinite(x)) {
      ++nonfinite;
      return;
    }
    ++count;
    const double from_old = x - mean;
    mean += from_old / static_cast<double>(count);
    squares += from_old * (x - mean);
    least = std::min(least, x);
    most = std::max(most, x);
  }
  double deviation() const { return std::sqrt(squares / static_cast<double>(count)); }
};

Statistics statistics_of(const Tensor& t) {
  Statistics s;
  if (t.dtype() == Dtype::f32)
    for (const float x : t.span<float>()) s.add(static_cast<double>(x));
  if (t.dtype() == Dtype::f64)
    for (const double x : t.span<double>()) s.add(x);
  return s;
}

std::vector<int64_t> sizes_of(const Tensor& t) {
  std::vector<int64_t> sizes;
  for (int axis = 0; axis < t.shape().rank(); ++axis) sizes.push_back(t.shape()[axis]);
  return sizes;
}

Json json_of(const std::string& name, const Tensor& t) {
  Json entry{{"name", name}, {"dtype", name_of(t.dtype())}, {"shape", sizes_of(t)}};
  if (!is_floating(t.dtype())) return entry;
  const Statistics s = statistics_of(t);
  if (s.nonfinite > 0) entry["nonfinite"] = s.nonfinite;
  if (s.count > 0) entry.update({{"mean", s.mean}, {"deviation", s.deviation()}, {"min", s.least}, {"max", s.most}});
  return entry;
}

// The settings that say most; empty when this version cannot read the config.
Json config_of(const io::Checkpoint& c, const std::string& file) {
  Json out = Json::object();
  const auto text = c.texts.find("/config/resolved_yaml");
  if (text == c.texts.end()) return out;
  try {
    config::Document document = config::Document::from_checkpoint(text->second, file, {});
    document.allow_unavailable();
    Log silent(LogLevel::off);
    read_experiment(document, silent);
    const auto values = document.values();
    for (const char* key : {"run.name", "run.seed", "data.task", "tokenizer.type", "model.dim", "model.layers", "model.attention.type",
                            "model.attention.heads", "model.norm.type", "model.norm.position", "model.pooling", "optim.type", "optim.lr",
                            "train.duration", "train.batch_size", "train.precision", "device.type"})
      if (const auto at = values.find(key); at != values.end()) out[key] = at->second;
  } catch (const Error&) {
    out["unreadable"] = "by this version; the text is in /config/resolved_yaml";
  }
  return out;
}

Json whole_of(const std::filesystem::path& file) {
  const io::Checkpoint c = io::read_checkpoint(file);
  Json out{{"file", file.string()}, {"kind", "checkpoint"}, {"whole", true}, {"bytes", std::filesystem::file_size(file)}};
  out["config"] = config_of(c, file.string());
  Json& attributes = out["attributes"] = Json::object();
  for (const auto& [path, all] : c.attributes)
    for (const auto& [name, value] : all) std::visit([&, &p = path, &n = name](const auto& v) { attributes[p][n] = v; }, value);
  out["lists"] = Json::object();
  for (const auto& [path, texts] : c.lists) out["lists"][path] = texts;
  out["texts"] = Json::object();
  for (const auto& [path, text] : c.texts) out["texts"][path] = text.size();
  out["tensors"] = Json::array();
  for (const auto& [name, tensor] : c.tensors) out["tensors"].push_back(json_of(name, tensor));
  return out;
}

std::string attribute_text(const Json& value) { return value.is_string() ? printable(value.get<std::string>()) : value.dump(); }

// "/model", "/optimizer/exp_avg": what tensors are counted by.
std::string group_of(const std::string& name) { return name.substr(0, name.rfind('/')); }

std::string tensor_table(const Json& tensors) {
  const auto number = [](const Json& tensor, const char* key) {
    return tensor.contains(key) ? fmt::format("{:.4g}", tensor[key].get<double>()) : std::string();
  };
  std::vector<std::vector<std::string>> rows{{"tensor", "dtype", "shape", "mean", "deviation", "min", "max"}};
  std::map<std::string, std::pair<int64_t, int64_t>> groups;  // tensors and elements
  for (const Json& t : tensors) {
    const auto sizes = t["shape"].get<std::vector<int64_t>>();
    const auto name = t["name"].get<std::string>();
    rows.push_back({printable(name), t["dtype"].get<std::string>(), fmt::format("[{}]", fmt::join(sizes, ", ")), number(t, "mean"),
                    number(t, "deviation"), number(t, "min"), number(t, "max")});
    if (t.contains("nonfinite")) rows.back().push_back(fmt::format("{} not finite", t["nonfinite"].get<int64_t>()));
    auto& [count, elements] = groups[group_of(name)];
    ++count;
    int64_t n = 1;
    for (const int64_t s : sizes) n *= s;
    elements += n;
  }
  std::string text = aligned(rows);
  for (const auto& [group, counts] : groups)
    text += fmt::format("{}: {} tensors, {} numbers\n", printable(group), counts.first, counts.second);
  return text;
}

}  // namespace

std::string inspect_checkpoint(const std::filesystem::path& file, bool json) {
  const Json c = whole_of(file);
  if (json) return c.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
  std::string text = fmt::format("{}: checkpoint, whole, {}\n", printable(file.string()), bytes_text(c["bytes"].get<double>()));
  for (const auto& [path, all] : c["attributes"].items()) {
    if (path.starts_with("/model/")) continue;  // shown as what is not trainable, below
    text += printable(path) + "\n";
    for (const auto& [name, value] : all.items()) text += fmt::format("    {} = {}\n", printable(name), attribute_text(value));
  }
  text += "config\n";
  for (const auto& [key, value] : c["config"].items()) text += fmt::format("    {}: {}\n", key, attribute_text(value));
  for (const auto& [path, texts] : c["lists"].items()) {
    const auto all = texts.get<std::vector<std::string>>();
    const auto shown = static_cast<std::ptrdiff_t>(std::min<size_t>(all.size(), 20));
    text += fmt::format("{} ({}): {}{}\n", printable(path), all.size(),
                        printable(fmt::format("{}", fmt::join(all.begin(), all.begin() + shown, ", "))), all.size() > 20 ? ", ..." : "");
  }
  for (const auto& [path, bytes] : c["texts"].items()) text += fmt::format("{}: text of {} bytes\n", printable(path), bytes.get<int64_t>());
  for (const auto& [path, all] : c["attributes"].items())
    if (path.starts_with("/model/") && all.contains("trainable") && !all["trainable"].get<bool>())
      text += printable(path) + ": not trainable\n";
  return text + tensor_table(c["tensors"]);
}

}  // namespace tapeformer::tools
