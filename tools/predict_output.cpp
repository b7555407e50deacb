// SPDX-License-Identifier: Apache-2.0
#include "tools/predict_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/io/csv.h"

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

// A text also where it is a row number, so that all lines of all files have one type.
io::JsonLine with_id(const InputSample& sample) { return io::JsonLine().field("id", sample.sample.id); }

struct Row {
  std::vector<double> values;
  std::vector<std::string> texts;  // the shortest that read back
};

template <class T>
Row row_of(const Tensor& outputs, int64_t row) {
  const auto matrix = outputs.matrix<T>();
  Row out;
  for (int64_t c = 0; c < matrix.columns; ++c) {
    const T value = matrix.row(row)[c];
    out.values.push_back(static_cast<double>(value));
    out.texts.push_back(fmt::format("{}", value));
  }
  return out;
}

Row row_of(const Tensor& outputs, int64_t row) {
  return outputs.dtype() == Dtype::f64 ? row_of<double>(outputs, row) : row_of<float>(outputs, row);
}

bool is_finite(const Row& row) {
  return std::all_of(row.values.begin(), row.values.end(), [](double x) { return std::isfinite(x); });
}

// Rows [first, last) of the outputs.
std::vector<Row> rows_of(const Tensor& outputs, int64_t first, int64_t last) {
  std::vector<Row> rows;
  for (; first < last; ++first) rows.push_back(row_of(outputs, first));
  return rows;
}

std::string json_list(const std::vector<std::string>& values) { return fmt::format("[{}]", fmt::join(values, ",")); }

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
  for (size_t c = 0; c < cells.size(); ++c) {  // the first may be empty, and is a column all the same
    if (c > 0) text += delimiter;
    text += io::csv_field(cells[c], delimiter);
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

// One number, or an object of named ones.
std::string PredictionLines::numbers_text(const std::vector<std::string>& values) const {
  if (values.size() == 1) return values[0];
  io::JsonLine named;
  for (size_t k = 0; k < values.size(); ++k) named.raw(description_.target_names[k], values[k]);
  return named.text();
}

std::string PredictionLines::finished(io::JsonLine json, const data::Sample& sample) const {
  if (settings_.targets && description_.task == Task::classification) {
    json.field("target", description_.labels[static_cast<size_t>(sample.label)]);
  } else if (settings_.targets && description_.task == Task::regression) {
    std::vector<std::string> values;
    for (const float x : sample.target) values.push_back(fmt::format("{}", x));
    json.raw("target", numbers_text(values));
  } else if (settings_.targets) {
    std::vector<std::string> tags;  // null: ignored
    for (const int32_t tag : sample.tags) tags.push_back(tag < 0 ? "null" : io::json_text(description_.labels[static_cast<size_t>(tag)]));
    json.raw("target", json_list(tags));
  }
  return json.text() + "\n";
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
    json.raw("topk", json_list(top));
  }
  return finished(std::move(json), sample.sample);
}

std::string PredictionLines::number_line(const InputSample& sample, const std::vector<std::string>& values) const {
  if (settings_.format != "jsonl") {
    std::vector<std::string> cells{sample.sample.id};
    cells.insert(cells.end(), values.begin(), values.end());
    return line(cells);
  }
  return finished(with_id(sample).raw("prediction", numbers_text(values)), sample.sample);
}

std::string PredictionLines::tag_line(const InputSample& sample, const std::vector<std::string>& tags) const {
  if (settings_.format != "jsonl") return line({sample.sample.id, fmt::format("{}", fmt::join(tags, " "))});
  std::vector<std::string> quoted;
  for (const std::string& tag : tags) quoted.push_back(io::json_text(tag));
  return finished(with_id(sample).raw("tags", json_list(quoted)), sample.sample);
}

// Beside a target nothing is predicted; for a new sample that is a fault.
std::string PredictionLines::nonfinite_line(const InputSample& sample) const {
  if (!settings_.targets)
    fail(ExitCode::nonfinite, "{}: the model's output is not finite; its weights, or the numbers it was given, are too large",
         sample.where);
  const char* name = description_.task == Task::classification ? "label" : description_.task == Task::tagging ? "tags" : "prediction";
  return finished(with_id(sample).raw(name, "null"), sample.sample);
}

std::string PredictionLines::lines(const std::vector<InputSample>& samples, const Packing& packing, const Tensor& outputs) const {
  const bool tagging = description_.task == Task::tagging;
  require(outputs.shape()[0] == (tagging ? packing.rows() : static_cast<int64_t>(samples.size())), "{} outputs for {} samples",
          outputs.shape().text(), samples.size());
  std::string text;
  for (size_t b = 0; b < samples.size(); ++b) {
    const InputSample& sample = samples[b];
    const auto row = static_cast<int64_t>(b);
    const std::vector<Row> rows =
        tagging ? rows_of(outputs, packing.offsets()[b], packing.offsets()[b + 1]) : rows_of(outputs, row, row + 1);
    if (!std::all_of(rows.begin(), rows.end(), is_finite)) {
      text += nonfinite_line(sample);
    } else if (description_.task == Task::classification) {
      text += class_line(sample, rows[0].values);
    } else if (!tagging) {
      text += number_line(sample, rows[0].texts);
    } else {
      std::vector<std::string> tags;
      for (const Row& r : rows) tags.push_back(description_.labels[largest(r.values)]);
      text += tag_line(sample, tags);
    }
  }
  return text;
}

}  // namespace tapeformer::tools
