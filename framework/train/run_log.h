// SPDX-License-Identifier: Apache-2.0
// What a run writes about itself while it goes on: metrics.jsonl, epochs.csv, event files, the progress line.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "framework/io/event_file.h"
#include "framework/train/evaluator.h"
#include "framework/train/progress.h"
#include "framework/train/run_directory.h"
#include "framework/train/state.h"
#include "framework/train/update.h"

namespace tapeformer::train {

class RunLog {
 public:
  // resumed_at >= 0: event files drop what earlier ones hold after that step.
  RunLog(const RunDirectory&, bool tensorboard, int64_t resumed_at);
  // The line of the window that ends with this update.
  void train_line(const RunState&, const UpdateResult&);
  void evaluation_line(const RunState&, data::Part, const Evaluation&);
  // The row of the epoch that ends with this update; `valid` may be null.
  void epoch_row(const RunState&, double rate, const Evaluation* valid);

 private:
  void events(data::Part, int64_t step, const std::map<std::string, double>&);

  const RunDirectory& run_;
  bool tensorboard_;
  int64_t resumed_at_;
  std::map<data::Part, io::EventFile> event_files_;
  double window_began_;  // seconds of a steady clock
  double epoch_began_;
};

}  // namespace tapeformer::train
