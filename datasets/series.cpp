// SPDX-License-Identifier: Apache-2.0
// A sample is a whole sequence, or a window of one. Parts cut from one table are cut by sequences (stratified by seed); windows over a
// table that is one sequence are cut by time, first train, then valid, then test, so that no window of one part overlaps one of another.
#include "datasets/series.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "datasets/features.h"
#include "datasets/labels.h"
#include "datasets/learned.h"
#include "datasets/long_table.h"
#include "datasets/memory_dataset.h"
#include "datasets/split.h"
#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/data/encoder.h"
#include "framework/data/truncate.h"

namespace tapeformer::datasets {
namespace {

using data::Part;
using data::Task;

// Rows [first, last) of a sequence of a table.
struct Stretch {
  const LongTable* table;
  const LongSequence* sequence;
  size_t first, last;
};

class Builder {
 public:
  Builder(const DataSettings& settings, const OpenOptions& options)
      : settings_(settings), options_(options), dataset_(std::make_unique<MemoryDataset>()) {}

  std::unique_ptr<data::Dataset> build() {
    data::Description& d = dataset_->description();
    d = description_to_begin(settings_, options_);
    if (options_.known && d.max_length < settings_.window.length)
      fail(ExitCode::checkpoint, "the model takes {} rows, data.window.length is {}", d.max_length, settings_.window.length);
    names_ = known_features();
    for (const Part part : {Part::train, Part::valid, Part::test}) load(part);
    if (!options_.known) learn();
    for (const Part part : options_.parts) fill(part);
    finish(*dataset_, settings_, options_);
    return std::move(dataset_);
  }

 private:
  bool cuts(Part part) const { return is_cut_from_training(settings_, part); }

  // Columns without the flags of a trained model.
  std::vector<std::string> known_features() const {
    if (!options_.known) return {};
    std::vector<std::string> names = options_.known->feature_names;
    if (options_.known->missing == data::Missing::zero_with_flag) names.resize(names.size() / 2);
    return names;
  }

  // The training table gives the parts that the split cuts from it as well.
  void load(Part part) {
    const Source& source = settings_.source(part);
    const bool needed = part == Part::train ? needs_training_file(settings_, options_) : options_.has(part);
    if (!source.given() || !needed) return;
    LongTable& table = tables_[static_cast<size_t>(part)];
    table = read_long_table(settings_, source, names_);
    if (part == Part::train) {
      names_ = table.features;
      cut(table);
    } else {
      for (const LongSequence& s : table.sequences) stretches_[static_cast<size_t>(part)].push_back({&table, &s, 0, s.rows.size()});
    }
  }

  void cut(const LongTable& table) {
    const auto give = [&](Part part, const LongSequence& s, size_t first, size_t last) {
      if (last > first) stretches_[static_cast<size_t>(part)].push_back({&table, &s, first, last});
    };
    if (table.sequences.size() == 1 && settings_.window.length > 0) {
      const LongSequence& s = table.sequences[0];
      const auto rows = static_cast<double>(s.rows.size());
      const size_t test = s.rows.size() - static_cast<size_t>(std::llround(rows * settings_.split.test));
      const size_t valid = test - std::min(test, static_cast<size_t>(std::llround(rows * settings_.split.valid)));
      give(Part::train, s, 0, valid);
      give(Part::valid, s, valid, test);
      give(Part::test, s, test, s.rows.size());
      return;
    }
    std::vector<std::string> strata;
    for (const LongSequence& s : table.sequences)
      strata.push_back(settings_.task == Task::classification ? s.rows.back().label : std::string());
    const std::vector<Part> parts = split_by_seed(strata, settings_.split);
    for (size_t i = 0; i < parts.size(); ++i) give(parts[i], table.sequences[i], 0, table.sequences[i].rows.size());
  }

  void learn() {
    data::Description& d = dataset_->description();
    FeatureStatistics statistics(names_.size());
    std::set<std::string> labels;
    for (const Stretch& s : stretches_[0]) {
      const data::Kept kept = kept_of(s);
      for (size_t r = s.first; r < s.last; ++r) {
        statistics.add(&s.sequence->values[r * names_.size()], samples_with(s, kept, r));
        const std::string& label = s.sequence->rows[r].label;
        if (!label.empty() && !is_ignored(label)) labels.insert(label);
      }
    }
    describe_features(settings_, names_, statistics, d);
    if (settings_.task == Task::classification && settings_.classes > 0) d.labels = numbered_labels(settings_.classes);
    else d.labels = sorted_labels({labels.begin(), labels.end()});
  }

  // How many samples a row stands in, as the model gets them: several windows, or none where it is cut off.
  int64_t samples_with(const Stretch& s, const data::Kept& kept, size_t r) const {
    const auto row = static_cast<int64_t>(r - s.first), rows = static_cast<int64_t>(s.last - s.first);
    if (settings_.window.length > 0) return settings_.window.covering(row, rows);
    return row < kept.head || row >= rows - kept.tail;
  }
  data::Kept kept_of(const Stretch& s) const {
    const auto rows = static_cast<int64_t>(s.last - s.first);
    if (settings_.window.length > 0) return {rows, 0};
    return data::kept_rows(rows, settings_.max_length, settings_.truncate, s.table->where(s.sequence->rows[s.first]));
  }

  bool is_ignored(const std::string& tag) const {
    return settings_.task == Task::tagging && !settings_.ignored_tag.empty() && tag == settings_.ignored_tag;
  }

  void fill(Part part) {
    const auto& stretches = stretches_[static_cast<size_t>(part)];
    if (stretches.empty() && part != Part::train) return;
    dataset_->store(part) = SampleStore(dataset_->description().features());
    const Labels labels(dataset_->description().labels);
    data::Description encoding = dataset_->description();
    if (settings_.window.length > 0) encoding.max_length = 0;  // windows are cut from rows that are stored once
    data::SampleEncoder encoder(encoding);
    UnknownLabels unknown;
    int64_t dropped = 0;
    for (const Stretch& s : stretches)
      dropped +=
          settings_.window.length > 0 ? add_windows(part, s, encoder, labels, unknown) : add_whole(part, s, encoder, labels, unknown);
    const Source& own = settings_.source(part);
    const Source& from = own.given() ? own : settings_.train;
    unknown.fail_if_any(printable(from.path), settings_.task == Task::tagging ? from.tags : from.label, labels.names());
    if (part == Part::train && dataset_->size(part) == 0)
      fail(ExitCode::data, "{}: no training sample{}", printable(settings_.train.path),
           settings_.window.length > 0 ? "; is data.window.length too long?" : "");
    report_part(*dataset_, part, encoder);
    if (encoder.missing() > 0) dataset_->say(fmt::format("{}: {} numbers missing, set to 0 with a flag", name_of(part), encoder.missing()));
    if (const int64_t empty = tables_[static_cast<size_t>(part)].empty; empty > 0)
      dataset_->say(fmt::format("{}: {} empty samples left out{}", own.given() ? printable(own.path) : name_of(part), empty,
                                cuts(Part::valid) || cuts(Part::test) ? " before the parts were cut" : ""));
    if (dropped > 0) dataset_->say(fmt::format("{}: {} rows at the ends fill no whole window", name_of(part), dropped));
  }

  // The encoded rows [first, last), with their tags.
  data::Sample encoded(const Stretch& s, data::SampleEncoder& encoder, const Labels& labels, UnknownLabels& unknown) const {
    data::Sample sample;
    if (settings_.task == Task::tagging)
      for (size_t r = s.first; r < s.last; ++r) sample.tags.push_back(tag_of(s, r, labels, unknown));
    const size_t features = names_.size();
    std::vector<double> values(s.sequence->values.begin() + static_cast<std::ptrdiff_t>(s.first * features),
                               s.sequence->values.begin() + static_cast<std::ptrdiff_t>(s.last * features));
    encoder.encode_values(std::move(values), static_cast<int64_t>(s.last - s.first), s.table->where(s.sequence->rows[s.first]), sample);
    return sample;
  }

  int32_t tag_of(const Stretch& s, size_t r, const Labels& labels, UnknownLabels& unknown) const {
    const LongRow& row = s.sequence->rows[r];
    if (row.label.empty())
      fail(ExitCode::data, "{}, column '{}': the tag is missing", s.table->where(row), printable(settings_.train.tags));
    if (is_ignored(row.label)) return data::ignored_target;
    const int32_t number = labels.number(row.label);
    if (number < 0) unknown.add(row.label, row.row);
    return number;
  }

  // Label or targets and weight of one row.
  void target(const Stretch& s, const LongRow& row, const Labels& labels, UnknownLabels& unknown, data::Sample& sample) const {
    if (settings_.task == Task::classification) {
      if (row.label.empty())
        fail(ExitCode::data, "{}, column '{}': the label is missing", s.table->where(row), printable(settings_.train.label));
      sample.label = labels.number(row.label);
      if (sample.label < 0) unknown.add(row.label, row.row);
    }
    sample.target.clear();
    for (size_t k = 0; k < row.targets.size(); ++k) {
      if (!data::is_usable(row.targets[k]))
        fail(ExitCode::data, "{}, column '{}': a finite number is needed to learn from", s.table->where(row),
             printable(settings_.train.target[k]));
      sample.target.push_back(static_cast<float>(row.targets[k]));
    }
    if (!data::is_usable(row.weight) || row.weight < 0)
      fail(ExitCode::data, "{}, column '{}': a weight must be a finite number, at least 0", s.table->where(row),
           printable(settings_.train.weight));
    sample.weight = static_cast<float>(row.weight);
  }

  // All rows of a sequence must agree on its label, targets and weight.
  int64_t add_whole(Part part, const Stretch& s, data::SampleEncoder& encoder, const Labels& labels, UnknownLabels& unknown) {
    const LongRow& front = s.sequence->rows[s.first];
    data::Sample rest;
    target(s, front, labels, unknown, rest);
    for (size_t r = s.first; r < s.last && settings_.task != Task::tagging; ++r) {
      const LongRow& row = s.sequence->rows[r];
      if (row.label != front.label && row.label.empty()) target(s, row, labels, unknown, rest);  // says that it is missing
      if (row.label != front.label || row.targets != front.targets || row.weight != front.weight)
        fail(ExitCode::data, "{}: label, target or weight differs from row {}, of the same sequence '{}'", s.table->where(row), front.row,
             printable(s.sequence->name));
    }
    data::Sample sample = encoded(s, encoder, labels, unknown);
    sample.label = rest.label;
    sample.target = rest.target;
    sample.weight = rest.weight;
    sample.id = s.sequence->id;
    dataset_->store(part).add(sample, front.row);
    return 0;
  }

  // The rows are stored once, windows are stretches of them. Returns the rows behind the last window.
  int64_t add_windows(Part part, const Stretch& s, data::SampleEncoder& encoder, const Labels& labels, UnknownLabels& unknown) {
    const Window& window = settings_.window;
    const auto rows = static_cast<int64_t>(s.last - s.first);
    if (window.count(rows) == 0) return rows;
    SampleStore& store = dataset_->store(part);
    const int64_t first = store.add_rows(encoded(s, encoder, labels, unknown));
    for (int64_t w = 0; w < window.count(rows); ++w) {
      const int64_t at = w * window.hop;
      const LongRow* begin = &s.sequence->rows[s.first + static_cast<size_t>(at)];
      data::Sample rest;
      target(s, begin[window.length - 1], labels, unknown, rest);
      store.add_stretch(first + at, static_cast<int32_t>(window.length), rest, begin->row);
    }
    return window.left_over(rows);
  }

  const DataSettings& settings_;
  const OpenOptions& options_;
  std::unique_ptr<MemoryDataset> dataset_;
  std::vector<std::string> names_;  // features as the files have them, without flags
  std::array<LongTable, 3> tables_;
  std::array<std::vector<Stretch>, 3> stretches_;
};

}  // namespace

bool is_series(const DataSettings& settings) { return settings.format_of(settings.train) != Format::hdf5 && settings.numeric(); }

std::unique_ptr<data::Dataset> open_series(const DataSettings& settings, const OpenOptions& options) {
  return Builder(settings, options).build();
}

}  // namespace tapeformer::datasets
