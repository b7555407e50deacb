// SPDX-License-Identifier: Apache-2.0
#include "framework/data/description_json.h"

#include <array>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"

namespace tapeformer::data {
namespace {

constexpr std::array<std::string_view, 3> task_names{name_of(Task::classification), name_of(Task::regression), name_of(Task::tagging)};
constexpr std::array<std::string_view, 4> truncate_names{"error", "right", "left", "middle"};
constexpr std::array<std::string_view, 2> empty_names{"error", "skip"};
constexpr std::array<std::string_view, 2> missing_names{"error", "zero_with_flag"};

template <class E, size_t n>
E word(const nlohmann::json& j, const char* key, const std::array<std::string_view, n>& names) {
  const auto text = j.at(key).get<std::string>();
  for (size_t i = 0; i < n; ++i)
    if (names[i] == text) return static_cast<E>(i);
  fail(ExitCode::checkpoint, "the description of the data has {} '{}'", key, text);
}

std::vector<double> numbers(const Tensor& t) {
  if (!t.defined()) return {};
  return {t.span<double>().begin(), t.span<double>().end()};
}

}  // namespace

std::string description_to_json(const Description& d) {
  nlohmann::ordered_json j;
  j["task"] = task_names[static_cast<size_t>(d.task)];
  j["labels"] = d.labels;
  j["target_names"] = d.target_names;
  j["tokenizer"] = d.tokenizer_json;
  j["vocab_size"] = d.vocab_size;
  j["feature_names"] = d.feature_names;
  j["feature_mean"] = numbers(d.feature_mean);
  j["feature_deviation"] = numbers(d.feature_deviation);
  j["max_length"] = d.max_length;
  j["truncate"] = truncate_names[static_cast<size_t>(d.truncate)];
  j["empty"] = empty_names[static_cast<size_t>(d.empty)];
  j["missing"] = missing_names[static_cast<size_t>(d.missing)];
  j["class_weights"] = d.class_weights;
  j["fingerprint"] = d.fingerprint;
  return j.dump();
}

Description description_from_json(const std::string& text) {
  try {
    const auto j = nlohmann::json::parse(text);
    Description d;
    d.task = word<Task>(j, "task", task_names);
    j.at("labels").get_to(d.labels);
    j.at("target_names").get_to(d.target_names);
    j.at("tokenizer").get_to(d.tokenizer_json);
    j.at("vocab_size").get_to(d.vocab_size);
    j.at("feature_names").get_to(d.feature_names);
    const auto mean = j.at("feature_mean").get<std::vector<double>>(), deviation = j.at("feature_deviation").get<std::vector<double>>();
    if (mean.size() != deviation.size() || (!mean.empty() && static_cast<int64_t>(mean.size()) != d.features()))
      fail(ExitCode::checkpoint, "the description of the data has {} means and {} deviations for {} features", mean.size(),
           deviation.size(), d.features());
    if (!mean.empty()) {
      d.feature_mean = Tensor::of(mean);
      d.feature_deviation = Tensor::of(deviation);
    }
    j.at("max_length").get_to(d.max_length);
    d.truncate = word<Truncate>(j, "truncate", truncate_names);
    d.empty = word<Empty>(j, "empty", empty_names);
    d.missing = word<Missing>(j, "missing", missing_names);
    j.at("class_weights").get_to(d.class_weights);
    j.at("fingerprint").get_to(d.fingerprint);
    return d;
  } catch (const nlohmann::json::exception& e) {
    fail(ExitCode::checkpoint, "the description of the data cannot be read: {}", e.what());
  }
}

}  // namespace tapeformer::data
