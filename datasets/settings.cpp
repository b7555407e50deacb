// SPDX-License-Identifier: Apache-2.0
#include "datasets/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace tapeformer::datasets {
namespace {

using config::Section;

// Keys of one file; what stands in `source` before is what holds when a key is not given.
void read_source(Section& s, Source& source) {
  s.field("path", source.path, "the data file, relative to the working directory");
  s.choice("encoding", source.encoding, {{"utf-8", io::Encoding::utf8}, {"latin-1", io::Encoding::latin1}},
           "how the file's text is written");
  s.field("text", source.text, "classification and regression of text: the column with the text");
  s.field("tokens", source.tokens, "tagging: the column with the words of a sequence (a JSON array, or separated by spaces)");
  s.field("tags", source.tags, "tagging: the column with one tag for each word");
  s.field("label", source.label, "classification: the column with the class; HDF5: the data set with classes, targets or tags");
  s.field("target", source.target, "regression: the column, or the list of columns, with the numbers to predict");
  s.field(
      "input", source.input,
      "HDF5 of another layout than tapeformer's: the data set with the sequences, as /X: numbers [samples, rows, features] or [samples, "
      "rows], or whole numbers [samples, rows], which are tokens; the usual names are tried unless given");
  s.field("values", source.values,
          "numeric sequences in JSONL: the key whose value is a whole sequence, an array with an array of numbers for each row; null is a "
          "missing number");
  s.field(
      "features", source.features,
      "numeric sequences in a long table: the columns with the numbers, all that have no other use unless given; with data.values: names "
      "for the numbers of a row");
  s.field("sequence", source.sequence, "numeric sequences in a long table: the column that says which sequence a row belongs to");
  s.field("step", source.step,
          "numeric sequences in a long table: the column that orders the rows of a sequence; the file's order unless given");
  s.field("id", source.id, "the column (HDF5: data set) that names a sample; its row number unless given");
  s.field("weight", source.weight, "the column (HDF5: data set) with the weight of a sample in the loss");
}

// The training part must be read first.
void read_part(Section& data, const char* part, Source& source, const DataSettings& d) {
  Section s = data.section(part, "the file of this part; columns named beside data.path hold unless named here");
  read_source(s, source);
  const Format own = d.format_of(source), train = d.format_of(d.train);
  if (source.given() && d.train.given() && own != Format::by_extension && train != Format::by_extension &&
      (own == Format::hdf5) != (train == Format::hdf5))
    s.fault("path",
            fmt::format("'{}' is '{}', {}, but the training part is '{}', {}", s.path("path"), source.path,
                        own == Format::hdf5 ? "HDF5" : "a table", d.train.path, train == Format::hdf5 ? "HDF5" : "a table"),
            "give all parts as HDF5, which data convert writes, or all as tables");
}

void read_split(Section& data, DataSettings& d) {
  Section s = data.section("split", "cuts validation and test parts from one file, the classes in equal shares");
  s.field("valid", d.split.valid, config::from_below(0, 1), "share of the validation part");
  s.field("test", d.split.test, config::from_below(0, 1), "share of the test part");
  s.field("seed", d.split.seed, "seed of the split; another seed makes other parts");
  if (d.split.valid == 0 && d.split.test == 0) s.unused("seed", s.path(s.given("test") ? "test" : "valid"));
  if (d.split.valid + d.split.test >= 1)
    s.fault("valid", "'data.split.valid' and 'data.split.test' leave nothing to train on", "their sum must be below 1");
  if (d.split.valid > 0 && d.valid.given())
    s.fault("valid", "the validation part is given twice, by 'data.split.valid' and 'data.valid.path'", "keep one of them");
  if (d.split.test > 0 && d.test.given())
    s.fault("test", "the test part is given twice, by 'data.split.test' and 'data.test.path'", "keep one of them");
}

void read_class_weights(Section& s, DataSettings& d) {
  s.choice("class_weights", d.class_weights, {{"none", ClassWeights::none}, {"balanced", ClassWeights::balanced}},
           "weights of the classes in the loss; none: all 1; balanced: samples / (classes * samples of the class)");
  d.label_weights =
      s.numbers_by_name("label_weights", config::at_least(0), "the same by hand, label: weight; a label that is not named weighs 1");
  if (d.class_weights != ClassWeights::none && !d.label_weights.empty())
    s.fault("label_weights", "'data.label_weights' and 'data.class_weights' say the same thing", "keep one of them");
  if (d.task == data::Task::regression)
    for (const char* key : {"class_weights", "label_weights"}) s.unused(key, "data.task");
}

void read_window(Section& data, DataSettings& d) {
  Section s =
      data.section("window", "cuts a long numeric table into sequences; the label or target of a window is the one of its last row");
  s.field("length", d.window.length, config::at_least(0), "rows of a window; 0: no windows");
  d.window.hop = d.window.length;
  s.field("hop", d.window.hop, config::at_least(d.window.length > 0 ? 1 : 0), "rows from one window to the next; the length unless given");
  if (d.window.hop > 0 && d.window.length == 0) s.fault("hop", "'data.window.hop' needs 'data.window.length'", "say how long a window is");
  if (d.max_length > 0 && d.window.length > d.max_length)
    s.fault("length", "'data.window.length' is above 'data.max_length'", "raise data.max_length, or leave it out");
}

void read_tokenizer(Section s, DataSettings& d) {
  using data::TokenizerKind;
  s.choice("type", d.tokenizer.kind,
           {{"byte", TokenizerKind::byte},
            {"character", TokenizerKind::character},
            {"whitespace", TokenizerKind::whitespace},
            {"word", TokenizerKind::word}},
           "what a token is: one of 256 bytes; a code point; what stands between spaces; a run of letters and digits, or one other sign");
  s.field("lowercase", d.tokenizer.lowercase, "lower-cases the text first");
  s.count("vocab_size", d.tokenizer.vocab_size, config::at_least(0),
          "the most tokens of the vocabulary, <unk> included, the most frequent first; 0: all");
  s.field("minimum_count", d.tokenizer.minimum_count, config::at_least(1), "tokens seen less often in the training part are <unk>");
  if (d.tokenizer.kind == TokenizerKind::byte)
    for (const char* key : {"vocab_size", "minimum_count"}) s.unused(key, "tokenizer.type");
  else if (d.tokenizer.vocab_size == 1 && !d.numeric())
    s.fault("vocab_size", "'tokenizer.vocab_size: 1' leaves nothing but <unk>", "use 0 for all tokens, or 2 and more");
  if (d.numeric())
    for (const char* key : {"type", "lowercase", "vocab_size", "minimum_count"}) s.unused(key, d.numeric_key);
  if (d.task == data::Task::tagging && d.tokenizer.kind == TokenizerKind::byte && !d.numeric())
    s.fault("type", "'tokenizer.type: byte' cannot be used with 'data.task: tagging', where a tag belongs to a word", "use whitespace");
}

// A name that stands in the list more than once; empty where none does.
std::string repeated(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  const auto at = std::adjacent_find(names.begin(), names.end());
  return at == names.end() ? std::string() : *at;
}

std::string numeric_key_of(Section& data, const DataSettings& d) {
  const Section train = data.section("train", {});
  const Source& s = d.train;
  for (const auto& [key, given] :
       {std::pair("features", !s.features.empty()), {"sequence", !s.sequence.empty()}, {"values", !s.values.empty()}})
    if (given) return train.given(key) ? train.path(key) : data.path(key);
  return d.window.length > 0 ? data.path("window") : "";
}

void check_sources(Section& data, const DataSettings& d) {
  for (const auto& [key, names] : {std::pair("target", &d.train.target), {"features", &d.train.features}})
    if (const auto twice = repeated(*names); !twice.empty())
      data.fault(key, fmt::format("'{}' names '{}' twice", data.path(key), twice), "name each column once");
  if (!d.train.given()) data.fault("path", "no training data: neither 'data.path' nor 'data.train.path' is given", "name the file");
  if (d.train.sequence.empty() && !d.train.step.empty() && d.window.length == 0)
    data.fault("step", "'data.step' needs 'data.sequence' or 'data.window'", "name the column that says which sequence a row belongs to");
  if (!d.train.values.empty() && (!d.train.sequence.empty() || !d.train.step.empty()))
    data.fault("values", "'data.values' does not go with 'data.sequence' or 'data.step': a line is a whole sequence", "keep one of them");
  if (d.task != data::Task::tagging) data.unused("ignored_tag", "data.task");
}

void check_format(Section& data, const DataSettings& d) {
  for (const data::Part part : {data::Part::train, data::Part::valid, data::Part::test}) {
    const Source& s = d.source(part);
    if (!s.given()) continue;
    Section own = data.section(name_of(part), {});
    Section& at = own.given("path") ? own : data;
    const Format format = d.format_of(s);
    if (format == Format::by_extension)
      at.fault("path", "the name of '" + s.path + "' does not say its format", "set data.format to csv, tsv, jsonl or hdf5");
    else if (!s.values.empty() && format != Format::jsonl && format != Format::hdf5)  // data convert makes HDF5 of them
      data.fault("values", "'data.values' needs arrays, which '" + s.path + "' cannot hold",
                 "use JSONL, or data.sequence with a long table");
    else if (!s.input.empty() && format != Format::hdf5)
      data.fault("input", "'data.input' names a data set of HDF5, which '" + s.path + "' is not", "remove it");
    else if (!s.input.empty() && d.window.length > 0)
      data.fault("window", "'data.window' cuts tables, and 'data.input' names sequences of HDF5", "keep one of them");
    if (s.values.empty() != d.train.values.empty())
      data.fault("values", "'data.values' is given for some parts only", "give it beside data.path");
  }
}

}  // namespace

DataSettings DataSettings::read(Section root) {
  using data::Empty, data::Missing, data::Task, data::Truncate;
  DataSettings d;
  Section s = root.section("data", "the data: files, columns, parts");
  s.choice("task", d.task, {{"classification", Task::classification}, {"regression", Task::regression}, {"tagging", Task::tagging}},
           "what is learned of a sequence: one class, one or several numbers, a class for each row");
  s.choice("format", d.format,
           {{"auto", Format::by_extension}, {"csv", Format::csv}, {"tsv", Format::tsv}, {"jsonl", Format::jsonl}, {"hdf5", Format::hdf5}},
           "format of the files; auto: by the ending of the name");
  Source common;
  common.target = {"target"};
  read_source(s, common);
  d.train = common;
  d.valid = d.test = common;
  d.valid.path.clear();
  d.test.path.clear();
  read_part(s, "train", d.train, d);
  read_part(s, "valid", d.valid, d);
  read_part(s, "test", d.test, d);
  read_split(s, d);
  s.count("max_length", d.max_length, config::between(0, 1 << 24),
          "the most rows of a sequence; 0: as many as the longest of the data has");
  s.choice("truncate", d.truncate,
           {{"error", Truncate::error}, {"right", Truncate::right}, {"left", Truncate::left}, {"middle", Truncate::middle}},
           "too long sequences: an error, or cut at the right end, the left end, in the middle");
  s.choice("empty", d.empty, {{"error", Empty::error}, {"skip", Empty::skip}}, "sequences without a row: an error, or left out");
  s.choice("missing", d.missing, {{"error", Missing::error}, {"zero_with_flag", Missing::zero_with_flag}},
           "numbers that are missing or not finite: an error, or 0 (the mean, where features are standardised) and 1 in a flag feature of "
           "their own");
  s.count("classes", d.classes, config::between(0, 1 << 20),
          "classification: above 0, labels must be whole numbers from 0 to classes - 1; 0: labels are words, found in the training part");
  if (d.task == Task::regression) s.unused("classes", "data.task");
  s.field("ignored_tag", d.ignored_tag, "tagging: rows with this tag are not learned");
  read_class_weights(s, d);
  s.field("standardize", d.standardize,
          "numeric sequences: subtract the mean of a feature and divide by its deviation, both of the training part");
  s.field("shuffle", d.shuffle, "another order of the training part in each epoch");
  read_window(s, d);
  d.numeric_key = numeric_key_of(s, d);
  read_tokenizer(root.section("tokenizer", "how text becomes tokens"), d);
  if (!d.numeric() && d.train.given() && d.format_of(d.train) != Format::hdf5) {
    const char* text = d.task == Task::tagging ? "tokens" : "text";
    const Section train = s.section("train", {});
    for (const char* key : {"standardize", "missing"}) s.unused(key, train.given(text) ? train.path(text) : s.path(text));
  }
  check_sources(s, d);
  check_format(s, d);
  return d;
}

const Source& DataSettings::source(data::Part part) const {
  return part == data::Part::train ? train : part == data::Part::valid ? valid : test;
}

Format DataSettings::format_of(const Source& s) const {
  if (format != Format::by_extension) return format;
  const std::string extension = std::filesystem::path(s.path).extension().string();
  if (extension == ".csv") return Format::csv;
  if (extension == ".tsv" || extension == ".tab") return Format::tsv;
  if (extension == ".jsonl" || extension == ".ndjson") return Format::jsonl;
  if (extension == ".h5" || extension == ".hdf5") return Format::hdf5;
  return Format::by_extension;
}

}  // namespace tapeformer::datasets
