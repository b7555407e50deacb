// SPDX-License-Identifier: Apache-2.0
// What a config says of its data, in the sections `data` and `tokenizer`. Reading it touches no data file.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/section.h"
#include "framework/data/dataset.h"
#include "framework/data/tokenizer.h"
#include "framework/io/csv.h"

namespace tapeformer::datasets {

enum class Format : uint8_t { by_extension, csv, tsv, jsonl, hdf5 };

// One file and the names of its columns; empty names are not used.
struct Source {
  std::string path;
  io::Encoding encoding = io::Encoding::utf8;
  std::string text = "text";        // classification and regression: the text
  std::string tokens = "tokens";    // tagging: the words of a sequence,
  std::string tags = "tags";        // and as many tags
  std::string label = "label";      // classification
  std::vector<std::string> target;  // regression; default: "target"
  std::vector<std::string> features;
  std::string values;          // JSONL: the key with the rows of a numeric sequence
  std::string input;           // HDF5 in a layout of its own: the data set with the sequences
  std::string sequence, step;  // a long table: whose row it is, and its place
  std::string id, weight;
  bool given() const { return !path.empty(); }
};

struct Split {
  double valid = 0, test = 0;
  uint64_t seed = 0;
};

struct Window {
  int64_t length = 0, hop = 0;  // length 0: none
  // Whole windows in so many rows, at 0, hop, 2 hop, ...; and the rows behind the last of them.
  int64_t count(int64_t rows) const { return rows < length ? 0 : (rows - length) / hop + 1; }
  int64_t left_over(int64_t rows) const { return count(rows) == 0 ? rows : rows - (count(rows) - 1) * hop - length; }
  // How many of those windows row `r` stands in.
  int64_t covering(int64_t r, int64_t rows) const {
    const int64_t first = r < length ? 0 : (r - length) / hop + 1, last = std::min(r / hop, count(rows) - 1);
    return std::max<int64_t>(0, last - first + 1);
  }
};

enum class ClassWeights : uint8_t { none, balanced };

struct DataSettings {
  data::Task task = data::Task::classification;
  Format format = Format::by_extension;
  Source train, valid, test;  // `data.path` and the columns beside it stand for every part that does not say its own
  Split split;
  int64_t max_length = 0;  // 0: the longest sequence of the data
  data::Truncate truncate = data::Truncate::error;
  data::Empty empty = data::Empty::error;
  data::Missing missing = data::Missing::error;
  int64_t classes = 0;  // > 0: labels are the whole numbers 0 .. classes - 1
  std::string ignored_tag;
  ClassWeights class_weights = ClassWeights::none;
  std::vector<std::pair<std::string, double>> label_weights;  // instead of class_weights
  bool standardize = true;
  bool shuffle = true;
  Window window;
  data::TokenizerSettings tokenizer;

  // `root` is the top of the config.
  static DataSettings read(config::Section root);
  const Source& source(data::Part part) const;
  Format format_of(const Source&) const;
  // The key that makes the sequences numeric, rows of a long table or arrays of JSONL, as the config gives it; empty where none does.
  std::string numeric_key;
  bool numeric() const { return !numeric_key.empty(); }
};

}  // namespace tapeformer::datasets
