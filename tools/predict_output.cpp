// SPDX-License-Identifier: Apache-2.0
#include "tools/predict_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/io/csv.h"
#include "framework/io/json_lines.h"

namespace tapeformer::tools {
namespace {

using data::Task;

std::vector<double> softmax(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  for (const double x : logits) p.push_back(std::exp(x - largest));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

// As many digits as a float32 carries.
std::string probability_text(double p) { return fmt::format("{:.9g}", p); }

// The classes, the most probable first, the first of equals first.
std::vector<size_t> by_probability(const std::vector<double>& p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  return order;
}

io::JsonLine with_id(const InputSample& sample) {
  io::JsonLine line;
  if (sample.named) line.field("id", sample.sample.id);
  else line.raw("id", sample.sample.id);
  return line;
}

struct Row {
  std::vector<double> values;
  std::vector<std::string> texts;  // the shortest that read back
};

template <class T>
Row row_of(const Tensor& outputs, int64_t row, const std::string& where) {
  const auto matrix = outputs.matrix<T>();
  Row out;
  for (int64_t c = 0; c < matrix.columns; ++c) {
    const T value = matrix.row(row)[c];
    if (!std::isfinite(value))
      fail(ExitCode::nonfinite, "{}: the model's output is {}; its weights, or the numbers it was given, are too large", where, value);
    out.values.push_back(static_cast<double>(value));
    out.texts.push_back(fmt::format("{}", value));
  }
  return out;
}

Row row_of(const Tensor& outputs, int64_t row, const std::string& where) {
  return outputs.dtype() == Dtype::f64 ? row_of<double>(outputs, row, where) : row_of<float>(outputs, row, where);
}

size_t largest(const std::vector<double>& values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace

PredictionLines::PredictionLines(const data::Description& description, OutputSettings settings)
    : description_(description), settings_(std::move(settings)) {
  if (description_.task != Task::classification && (settings_.proba || settings_.topk > 0))
    fail(ExitCode::usage, "{} is for classification; this model predicts {}", settings_.proba ? "--proba" : "--topk",
         description_.task == Task::tagging ? "a tag for each row" : "numbers");
  settings_.topk = std::min(settings_.topk, description_.outputs());
}

std::string PredictionLines::line(const std::vector<std::string>& cells) const {
  const char delimiter = settings_.format == "tsv" ? '\t' : ',';
  std::string text;
  for (const std::string& cell : cells) {
    if (!text.empty()) text += delimiter;
    text += io::csv_field(cell, delimiter);
  }
  return text + "\n";
}

std::string PredictionLines::header() const {
  if (settings_.format == "jsonl") return {};
  std::vector<std::string> cells{"id"};
  switch (description_.task) {
    case Task::tagging:
      cells.push_back("tags");
      break;
    case Task::regression:
      if (description_.target_names.size() == 1) cells.push_back("prediction");
      else
        for (const std::string& name : description_.target_names) cells.push_back("prediction:" + name);
      break;
    case Task::classification:
      cells.insert(cells.end(), {"prediction", "probability"});
      for (int64_t k = 1; k <= settings_.topk; ++k)
        cells.insert(cells.end(), {fmt::format("prediction:{}", k), fmt::format("probability:{}", k)});
      if (settings_.proba)
        for (const std::string& label : description_.labels) cells.push_back("p:" + label);
  }
  return line(cells);
}

std::string PredictionLines::class_line(const InputSample& sample, const std::vector<double>& logits) const {
  const std::vector<double> p = softmax(logits);
  const std::vector<size_t> order = by_probability(p);
  const auto& labels = description_.labels;
  const size_t best = largest(logits);
  const auto topk = static_cast<size_t>(settings_.topk);
  if (settings_.format != "jsonl") {
    std::vector<std::string> cells{sample.sample.id, labels[best], probability_text(p[best])};
    for (size_t k = 0; k < topk; ++k) cells.insert(cells.end(), {labels[order[k]], probability_text(p[order[k]])});
    if (settings_.proba)
      for (const double x : p) cells.push_back(probability_text(x));
    return line(cells);
  }
  io::JsonLine json = with_id(sample).field("label", labels[best]).raw("probability", probability_text(p[best]));
  if (settings_.proba) {
    io::JsonLine all;
    for (size_t c = 0; c < p.size(); ++c) all.raw(labels[c], probability_text(p[c]));
    json.raw("proba", all.text());
  }
  if (topk > 0) {
    std::vector<std::string> top;
    for (size_t k = 0; k < topk; ++k)
      top.push_back(io::JsonLine().field("label", labels[order[k]]).raw("probability", probability_text(p[order[k]])).text());
    json.raw("topk", fmt::format("[{}]", fmt::join(top, ",")));
  }
  return json.text() + "\n";
}

std::string PredictionLines::number_line(const InputSample& sample, const std::vector<std::string>& values) const {
  if (settings_.format != "jsonl") {
    std::vector<std::string> cells{sample.sample.id};
    cells.insert(cells.end(), values.begin(), values.end());
    return line(cells);
  }
  if (values.size() == 1) return with_id(sample).raw("prediction", values[0]).text() + "\n";
  io::JsonLine named;
  for (size_t k = 0; k < values.size(); ++k) named.raw(description_.target_names[k], values[k]);
  return with_id(sample).raw("prediction", named.text()).text() + "\n";
}

std::string PredictionLines::tag_line(const InputSample& sample, const std::vector<std::string>& tags) const {
  if (settings_.format != "jsonl") return line({sample.sample.id, fmt::format("{}", fmt::join(tags, " "))});
  std::vector<std::string> quoted;
  for (const std::string& tag : tags) quoted.push_back(io::json_text(tag));
  return with_id(sample).raw("tags", fmt::format("[{}]", fmt::join(quoted, ","))).text() + "\n";
}

std::string PredictionLines::lines(const std::vector<InputSample>& samples, const Packing& packing, const Tensor& outputs) const {
  const bool tagging = description_.task == Task::tagging;
  require(outputs.shape()[0] == (tagging ? packing.rows() : static_cast<int64_t>(samples.size())), "{} outputs for {} samples",
          outputs.shape().text(), samples.size());
  std::string text;
  for (size_t b = 0; b < samples.size(); ++b) {
    const InputSample& sample = samples[b];
    if (!tagging) {
      const Row row = row_of(outputs, static_cast<int64_t>(b), sample.where);
      text += description_.task == Task::classification ? class_line(sample, row.values) : number_line(sample, row.texts);
      continue;
    }
    std::vector<std::string> tags;
    for (int32_t t = packing.offsets()[b]; t < packing.offsets()[b + 1]; ++t)
      tags.push_back(description_.labels[largest(row_of(outputs, t, sample.where).values)]);
    text += tag_line(sample, tags);
  }
  return text;
}

}  // namespace tapeformer::tools
