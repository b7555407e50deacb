// SPDX-License-Identifier: Apache-2.0
// Everything about a run that is not a tensor: how far it is, what was best, how patient it still is. With the seed it says which data and
// which random draws come next.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "framework/data/sampler.h"

namespace tapeformer::train {

struct RunState {
  int64_t step = 0;  // updates done
  data::SamplerPosition position;
  int64_t samples_seen = 0, tokens_seen = 0;
  double seconds = 0;  // of training so far, over all sittings
  // Sums since the last log line and since the start of the epoch.
  struct Sums {
    double loss = 0, count = 0, correct = 0, targets = 0;
    double auxiliary = 0;  // the part of loss that is the model's own
    int64_t samples = 0, tokens = 0;
  };
  Sums window, epoch;
  double gradient_norm = 0;  // of the last update
  // Control.
  double best_value = std::numeric_limits<double>::quiet_NaN();
  int64_t best_step = -1;
  double stopping_best = std::numeric_limits<double>::quiet_NaN();
  int64_t stopping_wait = 0;
  bool stopped_early = false;
  int64_t skips_in_a_row = 0, skips = 0;
  int64_t evaluated_step = -1;
  int64_t rolled_back_to = -1;  // the step of the checkpoint that the last rollback took
  bool planned = false;         // checkpoint.every or a new best asks for a checkpoint of this step: the run has one however it is stopped
};

}  // namespace tapeformer::train
