// SPDX-License-Identifier: Apache-2.0
// One run of `tapeformer compare`: `tapeformer train` and `tapeformer eval` in processes of their own, and what their files say.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "framework/train/run_directory.h"
#include "tools/compare.h"
#include "tools/quantile.h"

namespace tapeformer::tools {
namespace {

using Json = nlohmann::ordered_json;

// Written into the run when it is done: what the table needs of it.
constexpr const char* result_file = "comparison.json";

std::optional<Json> read_json(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream bytes;
  bytes << in.rdbuf();
  Json json = Json::parse(bytes.str(), nullptr, false);
  return json.is_discarded() ? std::nullopt : std::optional(std::move(json));
}

// Speed and memory from the lines that training logged.
void read_log(RunResult& run) {
  std::vector<double> rates;
  std::ifstream in(run.directory / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded() || json.value("split", "") != "train") continue;
    rates.push_back(json.at("tokens_per_s").get<double>());
    run.peak_bytes = std::max(run.peak_bytes.value_or(0), json.at("peak_bytes").get<double>());
  }
  if (!rates.empty()) run.tokens_per_s = median(std::move(rates));
}

// Whatever `eval --json` names after `tokens` is a metric, up to the confusion of classes.
std::vector<train::Metric> metrics_of(const Json& evaluation) {
  constexpr std::string_view others[] = {"checkpoint", "step", "split", "weights", "batchnorm", "samples", "tokens", "labels", "confusion"};
  std::vector<train::Metric> out;
  for (const auto& [name, value] : evaluation.items())
    if (std::find(std::begin(others), std::end(others), name) == std::end(others))
      out.push_back({name, value.is_number() ? std::optional(value.get<double>()) : std::nullopt});
  return out;
}

void write_result(const Comparison& c, const RunResult& run) {
  Json json{{"split", c.split}, {"step", run.step}, {"metrics", Json::object()}};
  for (const train::Metric& m : run.metrics) json["metrics"][m.name] = m.value ? Json(*m.value) : Json(nullptr);
  json["tokens_per_s"] = run.tokens_per_s ? Json(*run.tokens_per_s) : Json(nullptr);
  json["peak_bytes"] = run.peak_bytes ? Json(*run.peak_bytes) : Json(nullptr);
  train::write_whole(run.directory / result_file, json.dump(2) + "\n");
}

// New, or cut before its first checkpoint: from the start. Else from its last checkpoint.
std::vector<std::string> train_words(const VariantResult& v, const RunResult& run) {
  const std::string directory = run.directory.string();
  if (!train::CheckpointStore(run.directory / "checkpoints").steps().empty()) return {"train", "--resume", directory};
  std::vector<std::string> words{"train", v.config, "-o", directory, "--overwrite"};
  words.insert(words.end(), v.overrides.begin(), v.overrides.end());
  words.push_back(fmt::format("run.seed={}", run.seed));
  return words;
}

// Why a child failed, from its run's file where it got that far.
std::string failure_of(const RunResult& run, const ChildResult& child) {
  if (child.killed) return fmt::format("its process was ended by signal {}", child.code - 128);
  const auto status = read_json(run.directory / "run.json");
  if (status && status->value("status", "") == "failed") return status->value("error", "");
  return fmt::format("its process ended with exit code {}", child.code);
}

}  // namespace

std::optional<double> value_in(const std::vector<train::Metric>& metrics, const std::string& name) {
  for (const train::Metric& m : metrics)
    if (m.name == name) return m.value;
  return std::nullopt;
}

bool read_result(const Comparison& c, RunResult& run) {
  const auto json = read_json(run.directory / result_file);
  if (!json || json->value("split", "") != c.split || !json->contains("metrics") || !json->at("metrics").is_object()) return false;
  run.step = json->value("step", int64_t{-1});
  run.metrics = metrics_of(json->at("metrics"));
  const auto number = [&](const char* key) {
    const auto at = json->find(key);
    return at != json->end() && at->is_number() ? std::optional(at->get<double>()) : std::nullopt;
  };
  run.tokens_per_s = number("tokens_per_s");
  run.peak_bytes = number("peak_bytes");
  return run.done = true;
}

void do_run(ChildRunner& children, const Comparison& c, const std::vector<std::string>& global_flags, const VariantResult& variant,
            RunResult& run, std::optional<double> max_seconds) {
  const auto call = [&](std::vector<std::string> words) {
    words.insert(words.begin(), global_flags.begin(), global_flags.end());
    ChildResult result = children.run(words);
    run.exit_code = result.code;
    if (result.code != 0) run.failure = failure_of(run, result);
    return result;
  };
  std::vector<std::string> words = train_words(variant, run);
  if (max_seconds) words.insert(words.end(), {"--max-time", fmt::format("{:.0f}s", std::max(1.0, *max_seconds))});
  if (call(std::move(words)).code != 0) return;
  const ChildResult evaluated = call({"eval", run.directory.string(), "--split", c.split, "--json"});
  if (evaluated.code != 0) return;
  const Json json = Json::parse(evaluated.text, nullptr, false);
  require(!json.is_discarded(), "{}: eval printed something else than JSON", run.directory.string());
  run.metrics = metrics_of(json);
  run.step = json.at("step").get<int64_t>();
  read_log(run);
  write_result(c, run);
  run.done = true;
}

}  // namespace tapeformer::tools
