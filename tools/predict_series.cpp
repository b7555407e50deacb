// SPDX-License-Identifier: Apache-2.0
// Sequences of numbers to predict, from a long table (rows with the same name are one sequence) or from JSONL (a line is a whole sequence).
// Windows are cut as in training.
#include "datasets/row_groups.h"
#include "tools/predict_input.h"

namespace tapeformer::tools {
namespace {

struct Row {
  int64_t number = 0;  // in the file
  std::vector<double> values;
};

struct Series {
  std::string name, where;
  std::vector<Row> rows;
};

std::string left_over_text(size_t rows) { return rows == 0 ? "" : fmt::format("{} rows at the ends fill no whole window", rows); }

// Rows [first, first + length) of a series are a sample.
struct Stretch {
  size_t series;
  size_t first, length;
};

class SeriesInput : public SampleInput {
 public:
  SeriesInput(const InputSettings& settings, const datasets::DataSettings& data, const data::Description& description,
              data::SampleEncoder& encoder, Log& log)
      : windows_(data.window.length > 0), encoder_(encoder) {
    read(settings, input_source(settings, data), description, log);
    for (size_t i = 0; i < series_.size(); ++i) cut(i, data.window);
  }

  bool next(InputSample& out) override {
    for (; at_ < stretches_.size(); ++skipped_) {
      const Stretch& stretch = stretches_[at_++];
      const Series& s = series_[stretch.series];
      std::vector<double> values;
      for (size_t r = stretch.first; r < stretch.first + stretch.length; ++r)
        values.insert(values.end(), s.rows[r].values.begin(), s.rows[r].values.end());
      const int64_t row = s.rows[stretch.first].number;
      out = {.sample = {}, .where = windows_ ? fmt::format("{}, window from row {}", s.where, row) : s.where};
      // A window is named by its first row, as in training.
      out.sample.id = named_ && !windows_ ? s.name : std::to_string(windows_ ? row : static_cast<int64_t>(at_));
      encoder_.encode_values(std::move(values), static_cast<int64_t>(stretch.length), out.where, out.sample);
      if (!out.sample.values.empty()) return true;
    }
    return false;
  }
  bool ready() override { return true; }
  std::string note() const override { return left_over_text(left_over_); }

 private:
  void read(const InputSettings& settings, datasets::Source source, const data::Description& description, Log& log) {
    const auto table = datasets::Table::open(source, input_format(settings.kind));
    if (!has_id(table->columns(), settings, source, log)) source.id = source.sequence;
    datasets::RowGroups groups(*table, source);
    named_ = !source.id.empty();
    const size_t id = named_ ? table->column(source.id) : 0;
    std::vector<size_t> features;
    for (int64_t f = 0; f < encoder_.raw_features(); ++f)
      features.push_back(table->column(description.feature_names[static_cast<size_t>(f)]));
    while (table->next()) {
      const size_t number = groups.add();
      if (number == series_.size()) series_.push_back({named_ ? table->text(id) : std::string(), table->where(), {}});
      Row row{.number = table->row(), .values = {}};
      for (const size_t f : features) row.values.push_back(table->number(f));
      series_[number].rows.push_back(std::move(row));
    }
    for (size_t i = 0; i < series_.size(); ++i) {
      std::vector<Row> ordered;
      for (const size_t place : groups.order(i)) ordered.push_back(std::move(series_[i].rows[place]));
      series_[i].rows = std::move(ordered);
    }
  }
  void cut(size_t index, const datasets::Window& window) {
    const size_t rows = series_[index].rows.size();
    if (!windows_) {
      stretches_.push_back({index, 0, rows});
      return;
    }
    const auto n = static_cast<int64_t>(rows);
    for (int64_t w = 0; w < window.count(n); ++w)
      stretches_.push_back({index, static_cast<size_t>(w * window.hop), static_cast<size_t>(window.length)});
    left_over_ += static_cast<size_t>(window.left_over(n));
  }

  bool windows_, named_ = false;
  data::SampleEncoder& encoder_;
  std::vector<Series> series_;
  std::vector<Stretch> stretches_;
  size_t at_ = 0, left_over_ = 0;
};

// A line of JSONL with a sequence, answered before the next one is read.
class ArrayInput : public SampleInput {
 public:
  ArrayInput(const InputSettings& settings, const datasets::DataSettings& data, data::SampleEncoder& encoder, Log& log)
      : source_(input_source(settings, data)), window_(data.window), encoder_(encoder), log_(log) {
    if (settings.kind != InputKind::jsonl)
      fail(ExitCode::usage, "the model was trained on sequences in the arrays of JSONL; give such a file and say --input jsonl");
    table_ = datasets::Table::open(source_, datasets::Format::jsonl);
    column_ = table_->column(source_.values);
    named_ = has_id(table_->columns(), settings, source_, log);
    if (named_) id_ = table_->column(source_.id);
  }

  bool next(InputSample& out) override {
    for (;; ++skipped_) {
      while (first_ >= ends_)
        if (!read()) return false;
      const int64_t features = encoder_.raw_features(), count = window_.length > 0 ? window_.length : rows_;
      const auto from = values_.begin() + static_cast<std::ptrdiff_t>(first_ * features);
      std::vector<double> values(from, from + static_cast<std::ptrdiff_t>(count * features));
      const std::string where = table_->where(column_);
      out = {.sample = {}, .where = window_.length > 0 ? fmt::format("{}, window from step {}", where, first_ + 1) : where};
      out.sample.id = named_ ? table_->text(id_) : std::to_string(table_->row());
      first_ += window_.length > 0 ? window_.hop : 1;
      encoder_.encode_values(std::move(values), count, out.where, out.sample);
      if (!out.sample.values.empty()) return true;
    }
  }
  bool ready() override { return first_ < ends_ || table_->ready(); }
  std::string note() const override { return left_over_text(left_over_); }

 private:
  bool read() {
    if (!table_->next()) return false;
    values_.clear();
    const auto features = static_cast<int64_t>(table_->rows_of_numbers(column_, values_));
    if (features > 0 && features != encoder_.raw_features())
      fail(ExitCode::data, "{}: {} numbers in a row, the model reads {}", table_->where(column_), features, encoder_.raw_features());
    rows_ = static_cast<int64_t>(values_.size()) / encoder_.raw_features();
    first_ = 0;
    ends_ = window_.length == 0 ? 1 : window_.count(rows_) * window_.hop;
    if (window_.length > 0) count_left_over();
    return true;
  }

  // A line that is too short for a window has no prediction: who waits for one should know.
  void count_left_over() {
    if (rows_ < window_.length && !warned_) {
      log_.warn("{}: {} rows, fewer than a window of {}: nothing is predicted for such lines", table_->where(column_), rows_,
                window_.length);
      warned_ = true;
    }
    left_over_ += static_cast<size_t>(window_.left_over(rows_));
  }

  datasets::Source source_;
  datasets::Window window_;
  data::SampleEncoder& encoder_;
  Log& log_;
  std::unique_ptr<datasets::Table> table_;
  size_t column_ = 0, id_ = 0;
  bool named_ = false, warned_ = false;
  size_t left_over_ = 0;
  std::vector<double> values_;               // of the present line
  int64_t rows_ = 0, first_ = 0, ends_ = 0;  // samples begin at first_, below ends_
};

}  // namespace

std::unique_ptr<SampleInput> open_series_input(const InputSettings& settings, const datasets::DataSettings& data,
                                               const data::Description& description, data::SampleEncoder& encoder, Log& log) {
  if (!data.train.values.empty()) return std::make_unique<ArrayInput>(settings, data, encoder, log);
  return std::make_unique<SeriesInput>(settings, data, description, encoder, log);
}

}  // namespace tapeformer::tools
