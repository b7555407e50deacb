// SPDX-License-Identifier: Apache-2.0
// What the verbs of `bench` share: their sizes, and random tokens in place of a data set.
#pragma once
#include <string>
#include <vector>

#include "framework/data/dataset.h"
#include "framework/io/checkpoint_file.h"
#include "tools/command.h"
#include "tools/experiment.h"

namespace tapeformer::tools {

struct BenchSizes {
  std::vector<std::string> words;  // CONFIG and overrides
  int64_t batch = 0, length = 0, steps = 15, warmup = 5;
  int64_t vocab = 32, classes = 10;
  bool ragged = false, json = false, profile = false;
  std::string write_batches, save_start;  // for a comparison with another program: the same tokens, the same start
  int64_t batches() const { return warmup + steps; }
};
void add_bench_sizes(const Verb& verb, BenchSizes& sizes);

// The config, read as the other verbs read it; a batch or length of 0 becomes the config's. Error(usage) where its
// model is none of classes of tokens.
Experiment read_bench_experiment(Command& command, BenchSizes& sizes);

// Random tokens; every sample is of the same length, or of lengths uniform in [length/4, length].
class RandomTokens : public data::Dataset {
 public:
  explicit RandomTokens(const BenchSizes& sizes);
  const data::Description& description() const override { return description_; }
  int64_t size(data::Part part) const override { return part == data::Part::train ? sizes_.batch * sizes_.batches() : 0; }
  int32_t length(data::Part, int64_t index) const override;
  void read(data::Part part, int64_t index, data::Sample& out) const override;
  std::vector<std::string> report() const override { return {}; }

 private:
  BenchSizes sizes_;
  data::Description description_;
};

// For each step: the lengths [B], the labels [B] and the tokens [T] as int32.
void write_batches(const std::string& file, const RandomTokens& dataset, const BenchSizes& sizes);
// The parameters and buffers as a checkpoint file.
void save_start(const std::string& file, const nn::ModelState& model);

}  // namespace tapeformer::tools
