// SPDX-License-Identifier: Apache-2.0
// A long table in memory: rows of numbers grouped into sequences, with what is to be learned of each row. The lines of JSONL whose arrays
// hold whole sequences become the same.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "datasets/settings.h"

namespace tapeformer::datasets {

// What a row says beside its features. A missing weight or target is the fault of the row that is used for it.
struct LongRow {
  std::string label;  // class or tag; canonical, empty when missing
  std::vector<double> targets;
  double weight = 1;
  int64_t row = 0, line = 0;
};

struct LongSequence {
  std::string name;            // empty for a table without a column of sequences
  std::string id;              // by data.id, in the first row of the file; the name unless given
  std::vector<double> values;  // [rows, features]
  std::vector<LongRow> rows;
};

struct LongTable {
  std::string path;
  std::vector<std::string> features;
  std::vector<LongSequence> sequences;  // in the order in which they begin; their rows in the order of `step`
  int64_t empty = 0;                    // sequences without rows, left out
  std::string where(const LongRow& row) const;
};

// `features`: the columns a trained model expects; empty: those of the source, or all that have no other use. Error(data) for every fault
// but numbers that are missing or not finite, unless the settings refuse them: then with their place and count.
LongTable read_long_table(const DataSettings&, const Source&, const std::vector<std::string>& features);

}  // namespace tapeformer::datasets
