// SPDX-License-Identifier: Apache-2.0
// A data set as the trainer sees it: three parts of samples that can be read in any order, and a description that goes into the checkpoint.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/data/batch.h"

namespace tapeformer::data {

enum class Task : uint8_t { classification, regression, tagging };
constexpr std::string_view name_of(Task t) {
  constexpr std::string_view names[] = {"classification", "regression", "tagging"};
  return names[static_cast<int>(t)];
}
enum class Part : uint8_t { train, valid, test };
constexpr std::string_view name_of(Part p) {
  constexpr std::string_view names[] = {"train", "valid", "test"};
  return names[static_cast<int>(p)];
}

enum class Truncate : uint8_t { error, right, left, middle };
enum class Empty : uint8_t { error, skip };
enum class Missing : uint8_t { error, zero_with_flag };

// Everything a model must know of its data to be built, saved and used on new samples.
struct Description {
  Task task = Task::classification;
  std::vector<std::string> labels;         // classes or tags, in natural order (2 before 10); empty for regression
  std::vector<std::string> target_names;   // regression: K names
  std::string tokenizer_json;              // token sequences: the tokenizer with its vocabulary
  int64_t vocab_size = 0;                  // 0: numeric sequences
  std::vector<std::string> feature_names;  // numeric sequences: F names, flag columns of zero_with_flag included
  Tensor feature_mean, feature_deviation;  // [F] float64, from the training part; undefined when data.standardize is off
  int64_t max_length = 0;                  // of a sequence, in rows
  Truncate truncate = Truncate::error;
  Empty empty = Empty::error;
  Missing missing = Missing::error;
  std::vector<double> class_weights;  // [classes], empty: all 1
  std::string fingerprint;            // of files and settings: a resumed run must see the same
  int64_t features() const { return static_cast<int64_t>(feature_names.size()); }
  int64_t outputs() const { return static_cast<int64_t>(task == Task::regression ? target_names.size() : labels.size()); }
};

// One sequence, encoded.
struct Sample {
  std::vector<int32_t> tokens;  // or
  std::vector<float> values;    // [length, F] row by row, standardised
  int32_t label = -1;           // classification
  std::vector<float> target;    // regression [K]
  std::vector<int32_t> tags;    // tagging [length], or ignored_target
  float weight = 1;
  std::string id;  // as the file names it, or its row number
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const Description& description() const = 0;
  virtual int64_t size(Part) const = 0;
  // Rows of a sample, without reading it.
  virtual int32_t length(Part, int64_t index) const = 0;
  // Overwrites `out`. Called from one thread at a time.
  virtual void read(Part, int64_t index, Sample& out) const = 0;
  // Lines about what was found: sizes, truncations, unknown tokens, skipped rows, overlap of the parts.
  virtual std::vector<std::string> report() const = 0;
};

// Packs samples of one data set; sample_ids name them for random draws (their row numbers).
Batch collate(const Description&, const std::vector<Sample>& samples, std::vector<uint32_t> sample_ids);
std::vector<Sample> read_samples(const Dataset&, Part, const std::vector<int64_t>& indices);
// The same collated; sample ids are the indices.
Batch read_batch(const Dataset&, Part, const std::vector<int64_t>& indices);

}  // namespace tapeformer::data
