// SPDX-License-Identifier: Apache-2.0
// Averaged weights for evaluation: an exponential moving average of the parameters beside the ones that are trained.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/autograd/tape.h"
#include "framework/config/section.h"

namespace tapeformer::optim {

struct AveragingSettings {
  double decay = 0;  // 0 = off
  int64_t from = 0;
};

// Reads the section `averaging`.
AveragingSettings read_averaging_settings(config::Section averaging);

// After the first update done behind `from` the average is a copy of the parameters; after each later one
// average = decay average + (1 - decay) parameter. Whether there is an average says which of the two, so a resume needs only the averages.
class Averaging {
 public:
  explicit Averaging(const AveragingSettings& settings) : settings_(settings) {}

  bool on() const { return settings_.decay > 0; }
  // True from the first update after `from` that was done.
  bool started() const { return !averages_.empty(); }
  // Makes the tensors of trainable parameters that have none yet, as copies of their values. A resume does it before it fills them.
  void prepare(const std::vector<Parameter*>& parameters);
  // Back to before the first update that counts.
  void clear();
  // To be called once after each update (from 1). Does nothing up to update `from`.
  void update(const Execution& on, int64_t update, const std::vector<Parameter*>& parameters);
  // Exchanges the elements of the parameters with their averages; a second call undoes it.
  void swap(const std::vector<Parameter*>& parameters);
  // Every average under its parameter's name, in the order of the first update: for checkpoints, which also write into the tensors.
  void visit(const std::function<void(const std::string& parameter, Tensor& tensor)>& visitor);

 private:
  Tensor& average_of(const Parameter& parameter);

  AveragingSettings settings_;
  struct Average {
    std::string parameter;
    Tensor tensor;
  };
  std::vector<Average> averages_;
  std::map<std::string, size_t> index_;  // of a parameter's name in averages_
};

// The parameters hold their averages as long as this lives, also when an evaluation throws.
class AveragedWeights {
 public:
  AveragedWeights(Averaging& averaging, std::vector<Parameter*> parameters) : averaging_(averaging), parameters_(std::move(parameters)) {
    averaging_.swap(parameters_);
  }
  ~AveragedWeights() { averaging_.swap(parameters_); }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  Averaging& averaging_;
  std::vector<Parameter*> parameters_;
};

}  // namespace tapeformer::optim
