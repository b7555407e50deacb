// SPDX-License-Identifier: Apache-2.0
// The sections of a config that steer a run: run, train, eval, checkpoint, log, device.
#pragma once
#include <string>

#include "framework/config/section.h"
#include "framework/core/device.h"
#include "framework/core/dtype.h"
#include "framework/data/dataset.h"
#include "framework/optim/averaging.h"
#include "framework/optim/optimizer.h"
#include "framework/optim/schedule.h"
#include "framework/train/duration.h"

namespace tapeformer::train {

enum class OnNonfinite : uint8_t { stop, skip, rollback };
enum class BatchNormSource : uint8_t { running, batch };

struct EarlyStopping {
  int64_t patience = 0;  // evaluations without improvement; 0: off
  double min_delta = 0;
  std::string metric;    // "valid/loss"
};

struct TrainSettings {
  uint64_t seed = 1;
  std::string name = "run";
  // train
  Duration duration;
  int64_t batch_size = 32, batch_tokens = 0;
  int64_t micro_batch_size = 0;  // 0: the whole batch at once
  Dtype dtype = Dtype::f32;
  OnNonfinite on_nonfinite = OnNonfinite::stop;
  int64_t max_skips = 10;
  EarlyStopping early_stopping;
  std::vector<std::string> frozen;  // names of parameters and buffers that stay as they are; may have *
  bool shuffle = true;              // data.shuffle
  // eval
  Duration eval_every{.epochs = 1, .updates = {}, .seconds = {}};
  int64_t eval_batch_size = 0;  // 0: as train.batch_size
  BatchNormSource eval_batchnorm = BatchNormSource::running;
  // checkpoint
  Duration checkpoint_every{.epochs = 1, .updates = {}, .seconds = {}};
  int64_t keep_last = 2;
  std::string best;  // metric; empty: none
  // log
  int64_t log_every = 50;
  bool tensorboard = true;
  // device
  Device device = Device::cpu;
  int threads = 0;  // 0: as many as there are cores

  optim::OptimizerSettings optimizer;
  optim::ScheduleSettings schedule;
  optim::AveragingSettings averaging;
};

// The metrics that best and early stopping may look at follow from the task; early stopping needs a validation part.
TrainSettings read_train_settings(config::Section root, data::Task task, bool has_valid_part);

}  // namespace tapeformer::train
