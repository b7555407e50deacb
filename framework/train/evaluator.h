// SPDX-License-Identifier: Apache-2.0
// One pass over a part of the data without learning: loss and metrics. It leaves the model as it was.
#pragma once
#include <functional>
#include <optional>

#include "framework/data/dataset.h"
#include "framework/nn/model.h"
#include "framework/train/metrics.h"
#include "framework/train/settings.h"

namespace tapeformer::train {

struct EvaluationSettings {
  Execution on;
  Dtype dtype = Dtype::f32;
  int64_t batch_size = 32;
  int64_t step = 0;                                      // of the model: a BatchNorm frozen from a step on stays frozen
  BatchNormSource batchnorm = BatchNormSource::running;  // running, or batch: each batch's own statistics
  std::function<bool()> cancelled;                       // asked between batches
  // Called with one batch of the part after the other and what the model gave for it; the samples may be taken.
  std::function<void(std::vector<data::Sample>& samples, const data::Batch&, const Tensor& outputs)> each_batch;
};

struct Evaluation {
  std::vector<Metric> values;  // loss first
  std::optional<ClassificationMetrics> classes;  // of classes and tags
  std::optional<RegressionMetrics> numbers;      // of a regression
  int64_t samples = 0, tokens = 0, batches = 0;
  std::optional<double> value(std::string_view metric) const;
};

// Nothing when it was cancelled.
std::optional<Evaluation> evaluate(nn::Model&, const data::Dataset&, data::Part, const EvaluationSettings&);

// Replaces the running statistics of every BatchNorm that is not frozen by the average over one pass through the training part; the number
// of batches.
int64_t recalibrate(nn::Model&, const data::Dataset&, const EvaluationSettings&);

}  // namespace tapeformer::train
