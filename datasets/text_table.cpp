// SPDX-License-Identifier: Apache-2.0
// The files are read up to three times, so that no text stays in memory: classes for the split, vocabulary and labels, samples.
#include "datasets/text_table.h"

#include <fmt/ranges.h>

#include <cmath>
#include <set>
#include <utility>

#include "datasets/labels.h"
#include "datasets/learned.h"
#include "datasets/memory_dataset.h"
#include "datasets/split.h"
#include "datasets/table.h"
#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/data/encoder.h"

namespace tapeformer::datasets {
namespace {

using data::Part;
using data::Task;

// Where the columns of a source are in its table.
struct Columns {
  size_t sequence = 0;  // the text, or the words
  size_t label = 0;     // or the tags
  std::vector<size_t> targets;
  size_t id = 0, weight = 0;
};

Columns columns_of(const Table& table, const Source& source, Task task) {
  Columns c;
  c.sequence = table.column(task == Task::tagging ? source.tokens : source.text);
  if (task == Task::classification) c.label = table.column(source.label);
  if (task == Task::tagging) c.label = table.column(source.tags);
  if (task == Task::regression)
    for (const std::string& name : source.target) c.targets.push_back(table.column(name));
  if (!source.id.empty()) c.id = table.column(source.id);
  if (!source.weight.empty()) c.weight = table.column(source.weight);
  return c;
}

class TextReader {
 public:
  TextReader(const DataSettings& settings, const OpenOptions& options)
      : settings_(settings), options_(options), dataset_(std::make_unique<MemoryDataset>()) {}

  std::unique_ptr<data::Dataset> read() {
    data::Description& d = dataset_->description();
    d = description_to_begin(settings_, options_);
    assign_parts();
    if (!options_.known) learn();
    for (const Part part : options_.parts) read_part(part);
    finish(*dataset_, settings_, options_);
    return std::move(dataset_);
  }

 private:
  // The file a part is read from: its own, or the training file where the split cuts it from there.
  const Source& file_of(Part part) const {
    const Source& own = settings_.source(part);
    return own.given() || !is_cut_from_training(settings_, part) ? own : settings_.train;
  }
  bool splits() const { return settings_.split.valid > 0 || settings_.split.test > 0; }

  // Calls visit(table, columns) for each row of a part.
  template <class Visit>
  void each_row(Part part, const Visit& visit) const {
    const Source& source = file_of(part);
    if (!source.given()) return;
    const auto table = Table::open(source, settings_.format_of(source));
    const Columns columns = columns_of(*table, source, settings_.task);
    const bool shared = &source == &settings_.train && splits();
    for (size_t i = 0; table->next(); ++i) {
      if (shared && i >= assigned_.size()) fail(ExitCode::data, "{}: the file changed while it was read", printable(source.path));
      if (shared && assigned_[i] != part) continue;
      table->need(columns.sequence);
      visit(*table, columns);
    }
  }

  void assign_parts() {
    if (!splits() || !needs_training_file(settings_, options_)) return;
    std::vector<std::string> strata;
    const auto table = Table::open(settings_.train, settings_.format_of(settings_.train));
    const Columns columns = columns_of(*table, settings_.train, settings_.task);
    while (table->next()) strata.push_back(settings_.task == Task::classification ? label(*table, columns) : std::string());
    assigned_ = split_by_seed(strata, settings_.split);
  }

  std::string label(const Table& table, const Columns& columns) const {
    table.need(columns.label);
    return canonical_label(table.text(columns.label), settings_.classes, table.where(columns.label));
  }
  std::vector<std::string> tags(const Table& table, const Columns& columns, size_t words) const {
    table.need(columns.label);
    std::vector<std::string> tags = table.words(columns.label);
    if (tags.size() != words)
      fail(ExitCode::data, "{}: {} tags for {} words; every word needs one", table.where(columns.label), tags.size(), words);
    return tags;
  }

  // Vocabulary and labels of the training part.
  void learn() {
    data::Tokenizer tokenizer(settings_.tokenizer);
    std::set<std::string> labels;
    each_row(Part::train, [&](const Table& table, const Columns& columns) {
      if (settings_.task == Task::tagging) {
        const std::vector<std::string> words = table.words(columns.sequence);
        for (const std::string& word : words) tokenizer.learn_token(word);
        for (std::string& tag : tags(table, columns, words.size()))
          if (tag != settings_.ignored_tag || tag.empty()) labels.insert(canonical_label(tag, 0, table.where(columns.label)));
      } else {
        tokenizer.learn(table.text(columns.sequence));
        if (settings_.task == Task::classification) labels.insert(label(table, columns));
      }
    });
    tokenizer.finish_vocabulary();
    data::Description& d = dataset_->description();
    d.tokenizer_json = tokenizer.to_json();
    d.vocab_size = tokenizer.vocab_size();
    if (settings_.task == Task::classification && settings_.classes > 0) d.labels = numbered_labels(settings_.classes);
    else d.labels = sorted_labels({labels.begin(), labels.end()});
  }

  void read_part(Part part) {
    const Source& source = file_of(part);
    if (!source.given()) return;
    SampleStore& store = dataset_->store(part);
    data::SampleEncoder encoder(dataset_->description());
    const Labels labels(dataset_->description().labels);
    UnknownLabels unknown;
    data::Sample sample;
    int64_t skipped = 0;
    each_row(part, [&](const Table& table, const Columns& columns) {
      sample = {};
      read_targets(table, columns, labels, unknown, sample);
      if (settings_.task == Task::tagging) encode_words(table, columns, encoder, labels, unknown, sample);
      else encoder.encode_text(table.text(columns.sequence), table.where(columns.sequence), sample);
      if (!source.id.empty()) sample.id = table.text(columns.id);
      if (!source.weight.empty()) sample.weight = weight(table, columns);
      if (sample.tokens.empty()) ++skipped;
      else if (options_.stream) stream(part, sample, table.row());
      else store.add(sample, table.row());
    });
    unknown.fail_if_any(printable(source.path), settings_.task == Task::tagging ? source.tags : source.label, labels.names());
    if (part == Part::train && store.size() == 0) fail(ExitCode::data, "{}: no training sample", printable(source.path));
    report(part, encoder, skipped);
  }

  void stream(Part part, data::Sample& sample, int64_t row) {
    dataset_->store(part).add_outline(sample, row);
    if (sample.id.empty()) sample.id = std::to_string(row);
    options_.stream(part, sample);
  }

  void read_targets(const Table& table, const Columns& columns, const Labels& labels, UnknownLabels& unknown, data::Sample& sample) const {
    if (settings_.task == Task::classification) {
      const std::string name = label(table, columns);
      sample.label = labels.number(name);
      if (sample.label < 0) unknown.add(name, table.row());
    }
    for (const size_t column : columns.targets) {
      const double value = table.number(column);
      if (!data::is_usable(value))
        fail(ExitCode::data, "{}: a finite number is needed to learn from, found '{}'", table.where(column), printable(table.text(column)));
      sample.target.push_back(static_cast<float>(value));
    }
  }

  void encode_words(const Table& table, const Columns& columns, data::SampleEncoder& encoder, const Labels& labels, UnknownLabels& unknown,
                    data::Sample& sample) const {
    const std::vector<std::string> words = table.words(columns.sequence);
    for (const std::string& tag : tags(table, columns, words.size())) {
      const bool ignored = !settings_.ignored_tag.empty() && tag == settings_.ignored_tag;
      const int32_t number = ignored ? data::ignored_target : labels.number(canonical_label(tag, 0, table.where(columns.label)));
      if (number == -1) unknown.add(tag, table.row());
      sample.tags.push_back(number);
    }
    encoder.encode_tokens(words, table.where(columns.sequence), sample);
  }

  float weight(const Table& table, const Columns& columns) const {
    const double value = table.number(columns.weight);
    if (!data::is_usable(value) || value < 0)
      fail(ExitCode::data, "{}: a weight must be a finite number, at least 0, found '{}'", table.where(columns.weight),
           printable(table.text(columns.weight)));
    return static_cast<float>(value);
  }

  void report(Part part, const data::SampleEncoder& encoder, int64_t skipped) {
    report_part(*dataset_, part, encoder);
    if (skipped > 0) dataset_->say(fmt::format("{}: {} empty samples left out", name_of(part), skipped));
    if (settings_.tokenizer.kind != data::TokenizerKind::byte)
      dataset_->say(fmt::format("{}: {} of {} tokens unknown ({:.3g} %)", name_of(part), encoder.tokens_unknown(), encoder.tokens_seen(),
                                encoder.tokens_seen()
                                    ? 100.0 * static_cast<double>(encoder.tokens_unknown()) / static_cast<double>(encoder.tokens_seen())
                                    : 0.0));
  }

  const DataSettings& settings_;
  const OpenOptions& options_;
  std::unique_ptr<MemoryDataset> dataset_;
  std::vector<Part> assigned_;  // of the rows of the training file, when the split cuts it
};

}  // namespace

bool is_text_table(const DataSettings& settings) { return settings.format_of(settings.train) != Format::hdf5 && !settings.numeric(); }

std::unique_ptr<data::Dataset> open_text_table(const DataSettings& settings, const OpenOptions& options) {
  return TextReader(settings, options).read();
}

}  // namespace tapeformer::datasets
