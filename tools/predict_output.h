// SPDX-License-Identifier: Apache-2.0
// Predictions as lines of CSV, TSV or JSON.
#pragma once
#include <string>
#include <vector>

#include "framework/core/packing.h"
#include "framework/data/dataset.h"
#include "framework/io/json_lines.h"
#include "tools/predict_input.h"

namespace tapeformer::tools {

struct OutputSettings {
  std::string format = "csv";  // csv, tsv, jsonl
  int64_t topk = 0;            // classification: the most probable classes as well
  bool proba = false;          // classification: the probability of every class as well
  bool targets = false;        // jsonl: what the sample says it should be as well, and null for outputs that are not finite
};

class PredictionLines {
 public:
  // The description must outlive it.
  PredictionLines(const data::Description&, OutputSettings);
  // Empty for JSON.
  std::string header() const;
  // One line a sample; `outputs` as the model gives them. Without targets Error(nonfinite) for outputs that are not finite.
  std::string lines(const std::vector<InputSample>&, const Packing&, const Tensor& outputs) const;

 private:
  std::string line(const std::vector<std::string>& cells) const;
  std::string finished(io::JsonLine, const data::Sample&) const;
  std::string numbers_text(const std::vector<std::string>& values) const;
  std::string class_line(const InputSample&, const std::vector<double>& logits) const;
  std::string number_line(const InputSample&, const std::vector<std::string>& values) const;
  std::string nonfinite_line(const InputSample&) const;
  std::string tag_line(const InputSample&, const std::vector<std::string>& tags) const;

  const data::Description& description_;
  OutputSettings settings_;
};

}  // namespace tapeformer::tools
