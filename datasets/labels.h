// SPDX-License-Identifier: Apache-2.0
// The labels of a classification or tagging task: their order, their numbers, and what is said of one that training never saw.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tapeformer::datasets {

// Numbers by value, before words; runs of digits inside words by value (x2 before x10); ties by text.
bool natural_less(std::string_view a, std::string_view b);

std::vector<std::string> sorted_labels(std::vector<std::string> labels);

class Labels {
 public:
  // Distinct labels; each has its place as its number.
  explicit Labels(std::vector<std::string> labels);
  const std::vector<std::string>& names() const { return names_; }
  // The number of a label, or -1.
  int32_t number(std::string_view label) const;

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, int32_t> numbers_;
};

// A label as typed, without blanks and line ends around it; with `classes` > 0 a whole number from 0 to classes - 1 ("2.0" is 2), else
// Error(data) naming `where`, the range and, where it looks so, that numbers begin at 0. A missing label is Error(data) too, and one with a
// NUL byte.
std::string canonical_label(std::string_view typed, int64_t classes, std::string_view where);

// Collects the rows with labels that training lacks; fail_if_any() throws Error(data) naming the labels with their first rows.
class UnknownLabels {
 public:
  void add(const std::string& label, int64_t row);
  void fail_if_any(std::string_view file, std::string_view column, const std::vector<std::string>& known) const;

 private:
  struct Rows {
    std::vector<int64_t> first;
    int64_t count = 0;
  };
  std::map<std::string, Rows> rows_;
};

}  // namespace tapeformer::datasets
