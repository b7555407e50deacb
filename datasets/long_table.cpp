// SPDX-License-Identifier: Apache-2.0
#include "datasets/long_table.h"

#include <memory>
#include <set>
#include <utility>

#include "datasets/labels.h"
#include "datasets/number.h"
#include "datasets/row_groups.h"
#include "datasets/table.h"
#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/data/encoder.h"

namespace tapeformer::datasets {
namespace {

using data::Task;

class LongReader {
 public:
  LongReader(const DataSettings& settings, const Source& source, const std::vector<std::string>& features)
      : settings_(settings), source_(source), table_(Table::open(source, settings.format_of(source))), groups_(*table_, source) {
    result_.path = source.path;
    find_columns(features);
    without_names_ = result_.features.empty();
  }

  LongTable read() {
    while (table_->next()) source_.values.empty() ? read_row() : read_whole_sequence();
    report_missing();
    if (!source_.values.empty() && result_.sequences.empty()) fail(ExitCode::data, "{}: no sample with rows", printable(source_.path));
    if (source_.values.empty() && !source_.step.empty())
      for (size_t i = 0; i < result_.sequences.size(); ++i) order(result_.sequences[i], groups_.order(i));
    return std::move(result_);
  }

 private:
  const std::string& label_name() const { return settings_.task == Task::tagging ? source_.tags : source_.label; }

  void find_columns(const std::vector<std::string>& wanted) {
    if (!source_.weight.empty()) weight_ = table_->column(source_.weight);
    if (!source_.id.empty()) id_ = table_->column(source_.id);
    if (settings_.task == Task::regression)
      for (const std::string& name : source_.target) targets_.push_back(table_->column(name));
    else label_ = table_->column(label_name());
    if (!source_.values.empty()) {
      values_ = table_->column(source_.values);
      result_.features = !wanted.empty() ? wanted : source_.features;
      return;
    }
    result_.features = !wanted.empty() ? wanted : !source_.features.empty() ? source_.features : other_columns();
    if (result_.features.empty())
      fail(ExitCode::data, "{}: no column is left for the features; name them in data.features", printable(source_.path));
    for (const std::string& name : result_.features) features_.push_back(table_->column(name));
  }

  // Those with no use of their own. Targets may be features too, but only when they are named as such.
  std::vector<std::string> other_columns() const {
    std::set<std::string> used{source_.sequence, source_.step, source_.weight, source_.id};
    if (settings_.task == Task::regression) used.insert(source_.target.begin(), source_.target.end());
    else used.insert(label_name());
    std::vector<std::string> others;
    for (const std::string& name : table_->columns())
      if (!used.contains(name)) others.push_back(name);
    return others;
  }

  void read_row() {
    const size_t number = groups_.add();
    if (number == result_.sequences.size()) {
      const std::string& name = groups_.name(number);
      result_.sequences.push_back({name, source_.id.empty() ? name : table_->text(id_), {}, {}});
    }
    LongSequence& sequence = result_.sequences[number];
    for (const size_t column : features_) {
      const double value = table_->number(column);
      if (settings_.missing == data::Missing::error && !data::is_usable(value)) note_missing(column);
      sequence.values.push_back(value);
    }
    LongRow row = row_without_label();
    if (settings_.task != Task::regression) row.label = label_of(table_->text(label_));
    sequence.rows.push_back(std::move(row));
  }

  LongRow row_without_label() const {
    LongRow row;
    row.row = table_->row();
    row.line = table_->line();
    for (const size_t column : targets_) row.targets.push_back(table_->number(column));
    if (!source_.weight.empty()) row.weight = table_->number(weight_);
    return row;
  }
  std::string label_of(const std::string& typed) const {
    if (trimmed(typed).empty()) return {};
    return canonical_label(typed, settings_.task == Task::classification ? settings_.classes : 0, table_->where(label_));
  }

  // A line of JSONL with all rows of a sequence.
  void read_whole_sequence() {
    const std::string id = source_.id.empty() ? std::to_string(table_->row()) : table_->text(id_);
    LongSequence sequence{id, id, {}, {}};
    const size_t features = table_->rows_of_numbers(values_, sequence.values);
    if (features == 0) {
      if (settings_.empty == data::Empty::error)
        fail(ExitCode::data, "{}: an empty sample; remove it, or set data.empty: skip to leave such samples out", table_->where(values_));
      ++result_.empty;
      return;
    }
    for (size_t f = 0; result_.features.size() < features && without_names_; ++f)
      result_.features.push_back(fmt::format("feature{}", f + 1));
    without_names_ = false;
    if (result_.features.size() != features)
      fail(ExitCode::data, "{}: {} numbers in a row, {} are expected", table_->where(values_), features, result_.features.size());
    for (size_t i = 0; i < sequence.values.size(); ++i)
      if (settings_.missing == data::Missing::error && !data::is_usable(sequence.values[i]) && missing_++ == 0)
        first_missing_ = fmt::format("{}, step {}, feature '{}': {} is no finite number", table_->where(values_), i / features + 1,
                                     printable(result_.features[i % features]), sequence.values[i]);
    LongRow row = row_without_label();
    const size_t rows = sequence.values.size() / features;
    std::vector<std::string> tags;
    if (settings_.task != Task::regression) table_->need(label_);
    if (settings_.task == Task::tagging) tags = table_->words(label_);
    else if (settings_.task == Task::classification) row.label = label_of(table_->text(label_));
    if (settings_.task == Task::tagging && tags.size() != rows)
      fail(ExitCode::data, "{}: {} tags for {} rows", table_->where(label_), tags.size(), rows);
    sequence.rows.assign(rows, row);
    for (size_t r = 0; r < tags.size(); ++r) sequence.rows[r].label = label_of(tags[r]);
    result_.sequences.push_back(std::move(sequence));
  }

  void note_missing(size_t column) {
    if (missing_++ == 0)
      first_missing_ = fmt::format("{}: '{}' is no finite number", table_->where(column), printable(table_->text(column)));
  }
  void report_missing() const {
    if (missing_ > 0)
      fail(ExitCode::data, "{}; the file has {} such cell{}: correct them, or set data.missing: zero_with_flag", first_missing_, missing_,
           missing_ == 1 ? "" : "s");
  }

  void order(LongSequence& sequence, const std::vector<size_t>& places) const {
    LongSequence sorted{sequence.name, sequence.id, {}, {}};
    for (const size_t place : places) {
      const auto first = sequence.values.begin() + static_cast<std::ptrdiff_t>(place * features_.size());
      sorted.values.insert(sorted.values.end(), first, first + static_cast<std::ptrdiff_t>(features_.size()));
      sorted.rows.push_back(std::move(sequence.rows[place]));
    }
    sequence = std::move(sorted);
  }

  const DataSettings& settings_;
  const Source& source_;
  std::unique_ptr<Table> table_;
  RowGroups groups_;
  size_t weight_ = 0, label_ = 0, values_ = 0, id_ = 0;
  bool without_names_ = false;  // features of data.values: numbered as many as the first sequence has
  std::vector<size_t> targets_, features_;
  LongTable result_;
  int64_t missing_ = 0;
  std::string first_missing_;
};

}  // namespace

std::string LongTable::where(const LongRow& row) const { return fmt::format("{}:{}: row {}", printable(path), row.line, row.row); }

LongTable read_long_table(const DataSettings& settings, const Source& source, const std::vector<std::string>& features) {
  return LongReader(settings, source, features).read();
}

}  // namespace tapeformer::datasets
