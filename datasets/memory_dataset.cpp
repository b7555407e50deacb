// SPDX-License-Identifier: Apache-2.0
#include "datasets/memory_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/log.h"

namespace tapeformer::datasets {
namespace {

using data::Part;

template <class T>
std::vector<T>& assign(std::vector<T>& out, const std::vector<T>& all, int64_t first, int64_t count) {
  out.assign(all.begin() + first, all.begin() + first + count);
  return out;
}

}  // namespace

void SampleStore::count_tags(const std::vector<int32_t>& tags) {
  for (const int32_t tag : tags) {
    if (tag < 0) continue;
    if (static_cast<size_t>(tag) >= tag_counts_.size()) tag_counts_.resize(static_cast<size_t>(tag) + 1);
    ++tag_counts_[static_cast<size_t>(tag)];
  }
}

void SampleStore::add_outline(const data::Sample& s, int64_t row) {
  require(features_ == 0 && tokens_.empty(), "outlines are of tokens, and of all samples or none");
  count_tags(s.tags);
  lengths_.push_back(static_cast<int32_t>(s.tokens.size()));
  labels_.push_back(s.label);
  file_rows_.push_back(row);
  hashes_.push_back(XXH3_64bits(s.tokens.data(), s.tokens.size() * sizeof(int32_t)));
}

int64_t SampleStore::add_rows(const data::Sample& s) {
  const int64_t first = rows_;
  tokens_.insert(tokens_.end(), s.tokens.begin(), s.tokens.end());
  values_.insert(values_.end(), s.values.begin(), s.values.end());
  tags_.insert(tags_.end(), s.tags.begin(), s.tags.end());
  count_tags(s.tags);
  rows_ += features_ > 0 ? static_cast<int64_t>(s.values.size()) / features_ : static_cast<int64_t>(s.tokens.size());
  return first;
}

void SampleStore::add_stretch(int64_t first, int32_t length, const data::Sample& s, int64_t row) {
  starts_.push_back(first);
  lengths_.push_back(length);
  labels_.push_back(s.label);
  targets_.insert(targets_.end(), s.target.begin(), s.target.end());
  target_size_ = static_cast<int64_t>(s.target.size());
  weights_.push_back(s.weight);
  file_rows_.push_back(row);
  if (!s.id.empty()) ids_.resize(lengths_.size());
  if (!ids_.empty()) {
    ids_.resize(lengths_.size());
    ids_.back() = s.id;
  }
}

void SampleStore::add(const data::Sample& s, int64_t row) {
  const int64_t first = add_rows(s);
  add_stretch(first, static_cast<int32_t>(rows_ - first), s, row);
}

void SampleStore::read(int64_t index, data::Sample& out) const {
  require(index >= 0 && index < size() && hashes_.empty(), "sample {} of {}{}", index, size(), hashes_.empty() ? "" : ", outlines");
  const auto i = static_cast<size_t>(index);
  const int64_t first = starts_[i], count = lengths_[i];
  if (features_ > 0) {
    assign(out.values, values_, first * features_, count * features_);
    out.tokens.clear();
  } else {
    assign(out.tokens, tokens_, first, count);
    out.values.clear();
  }
  if (tags_.empty()) out.tags.clear();
  else assign(out.tags, tags_, first, count);
  out.label = labels_[i];
  assign(out.target, targets_, index * target_size_, target_size_);
  out.weight = weights_[i];
  out.id = ids_.empty() || ids_[i].empty() ? std::to_string(file_rows_[i]) : ids_[i];
}

uint64_t SampleStore::hash(int64_t index) const {
  const auto i = static_cast<size_t>(index);
  if (!hashes_.empty()) return hashes_[i];
  const auto count = static_cast<size_t>(lengths_[i]);
  return features_ > 0 ? XXH3_64bits(values_.data() + starts_[i] * features_, count * static_cast<size_t>(features_) * sizeof(float))
                       : XXH3_64bits(tokens_.data() + starts_[i], count * sizeof(int32_t));
}

int32_t SampleStore::longest() const { return lengths_.empty() ? 0 : *std::max_element(lengths_.begin(), lengths_.end()); }

std::vector<int64_t> MemoryDataset::label_counts(Part part) const {
  const SampleStore& s = store(part);
  std::vector<int64_t> counts;
  if (description_.task == data::Task::tagging) counts = s.tag_counts();
  counts.resize(description_.labels.size());
  if (description_.task == data::Task::classification)
    for (int64_t i = 0; i < s.size(); ++i)
      if (s.label(i) >= 0) ++counts[static_cast<size_t>(s.label(i))];
  return counts;
}

void MemoryDataset::report_parts() {
  std::array<std::unordered_set<uint64_t>, 3> contents;
  for (size_t p = 0; p < 3; ++p)
    for (int64_t i = 0; i < stores_[p].size(); ++i) contents[p].insert(stores_[p].hash(i));
  for (const auto& [a, b] : {std::pair(Part::train, Part::valid), std::pair(Part::train, Part::test), std::pair(Part::valid, Part::test)}) {
    const auto& other = contents[static_cast<size_t>(a)];
    int64_t shared = 0;
    for (int64_t i = 0; i < size(b); ++i) shared += other.count(store(b).hash(i)) > 0;
    if (shared > 0)
      say(fmt::format("warning: {} of the {} samples of {} stand in {} too (the same sequence)", shared, size(b), name_of(b), name_of(a)));
  }
  for (const Part part : {Part::train, Part::valid, Part::test}) {
    if (size(part) == 0 || description_.labels.empty()) continue;
    std::vector<std::string> lacking;
    const std::vector<int64_t> counts = label_counts(part);
    for (size_t c = 0; c < counts.size(); ++c)
      if (counts[c] == 0) lacking.push_back(printable(description_.labels[c]));
    const size_t shown = std::min<size_t>(lacking.size(), 10);
    if (!lacking.empty())
      say(fmt::format("warning: {} has no sample of {} of the {} labels: {}{}", name_of(part), lacking.size(), counts.size(),
                      fmt::join(lacking.begin(), lacking.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                      shown < lacking.size() ? ", ..." : ""));
  }
}

}  // namespace tapeformer::datasets
