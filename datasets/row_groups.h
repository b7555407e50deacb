// SPDX-License-Identifier: Apache-2.0
// The rows of a long table by their sequences: which one each belongs to, and their order within it.
#pragma once
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "datasets/table.h"

namespace tapeformer::datasets {

class RowGroups {
 public:
  // By the columns `sequence` and `step` of the source, where it names them; Error(data) when the table lacks one. All rows of a table
  // without a column of sequences are one. The table must outlive this.
  RowGroups(const Table& table, const Source& source);
  // Takes the table's present row and returns the number of its sequence, counted in the order in which they begin. Error(data) when the
  // name or the step is missing.
  size_t add();
  const std::string& name(size_t sequence) const { return sequences_[sequence].name; }
  // The places of a sequence's rows in the order of their steps, as they came without a column of them. Error(data) for a step that
  // stands twice.
  std::vector<size_t> order(size_t sequence) const;

 private:
  struct Step {
    double value;
    int64_t row, line;
  };
  struct Sequence {
    std::string name;
    size_t rows = 0;
    std::vector<Step> steps;
  };
  const Table& table_;
  std::string step_name_;
  std::optional<size_t> sequence_, step_;  // columns
  std::vector<Sequence> sequences_;
  std::unordered_map<std::string, size_t> numbers_;
};

}  // namespace tapeformer::datasets
