// SPDX-License-Identifier: Apache-2.0
#include "datasets/seq_dataset.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "datasets/features.h"
#include "datasets/fingerprint.h"
#include "datasets/foreign_hdf5.h"
#include "datasets/labels.h"
#include "datasets/learned.h"
#include "datasets/seq_keys.h"
#include "datasets/seq_part.h"
#include "datasets/split.h"
#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/data/encoder.h"
#include "framework/data/truncate.h"
#include "framework/io/file_stamp.h"

namespace tapeformer::datasets {
namespace {

using data::Part;
using data::Task;

// A tokenizer for numbers without a vocabulary: the text of token 7 is "7".
std::string numbered_tokenizer(int64_t vocab_size) {
  std::string json = R"({"type":"whitespace","lowercase":false,"vocab_size":0,"minimum_count":1,"tokens":["<unk>")";
  for (int64_t i = 1; i < vocab_size; ++i) json += fmt::format(",\"{}\"", i);
  return json + "]}";
}

class SeqDataset : public data::Dataset {
 public:
  SeqDataset(const DataSettings& settings, const OpenOptions& options) : settings_(settings), known_(options.known != nullptr) {
    description_ = options.known ? *options.known : described(settings);
    for (const Part part : options.parts) open(part);
    if (!options.known) learn();
    for (const Part part : options.parts) check(part);
    if (description_.max_length == 0) description_.max_length = longest_;
    for (const Part part : options.parts) report(part);
    if (!options.known) description_.class_weights = class_weights(settings, description_.labels, label_counts_);
    description_.fingerprint = fingerprint(settings, options);
    encoder_.emplace(description_);
  }

  const data::Description& description() const override { return description_; }
  int64_t size(Part part) const override { return static_cast<int64_t>(at(part).examples.size()); }
  int32_t length(Part part, int64_t index) const override {
    const Opened& o = at(part);
    return static_cast<int32_t>(kept(o, o.examples[static_cast<size_t>(index)]).rows());
  }
  void read(Part part, int64_t index, data::Sample& out) const override;
  std::vector<std::string> report() const override { return report_; }

 private:
  struct Opened {
    std::string path;
    std::optional<SeqPart> data;
    std::vector<bool> here;         // by example: whether it is one of the part; empty: all are
    std::vector<int64_t> examples;  // those of the part that are not empty
    int64_t skipped = 0;
    bool has(int64_t example) const { return here.empty() || here[static_cast<size_t>(example)]; }
    std::vector<int32_t> labels;       // by example, in our numbering
    std::vector<int32_t> tag_numbers;  // the file's numbering in ours; empty: the same
  };
  const Opened& at(Part part) const { return parts_[static_cast<size_t>(part)]; }
  Opened& at(Part part) { return parts_[static_cast<size_t>(part)]; }

  // A part without a file of its own is a group of the training file, or cut from its training part by data.split.
  void open(Part part) {
    const Source& source = settings_.source(part).given() ? settings_.source(part) : settings_.train;
    if (!files_.contains(source.path)) {
      stamps_.emplace(source.path, source.path);
      check_format(files_.emplace(source.path, io::Hdf5File::open(source.path)).first->second, source.path);
    }
    const io::Hdf5File& file = files_.at(source.path);
    const bool own = settings_.source(part).given(), foreign = is_foreign(file, source);
    const Split split = own && part != Part::train ? Split() : left_to_cut(file, settings_.split, source);
    const bool cut = share(split, part) > 0;
    if (!cut && !own && share(settings_.split, part) > 0)
      report_.push_back(
          fmt::format("{0}: the group /{0} of {1}, so that data.split does not cut it", name_of(part), printable(source.path)));
    const std::string group = fmt::format("/{}", name_of(cut ? Part::train : part));
    if (!own && !cut && part != Part::train && (foreign || !file.has(group))) return;
    if (!foreign && !file.has(group)) fail(ExitCode::data, "{}: no group {}", printable(source.path), group);
    check_keys(file, settings_, source, foreign ? "" : group);
    check_task(file, settings_.task, source);
    if (!known_) check_tokenizer(file, settings_.tokenizer, source);
    Opened& o = at(part);
    o.path = source.path;
    if (foreign) {
      const ForeignPaths found = foreign_paths(file, source, settings_.task);
      if (!found.guessed.empty() && (own || part == Part::train)) report_.push_back(found.guessed);
      o.data.emplace(file, source.path, found.paths, settings_.task);
    } else {
      o.data.emplace(file, source.path, own_paths(file, source.path, group), settings_.task);
    }
    if (cut || part == Part::train) o.here = share_of(*o.data, split, part);
    for (int64_t i = 0; i < o.data->examples(); ++i) {
      if (!o.has(i)) continue;
      if (o.data->length(i) > 0) o.examples.push_back(i);
      else if (description_.empty == data::Empty::error)
        fail(ExitCode::data, "{}: an empty sample; remove it, or set data.empty: skip to leave such samples out", o.data->where(i));
      else ++o.skipped;
    }
    if (part != Part::train) return;
    if (o.examples.empty()) fail(ExitCode::data, "{}: no training sample", printable(source.path));
    if (!known_ && std::all_of(o.examples.begin(), o.examples.end(), [&](int64_t example) { return o.data->weight(example) == 0; }))
      refuse_zero_weights(settings_);
  }

  static double share(const Split& split, Part part) { return part == Part::valid ? split.valid : part == Part::test ? split.test : 0; }
  // Which examples of the training file the split gives to a part; empty: all.
  static std::vector<bool> share_of(const SeqPart& all, const Split& split, Part part) {
    if (split.valid <= 0 && split.test <= 0) return {};
    std::vector<std::string> strata = all.label_texts();
    for (const int32_t label : all.labels()) strata.push_back(std::to_string(label));
    strata.resize(static_cast<size_t>(all.examples()));
    std::vector<bool> here;
    for (const Part p : split_by_seed(strata, split)) here.push_back(p == part);
    return here;
  }

  // Vocabulary, labels and statistics, from the file of the training part.
  void learn() {
    const Opened& train = at(Part::train);
    if (train.data->numeric()) learn_features(train);
    else learn_vocabulary(train);
    const io::Hdf5File& file = files_.at(train.path);
    if (settings_.task == Task::regression) {
      description_.target_names = target_names(file, settings_.train, train.data->target_size());
      return;
    }
    description_.labels = label_names(file, settings_, settings_.train);
    if (!description_.labels.empty()) {
      std::erase_if(description_.labels, [&](const std::string& name) { return is_ignored(name); });
      return;
    }
    if (!train.data->label_texts().empty() && settings_.classes == 0) {
      std::set<std::string> distinct;
      for (const int64_t example : train.examples) distinct.insert(train.data->label_texts()[static_cast<size_t>(example)]);
      description_.labels = sorted_labels({distinct.begin(), distinct.end()});
    } else {
      description_.labels = numbered_labels(settings_.classes > 0 ? settings_.classes : checked_classes(train, largest_label(train) + 1));
    }
  }

  // Labels are made up for all numbers up to the largest, so that one may not be a stray value.
  static int64_t checked_classes(const Opened& o, int64_t classes) {
    constexpr int64_t most = int64_t{1} << 20;
    if (classes > most)
      fail(ExitCode::data,
           "{}: the label {} without /label_names would make as many classes; at most {} are numbered: correct it, or give names",
           printable(o.path), classes - 1, most);
    return classes;
  }

  static int64_t largest_label(const Opened& o) {
    int64_t largest = -1;
    for (const int64_t example : o.examples)
      if (!o.data->labels().empty()) largest = std::max<int64_t>(largest, o.data->labels()[static_cast<size_t>(example)]);
    if (o.data->labels().empty() && o.data->label_texts().empty())
      o.data->each_tags([&](int64_t example, int64_t, int64_t count, const int32_t* tags) {
        if (o.has(example)) largest = std::max<int64_t>(largest, *std::max_element(tags, tags + count));
      });
    return largest;
  }

  void learn_vocabulary(const Opened& train) {
    const io::Hdf5File& file = files_.at(train.path);
    if (!settings_.train.features.empty())
      fail(ExitCode::data, "{}: data.features names {}, but the file has tokens; remove it", printable(train.path),
           printable(settings_.train.features[0]));
    if (file.has("/tokenizer_json")) {
      description_.tokenizer_json = file.dataset("/tokenizer_json").text();
      description_.vocab_size = data::Tokenizer::from_json(description_.tokenizer_json).vocab_size();
      return;
    }
    const auto declared = file.attribute("/", "vocab_size");
    int64_t size = 0;
    if (declared && std::holds_alternative<int64_t>(*declared)) size = std::get<int64_t>(*declared);
    else if (declared && std::holds_alternative<uint64_t>(*declared)) size = static_cast<int64_t>(std::get<uint64_t>(*declared));
    else
      train.data->each_tokens([&](int64_t, int64_t, int64_t count, const int32_t* tokens) {
        size = std::max<int64_t>(size, *std::max_element(tokens, tokens + count) + 1);
      });
    if (size < 1 || size > (int64_t{1} << 26)) fail(ExitCode::data, "{}: a vocabulary of {} tokens", printable(train.path), size);
    description_.vocab_size = size;
    description_.tokenizer_json = numbered_tokenizer(size);
  }

  void learn_features(const Opened& train) {
    FeatureStatistics statistics(static_cast<size_t>(train.data->features()));
    train.data->each_values([&](int64_t example, int64_t first, int64_t count, const double* values) {
      if (!train.has(example)) return;
      const data::Kept rows = kept(train, example);
      for (int64_t r = 0; r < count; ++r)
        if (first + r < rows.head || first + r >= train.data->length(example) - rows.tail)
          statistics.add(values + r * train.data->features());
    });
    describe_features(settings_, feature_names(files_.at(train.path), settings_.train, train.data->features()), statistics, description_);
  }

  bool is_ignored(const std::string& tag) const {
    return settings_.task == Task::tagging && !settings_.ignored_tag.empty() && tag == settings_.ignored_tag;
  }

  // Walks over everything once, so that no fault waits until its sample is read.
  void check(Part part) {
    Opened& o = at(part);
    if (!o.data) return;
    if (o.data->numeric() != (description_.vocab_size == 0))
      fail(ExitCode::data, "{}: tokens and numbers do not go together: another part or the model has the other kind", printable(o.path));
    if (known_)
      check_names(files_.at(o.path), description_, settings_.source(part).given() ? settings_.source(part) : settings_.train,
                  o.data->numeric());
    if (o.data->numeric()) check_values(o);
    else check_tokens(o);
    number_labels(part);
    for (const int64_t example : o.examples) longest_ = std::max(longest_, kept(o, example).rows());
  }

  void check_tokens(const Opened& o) const {
    const io::Hdf5File& file = files_.at(o.path);
    if (file.has("/tokenizer_json")) {
      const auto own = data::Tokenizer::from_json(file.dataset("/tokenizer_json").text()).to_json();
      if (own != data::Tokenizer::from_json(description_.tokenizer_json).to_json())
        fail(ExitCode::data, "{}: its tokenizer is another than that of the training data or the model", printable(o.path));
    }
    o.data->each_tokens([&](int64_t example, int64_t first, int64_t count, const int32_t* tokens) {
      for (int64_t i = 0; i < count; ++i)
        if (tokens[i] < 0 || tokens[i] >= description_.vocab_size)
          fail(ExitCode::data, "{}, position {}: the token {} is outside 0 to {}", o.data->where(example), first + i + 1, tokens[i],
               description_.vocab_size - 1);
    });
  }

  void check_values(const Opened& o) const {
    const int64_t features = o.data->features();
    const bool flags = description_.missing == data::Missing::zero_with_flag;
    if (features * (flags ? 2 : 1) != description_.features())
      fail(ExitCode::data, "{}: {} features, {} are expected", printable(o.path), features, description_.features() / (flags ? 2 : 1));
    if (flags) return;
    int64_t faults = 0;
    std::string first_fault;
    o.data->each_values([&](int64_t example, int64_t first, int64_t count, const double* values) {
      for (int64_t i = 0; i < count * features; ++i)
        if (!data::is_usable(values[i]) && faults++ == 0)
          first_fault = fmt::format("{}, row {}, column '{}': {} is no finite number", o.data->where(example), first + i / features + 1,
                                    printable(description_.feature_names[static_cast<size_t>(i % features)]), values[i]);
    });
    if (faults > 0)
      fail(ExitCode::data, "{}; the part has {} such value{}: correct them, or set data.missing: zero_with_flag", first_fault, faults,
           faults == 1 ? "" : "s");
  }

  // The file's labels in the description's numbering.
  void number_labels(Part part) {
    Opened& o = at(part);
    if (settings_.task == Task::regression) {
      if (o.data->target_size() != description_.outputs())
        fail(ExitCode::data, "{}: {} targets, {} are expected", printable(o.path), o.data->target_size(), description_.outputs());
      return;
    }
    const Labels labels(description_.labels);
    std::vector<std::string> names = texts_of(files_.at(o.path), "/label_names");
    const bool named = !names.empty();
    if (!named && settings_.task == Task::tagging && !settings_.ignored_tag.empty())
      fail(ExitCode::data,
           "{}: data.ignored_tag is '{}', but without /label_names its tags are numbers; add the names, or write {} for such rows",
           printable(o.path), printable(settings_.ignored_tag), data::ignored_target);
    if (!named) names = description_.labels;
    UnknownLabels unknown;
    std::vector<int64_t> counts(description_.labels.size());
    const auto number = [&](int64_t example, int64_t label) {
      if (label < 0 || label >= static_cast<int64_t>(names.size()))
        fail(ExitCode::data, "{}: the label {} is outside 0 to {}{}", o.data->where(example), label, names.size() - 1,
             label == static_cast<int64_t>(names.size()) ? "; labels count from 0, these seem to count from 1" : "");
      if (is_ignored(names[static_cast<size_t>(label)])) return data::ignored_target;
      const int32_t n = labels.number(names[static_cast<size_t>(label)]);
      if (n < 0) unknown.add(names[static_cast<size_t>(label)], example + 1);
      else ++counts[static_cast<size_t>(n)];
      return n;
    };
    if (settings_.task == Task::tagging) {
      o.data->each_tags([&](int64_t example, int64_t, int64_t count, const int32_t* tags) {
        for (int64_t i = 0; i < count; ++i)
          if (tags[i] != data::ignored_target && o.has(example)) number(example, tags[i]);
      });
      if (named)
        for (const std::string& name : names) o.tag_numbers.push_back(is_ignored(name) ? data::ignored_target : labels.number(name));
    }
    for (size_t i = 0; i < o.data->labels().size(); ++i)
      o.labels.push_back(o.has(static_cast<int64_t>(i)) ? number(static_cast<int64_t>(i), o.data->labels()[i]) : -1);
    for (size_t i = 0; i < o.data->label_texts().size(); ++i) {
      const bool here = o.has(static_cast<int64_t>(i));
      std::string text = o.data->label_texts()[i];
      if (here && settings_.classes > 0) text = canonical_label(text, settings_.classes, o.data->where(static_cast<int64_t>(i)));
      o.labels.push_back(labels.number(text));
      if (!here) continue;
      if (o.labels.back() < 0) unknown.add(text, static_cast<int64_t>(i) + 1);
      else ++counts[static_cast<size_t>(o.labels.back())];
    }
    unknown.fail_if_any(printable(o.path), "labels", description_.labels);
    if (part == Part::train) label_counts_ = counts;
  }

  data::Kept kept(const Opened& o, int64_t example) const {
    const int64_t length = o.data->length(example);
    if (description_.max_length == 0 || length <= description_.max_length) return {length, 0};
    return data::kept_rows(length, description_.max_length, description_.truncate, o.data->where(example));
  }

  void report(Part part) {
    const Opened& o = at(part);
    if (!o.data) return;
    int64_t rows = 0, cut = 0;
    for (const int64_t example : o.examples) {
      rows += kept(o, example).rows();
      cut += kept(o, example).rows() != o.data->length(example);
    }
    report_.push_back(fmt::format("{}: {} samples (mean {:.1f} rows), streamed from {}", name_of(part), o.examples.size(),
                                  o.examples.empty() ? 0.0 : static_cast<double>(rows) / static_cast<double>(o.examples.size()),
                                  printable(o.path)));
    if (cut > 0) report_.push_back(fmt::format("{}: {} sequences cut to {} rows", name_of(part), cut, description_.max_length));
    if (o.skipped > 0) report_.push_back(fmt::format("{}: {} empty samples left out", name_of(part), o.skipped));
    if (const std::string warning = o.data->chunk_warning(static_cast<int64_t>(o.examples.size()), rows); !warning.empty())
      report_.push_back(warning);
  }

  const DataSettings settings_;
  const bool known_;  // the description of a trained model, which the file's contents are compared with
  data::Description description_;
  std::map<std::string, io::Hdf5File> files_;
  std::map<std::string, io::FileStamp> stamps_;
  std::array<Opened, 3> parts_;
  mutable std::optional<data::SampleEncoder> encoder_;  // counts what it sees
  std::vector<int64_t> label_counts_;
  std::vector<std::string> report_;
  int64_t longest_ = 0;
};

void SeqDataset::read(Part part, int64_t index, data::Sample& out) const {
  const Opened& o = at(part);
  require(index >= 0 && index < size(part), "sample {} of {} in {}", index, size(part), name_of(part));
  const int64_t example = o.examples[static_cast<size_t>(index)], length = o.data->length(example);
  const data::Kept rows = kept(o, example);
  out = {};
  // Both ends that stay; the second one is empty unless the middle or the beginning was cut out.
  for (const auto& [first, count] : {std::pair(int64_t{0}, rows.head), std::pair(length - rows.tail, rows.tail)}) {
    if (count == 0) continue;
    if (!o.data->numeric()) o.data->tokens(example, first, count, out.tokens);
    if (settings_.task == Task::tagging) o.data->tags(example, first, count, out.tags);
  }
  if (o.data->numeric()) {
    std::vector<double> values;
    if (rows.head > 0) o.data->values(example, 0, rows.head, values);
    if (rows.tail > 0) o.data->values(example, length - rows.tail, rows.tail, values);
    encoder_->encode_values(std::move(values), rows.rows(), o.data->where(example), out);
  }
  for (int32_t& tag : out.tags)
    if (tag != data::ignored_target && !o.tag_numbers.empty()) tag = o.tag_numbers[static_cast<size_t>(tag)];
  if (settings_.task == Task::classification) out.label = o.labels[static_cast<size_t>(example)];
  if (settings_.task == Task::regression) {
    const auto first = o.data->targets().begin() + example * o.data->target_size();
    out.target.assign(first, first + o.data->target_size());
  }
  out.weight = o.data->weight(example);
  out.id = o.data->id(example);
  // After the reading, since HDF5 takes what is beyond the end of a file for zeros.
  if (stamps_.at(o.path).changed())
    fail(ExitCode::data, "{}: the file was written to while it is in use, which would mix old and new samples; start again",
         printable(o.path));
}

}  // namespace

bool is_seq_dataset(const DataSettings& settings) { return settings.format_of(settings.train) == Format::hdf5; }

std::unique_ptr<data::Dataset> open_seq_dataset(const DataSettings& settings, const OpenOptions& options) {
  return std::make_unique<SeqDataset>(settings, options);
}

}  // namespace tapeformer::datasets
