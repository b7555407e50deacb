// SPDX-License-Identifier: Apache-2.0
// What a run writes about itself while it goes on: metrics.jsonl, epochs.csv, event files, the progress line.
#pragma once
#include <map>
#include <optional>
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
  // resumed: the state that a run goes on from. Event files drop what earlier ones hold of later steps, and the first speeds are those of
  // what is done from here on.
  RunLog(const RunDirectory&, bool tensorboard, const std::optional<RunState>& resumed);
  // The line of the window that ends with this update.
  void train_line(const RunState&, const UpdateResult&);
  void evaluation_line(const RunState&, data::Part, const Evaluation&);
  // The row of the epoch that ends with this update; `valid` may be null.
  void epoch_row(const RunState&, double rate, const Evaluation* valid);

 private:
  void events(data::Part, int64_t step, const std::map<std::string, double>&);

  const RunDirectory& run_;
  bool tensorboard_;
  std::map<data::Part, int64_t> purge_from_;  // steps; empty in a new run
  std::map<data::Part, io::EventFile> event_files_;
  // Of the clock, and of the sums that a sitting before has counted.
  struct Began {
    double seconds;
    int64_t samples = 0, tokens = 0;
  };
  struct Speeds {
    double seconds, samples, tokens;  // the last two a second
  };
  static Speeds speeds(const RunState::Sums&, const Began&);
  Began window_, epoch_;
};

}  // namespace tapeformer::train
