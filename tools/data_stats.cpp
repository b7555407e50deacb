// SPDX-License-Identifier: Apache-2.0
#include "tools/data_stats.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "framework/core/log.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

using Json = nlohmann::ordered_json;
using data::Part, data::Task;

constexpr std::pair<const char*, double> quantiles[] = {{"min", 0}, {"25 %", 0.25}, {"50 %", 0.5}, {"75 %", 0.75}, {"95 %", 0.95}, {"99 %", 0.99}, {"max", 1}};

Json lengths_of(const data::Dataset& dataset, Part part) {
  std::vector<int32_t> lengths;
  for (int64_t i = 0; i < dataset.size(part); ++i) lengths.push_back(dataset.length(part, i));
  std::sort(lengths.begin(), lengths.end());
  Json out = Json::object();
  if (lengths.empty()) return out;
  // The smallest length that this share of the samples does not exceed.
  for (const auto& [name, share] : quantiles) {
    const double rank = std::ceil(share * static_cast<double>(lengths.size()));
    out[name] = lengths[static_cast<size_t>(std::max(0.0, rank - 1))];
  }
  return out;
}

struct Moments {
  double mean = 0, squares = 0, least = 0, most = 0;
  int64_t count = 0;
  void add(double x) {
    least = count == 0 ? x : std::min(least, x);
    most = count == 0 ? x : std::max(most, x);
    const double from_old = x - mean;
    mean += from_old / static_cast<double>(++count);
    squares += from_old * (x - mean);
  }
  Json json() const { return {{"mean", mean}, {"deviation", std::sqrt(squares / static_cast<double>(count))}, {"min", least}, {"max", most}}; }
};

Json part_of(const data::Dataset& dataset, Part part) {
  const data::Description& d = dataset.description();
  Json out{{"samples", dataset.size(part)}};
  std::vector<int64_t> classes(d.labels.size());
  std::vector<Moments> targets(d.target_names.size());
  int64_t rows = 0, ignored = 0;
  data::Sample sample;
  const auto count = [&](int32_t label) { label < 0 ? ++ignored : ++classes[static_cast<size_t>(label)]; };
  for (int64_t i = 0; i < dataset.size(part); ++i) {
    rows += dataset.length(part, i);
    dataset.read(part, i, sample);
    if (d.task == Task::classification) count(sample.label);
    if (d.task == Task::tagging) std::for_each(sample.tags.begin(), sample.tags.end(), count);
    for (size_t k = 0; k < targets.size(); ++k) targets[k].add(static_cast<double>(sample.target[k]));
  }
  out["rows"] = rows;
  out["lengths"] = lengths_of(dataset, part);
  for (size_t c = 0; c < classes.size(); ++c) out["classes"].push_back(Json{{"label", d.labels[c]}, {"count", classes[c]}});
  if (ignored > 0) out["ignored_rows"] = ignored;
  for (size_t k = 0; k < targets.size() && dataset.size(part) > 0; ++k) out["targets"][d.target_names[k]] = targets[k].json();
  return out;
}

Json stats_of(const data::Dataset& dataset) {
  constexpr const char* tasks[] = {"classification", "regression", "tagging"};
  const data::Description& d = dataset.description();
  Json out{{"task", tasks[static_cast<size_t>(d.task)]}, {"max_length", d.max_length}, {"outputs", d.outputs()}, {"fingerprint", d.fingerprint}};
  if (d.vocab_size > 0) out["vocab_size"] = d.vocab_size;
  for (size_t f = 0; f < d.feature_names.size(); ++f) {
    Json feature{{"name", d.feature_names[f]}};
    if (d.feature_mean.defined()) feature.update({{"mean", d.feature_mean.data<double>()[f]}, {"deviation", d.feature_deviation.data<double>()[f]}});
    out["features"].push_back(feature);
  }
  for (const Part part : {Part::train, Part::valid, Part::test}) out["parts"][std::string(name_of(part))] = part_of(dataset, part);
  out["report"] = dataset.report();
  return out;
}

std::string number(const Json& value) { return fmt::format("{:.6g}", value.get<double>()); }

std::string length_table(const Json& parts) {
  std::vector<std::vector<std::string>> rows{{"part", "samples", "rows", "mean length"}};
  for (const auto& [name, share] : quantiles) rows[0].push_back(name);
  for (const auto& [name, part] : parts.items()) {
    const auto samples = part["samples"].get<int64_t>();
    rows.push_back({name, std::to_string(samples), part["rows"].dump()});
    if (samples == 0) continue;
    rows.back().push_back(fmt::format("{:.1f}", part["rows"].get<double>() / static_cast<double>(samples)));
    for (const auto& [quantile, length] : part["lengths"].items()) rows.back().push_back(length.dump());
  }
  return aligned(rows);
}

// The classes with their counts and shares in each part; the rarest are left out where there are many.
std::string class_table(const Json& parts) {
  constexpr size_t shown = 50;
  const Json& train = parts.front();
  if (!train.contains("classes")) return {};
  std::vector<std::vector<std::string>> rows{{"class"}};
  for (const auto& [name, part] : parts.items()) rows[0].insert(rows[0].end(), {name, "share"});
  std::vector<size_t> order(train["classes"].size());
  for (size_t c = 0; c < order.size(); ++c) order[c] = c;
  const auto count = [](const Json& part, size_t c) { return part["classes"][c]["count"].get<int64_t>(); };
  if (order.size() > shown) std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return count(train, a) > count(train, b); });
  std::vector<double> totals;
  for (const Json& part : parts) {
    totals.push_back(0);
    for (size_t c = 0; c < order.size(); ++c) totals.back() += static_cast<double>(count(part, c));
  }
  for (size_t i = 0; i < std::min(order.size(), shown); ++i) {
    rows.push_back({printable(train["classes"][order[i]]["label"].get<std::string>())});
    size_t p = 0;
    for (const Json& part : parts) {
      const auto n = count(part, order[i]);
      rows.back().push_back(std::to_string(n));
      rows.back().push_back(totals[p] > 0 ? fmt::format("{:.2f} %", 100.0 * static_cast<double>(n) / totals[p]) : "-");
      ++p;
    }
  }
  return aligned(rows) + (order.size() > shown ? fmt::format("and {} rarer classes\n", order.size() - shown) : "");
}

std::string target_table(const Json& parts) {
  std::vector<std::vector<std::string>> rows{{"target", "mean", "deviation", "min", "max"}};
  for (const auto& [name, part] : parts.items())
    if (part.contains("targets"))
      for (const auto& [target, m] : part["targets"].items())
        rows.push_back({name + " " + printable(target), number(m["mean"]), number(m["deviation"]), number(m["min"]), number(m["max"])});
  return rows.size() > 1 ? aligned(rows) : std::string();
}

std::string feature_table(const Json& stats) {
  if (!stats.contains("features")) return {};
  std::vector<std::vector<std::string>> rows{{"feature", "mean", "deviation"}};
  for (const Json& f : stats["features"]) {
    rows.push_back({printable(f["name"].get<std::string>())});
    if (f.contains("mean")) rows.back().insert(rows.back().end(), {number(f["mean"]), number(f["deviation"])});
  }
  return aligned(rows);
}

}  // namespace

std::string data_stats(const data::Dataset& dataset, bool json) {
  const Json stats = stats_of(dataset);
  if (json) return stats.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::string text = fmt::format("{}, {} outputs, at most {} rows a sequence{}\n", stats["task"].get<std::string>(), dataset.description().outputs(),
                                 dataset.description().max_length,
                                 stats.contains("vocab_size") ? fmt::format(", a vocabulary of {}", dataset.description().vocab_size) : "");
  text += length_table(stats["parts"]) + class_table(stats["parts"]) + target_table(stats["parts"]) + feature_table(stats);
  for (const std::string& line : dataset.report()) text += printable(line) + "\n";
  return text + "fingerprint " + dataset.description().fingerprint + "\n";
}

}  // namespace tapeformer::tools
