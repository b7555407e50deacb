// SPDX-License-Identifier: Apache-2.0
// A data set whose samples lie in memory, flat: what the tables are read into.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/dataset.h"

namespace tapeformer::datasets {

// The samples of one part.
class SampleStore {
 public:
  // Values per row of numeric sequences; 0 for tokens.
  explicit SampleStore(int64_t features = 0) : features_(features) {}
  // An empty id stands for `row`, the sample's row in its file.
  void add(const data::Sample&, int64_t row);
  // For windows: rows that are stored once, and samples that each are a stretch of them. add_rows returns the place of the first.
  int64_t add_rows(const data::Sample&);
  // Keeps what is to be known of a sample without its contents: length, label and hash. For all samples of a store or none.
  void add_outline(const data::Sample&, int64_t row);
  void add_stretch(int64_t first, int32_t length, const data::Sample& rest, int64_t row);
  int64_t size() const { return static_cast<int64_t>(lengths_.size()); }
  int32_t length(int64_t index) const { return lengths_[static_cast<size_t>(index)]; }
  int64_t row(int64_t index) const { return file_rows_[static_cast<size_t>(index)]; }
  // True when no sample counts in the loss; not known of outlines.
  bool weightless() const {
    return !weights_.empty() && std::all_of(weights_.begin(), weights_.end(), [](float w) { return w == 0; });
  }
  int32_t label(int64_t index) const { return labels_[static_cast<size_t>(index)]; }
  // Rows with each tag; shorter than the labels where the last ones never occur.
  const std::vector<int64_t>& tag_counts() const { return tag_counts_; }
  void read(int64_t index, data::Sample& out) const;
  // Of the contents of the sequence, not of its label.
  uint64_t hash(int64_t index) const;
  int32_t longest() const;

 private:
  int64_t features_;
  std::vector<int32_t> tokens_;
  std::vector<float> values_;
  std::vector<int32_t> tags_;
  std::vector<int64_t> starts_;  // rows
  std::vector<int32_t> lengths_;
  std::vector<int32_t> labels_;
  std::vector<float> targets_;
  std::vector<float> weights_;
  std::vector<int64_t> file_rows_;
  std::vector<std::string> ids_;  // empty when no sample has one
  std::vector<int64_t> tag_counts_;
  std::vector<uint64_t> hashes_;  // of outlines
  void count_tags(const std::vector<int32_t>& tags);
  int64_t target_size_ = 0, rows_ = 0;
};

class MemoryDataset : public data::Dataset {
 public:
  const data::Description& description() const override { return description_; }
  int64_t size(data::Part part) const override { return store(part).size(); }
  int32_t length(data::Part part, int64_t index) const override { return store(part).length(index); }
  void read(data::Part part, int64_t index, data::Sample& out) const override { store(part).read(index, out); }
  std::vector<std::string> report() const override { return report_; }

  data::Description& description() { return description_; }
  SampleStore& store(data::Part part) { return stores_[static_cast<size_t>(part)]; }
  const SampleStore& store(data::Part part) const { return stores_[static_cast<size_t>(part)]; }
  void say(std::string line) { report_.push_back(std::move(line)); }
  // Samples of each label, or rows of each tag.
  std::vector<int64_t> label_counts(data::Part part) const;
  // Sequences that stand in two parts, and classes a part lacks, as lines of the report.
  void report_parts();

 private:
  data::Description description_;
  std::array<SampleStore, 3> stores_;
  std::vector<std::string> report_;
};

}  // namespace tapeformer::datasets
