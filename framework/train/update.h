// SPDX-License-Identifier: Apache-2.0
// One update: the batch's micro-batches forward and backward, the gradient's size and clipping, the optimiser, the averages.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/data/dataset.h"
#include "framework/nn/model.h"
#include "framework/train/settings.h"

namespace tapeformer::train {

struct UpdateResult {
  double loss = 0, count = 0;  // sum of the losses, and what it is divided by
  std::optional<double> auxiliary;  // the model's own part of the loss, where it has one
  int64_t correct = 0, targets = 0;
  int64_t samples = 0, tokens = 0;
  double gradient_norm = 0;  // of the mean loss, before clipping
  double rate = 0;
  std::string not_finite;  // what was not finite and in which samples; empty when the update was done
};

class Updater {
 public:
  Updater(const TrainSettings&, nn::Model&, const data::Dataset&, const Execution&);
  // Does update `step` (from 1) on these samples of the training part. When the loss or a gradient is not finite nothing changes but, for
  // the policy stop, BatchNorm's statistics.
  UpdateResult update(int64_t step, int64_t total_updates, const std::vector<int64_t>& samples);

  // Updates report their time and work to it from now on; null: no longer.
  void set_profile(Profile* profile) { profile_ = profile; }
  nn::ModelState& model_state() { return state_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  optim::Averaging& averaging() { return averaging_; }

 private:
  data::Batch read(const std::vector<int64_t>& samples) const;
  void backward(int64_t step, const data::Batch&, const GroupTotals*, UpdateResult& result);
  GroupTotals totals(const std::vector<data::Batch>&) const;
  std::vector<std::vector<int64_t>> micro_batches(const std::vector<int64_t>& samples) const;
  std::string name_of(int64_t sample) const;
  std::string diagnose(int64_t step, const std::vector<int64_t>& samples);

  const TrainSettings& settings_;
  nn::Model& model_;
  const data::Dataset& dataset_;
  Execution on_;
  nn::ModelState state_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  optim::Averaging averaging_;
  Profile* profile_ = nullptr;
};

}  // namespace tapeformer::train
