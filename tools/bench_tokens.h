// SPDX-License-Identifier: Apache-2.0
// What the verbs of `bench` share: random tokens in place of a data set, and how time and memory are read.
#pragma once
#include <string>
#include <vector>

#include "framework/data/dataset.h"

namespace tapeformer::tools {

struct TokenSettings {
  int64_t samples = 0, length = 128;
  int64_t vocab = 32, classes = 10;
  bool ragged = false;
};

// Random tokens; every sample is of the same length, or of lengths uniform in [length/4, length].
class RandomTokens : public data::Dataset {
 public:
  explicit RandomTokens(const TokenSettings& settings);
  const data::Description& description() const override { return description_; }
  int64_t size(data::Part part) const override { return part == data::Part::train ? settings_.samples : 0; }
  int32_t length(data::Part, int64_t index) const override;
  void read(data::Part part, int64_t index, data::Sample& out) const override;
  std::vector<std::string> report() const override { return {}; }

 private:
  TokenSettings settings_;
  data::Description description_;
};

// Resident memory since it was made, in MiB.
class MemoryWatch {
 public:
  MemoryWatch();
  double peak_mib() const;

 private:
  double before_;
};

// Of times in any order.
struct Quartiles {
  double first = 0, median = 0, third = 0;
};
Quartiles quartiles(std::vector<double> values);

}  // namespace tapeformer::tools
