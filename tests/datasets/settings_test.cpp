// SPDX-License-Identifier: Apache-2.0
#include "datasets/settings.h"

#include "tests/datasets/files.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::datasets;
using namespace tapeformer::testing;

TEST_CASE("settings of files by part, with common columns") {
  const Directory directory;
  const DataSettings d = settings_of(R"(
data:
  task: classification
  text: Source
  label: Target
  train: {path: DIR/a.tsv}
  valid: {path: DIR/b.jsonl, label: y}
  test: {path: DIR/c.csv, encoding: latin-1}
  truncate: middle
  class_weights: balanced
  max_length: 2k
tokenizer: {type: word, lowercase: true, vocab_size: 64}
)",
                                     directory);
  CHECK(d.train.text == "Source");
  CHECK(d.valid.label == "y");
  CHECK(d.test.label == "Target");
  CHECK(d.test.encoding == io::Encoding::latin1);
  CHECK(d.format_of(d.train) == Format::tsv);
  CHECK(d.format_of(d.valid) == Format::jsonl);
  CHECK(d.truncate == data::Truncate::middle);
  CHECK(d.class_weights == ClassWeights::balanced);
  CHECK(d.max_length == 2000);
  CHECK(d.tokenizer.kind == data::TokenizerKind::word);
  CHECK(d.tokenizer.vocab_size == 64);
  CHECK_FALSE(d.numeric());
}

TEST_CASE("one path stands for the training part") {
  const Directory directory;
  const DataSettings d =
      settings_of("data: {path: DIR/a.csv, target: [x, y], task: regression, split: {valid: 0.1, test: 0.2, seed: 4}}\n", directory);
  CHECK(d.train.path == directory / "a.csv");
  CHECK_FALSE(d.valid.given());
  CHECK(d.split.seed == 4);
  CHECK(d.train.target == std::vector<std::string>{"x", "y"});
}

TEST_CASE("faults of the settings are found before any file is read") {
  const Directory directory;
  struct {
    const char* yaml;
    const char* says;
  } const table[] = {
      {"data: {task: classification}\n", "data.train.path"},
      {"data: {path: DIR/a.bin}\n", "data.format"},
      {"data: {path: DIR/a.csv, split: {valid: 0.6, test: 0.5}}\n", "data.split.test"},
      {"data: {path: DIR/a.csv, split: {valid: 0.1}, valid: {path: DIR/b.csv}}\n", "data.valid.path"},
      {"data: {path: DIR/a.csv, task: tagging}\ntokenizer: {type: byte}\n", "tokenizer.type"},
      {"data: {path: DIR/a.csv, task: regression, class_weights: balanced}\n", "data.class_weights"},
      {"data: {path: DIR/a.csv, class_weights: balanced, label_weights: {a: 2}}\n", "data.label_weights"},
      {"data: {path: DIR/a.csv, label_weights: {a: -2}}\n", "label_weights"},
      {"data: {path: DIR/a.csv, window: {hop: 2}}\n", "data.window.length"},
      {"data: {path: DIR/a.csv, window: {length: 20}, max_length: 10}\n", "data.max_length"},
      {"data: {path: DIR/a.csv, step: t}\n", "data.sequence"},
      {"data: {path: DIR/a.csv, truncate: both}\n", "truncate"},
      {"data: {path: DIR/a.csv, labell: x}\n", "label"},
      {"data: {path: DIR/a.h5, input: /x, window: {length: 2}}\n", "'data.window' cuts tables, and 'data.input'"},
      {"data: {path: DIR/a.csv, test: {path: DIR/b.h5}}\n", "b.h5', HDF5, but the training part is '"},
      {"data: {train: {path: DIR/a.h5}, valid: {path: DIR/b.jsonl}}\n", "'data.valid.path' is '"},
      {"data: {train: {path: DIR/a.h5}, valid: {path: DIR/b.jsonl}}\n", "a.h5', HDF5"},
      {"data: {path: DIR/a.csv}\ntokenizer: {vocab_size: 1}\n", "tokenizer.vocab_size"},
      {"data: {path: DIR/a.csv}\ntokenizer: {minimum_count: 0}\n", "minimum_count"},
      {"data: {path: DIR/a.csv}\ntokenizer: {type: byte, vocab_size: 100}\n",
       "'tokenizer.vocab_size' has no meaning with 'tokenizer.type: byte'"},
      {"data: {path: DIR/a.csv, values: v}\n", "'data.values' needs arrays"},
      {"data: {path: DIR/a.csv, features: [a]}\ntokenizer: {lowercase: true}\n",
       "'tokenizer.lowercase' has no meaning with 'data.features: [a]"},
      {"data: {path: DIR/a.csv, window: {length: 3}}\ntokenizer: {type: word}\n", "'tokenizer.type' has no meaning with 'data.window'"},
      {"data: {train: {path: DIR/a.csv, features: [a]}}\ntokenizer: {type: word}\n",
       "'tokenizer.type' has no meaning with 'data.train.features: [a]'"},
      {"data: {path: DIR/a.csv, text: words, standardize: false}\n", "'data.standardize' has no meaning with 'data.text: words'"},
      {"data: {path: DIR/a.csv, task: regression, target: [y, x, y]}\n", "'data.target' names 'y' twice"},
      {"data: {path: DIR/a.csv, features: [a, a]}\n", "'data.features' names 'a' twice"},
      {"data: {path: DIR/a.csv, split: {seed: 3}}\n", "'data.split.seed' has no meaning with 'data.split.valid: 0"},
      {"data: {path: DIR/a.csv, task: regression, classes: 3}\n", "'data.classes' has no meaning with 'data.task: regression'"},
      {"data: {path: DIR/a.csv, test: {path: DIR/b}}\n", "test.yaml:1:"},
      {"data: {path: DIR/a.csv, ignored_tag: O}\n", "'data.ignored_tag' has no meaning with 'data.task: classification'"},
  };
  for (const auto& row : table) {
    CAPTURE(row.yaml);
    const Fault fault = fault_of([&] { settings_of(row.yaml, directory); });
    CHECK(fault.code == 2);
    CHECK(fault.says("test.yaml:"));
    CAPTURE(fault.text);
    CHECK(fault.says(row.says));
  }
}
