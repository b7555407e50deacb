// SPDX-License-Identifier: Apache-2.0
// The training loop: take the next batch, update, log, evaluate, save, until the duration, a limit or a signal ends it.
#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "framework/train/checkpoint.h"
#include "framework/train/disk_space.h"
#include "framework/train/run_log.h"
#include "framework/train/signals.h"
#include "framework/train/update.h"

namespace tapeformer::train {

struct TrainerParts {
  const TrainSettings& settings;
  nn::Model& model;
  const data::Dataset& dataset;
  RunDirectory& run;
  Execution on;
  Log& log;
  ProgressWriter& progress;
  SignalWatch& signals;
  std::string resolved_config, user_config, overrides, config_sha256;
  std::optional<std::chrono::steady_clock::time_point> deadline;  // of this sitting: saved by then, ExitCode::time_limit
};

// The batches of the updates; the data set must outlive it.
data::Sampler make_sampler(const TrainSettings&, const data::Dataset&);

// Updates that the duration makes on this data; nothing where only a time limits it, or only epochs of batches by tokens while the rate
// does not depend on their number.
std::optional<int64_t> total_updates(const TrainSettings&, const data::Dataset&);

class Trainer {
 public:
  explicit Trainer(TrainerParts);
  // Goes on from a checkpoint; call before run().
  void restore(const io::Checkpoint&, const std::string& file);
  // done, time_limit, interrupted or terminated; throws Error(nonfinite) by the policy. A run that is complete returns done and writes
  // nothing.
  ExitCode run();

  const RunState& state() const { return state_; }
  // As above, of this run.
  std::optional<int64_t> total_updates() const { return total_; }
  // The same where they are known, else by those of the first epoch; nothing where only a time limits the run.
  std::optional<int64_t> expected_updates() const;
  // Nothing is left to do, the final evaluation included.
  bool complete() const;
  // What the rest of the run will write.
  DiskNeed disk_need();
  nn::ModelState& model_state() { return updater_.model_state(); }

 private:
  bool updates_done() const;
  bool evaluation_pending() const;
  // What ends the sitting early: a signal or the deadline.
  std::optional<ExitCode> stop() const;
  void one_update();
  void after_update(const UpdateResult&);
  void evaluate_if_due();
  // With the averaged weights where there are some; nothing when a signal cut it short.
  bool evaluate_now();
  void judge(const Evaluation&);
  io::Checkpoint checkpoint();
  void save();
  void handle_nonfinite(const UpdateResult&);
  bool roll_back(const UpdateResult&);
  bool due(const Duration& every, double& last_time) const;
  bool end_of_epoch() const { return state_.position.cursor == 0; }
  void show_progress(const UpdateResult&);
  double seconds() const;

  TrainerParts parts_;
  Updater updater_;
  RunState state_;
  data::Sampler sampler_;
  int64_t updates_per_epoch_;  // of the first epoch; with batches by tokens others may have more or fewer
  std::optional<int64_t> total_;
  std::optional<data::SamplerPosition> end_;  // where the last epoch ends, if its updates were not counted
  std::optional<RunLog> log_;
  std::optional<Evaluation> last_evaluation_;
  double rate_ = 0;
  double began_, seconds_before_ = 0;  // of this sitting on a steady clock; of the sittings before
  double last_eval_time_, last_save_time_;
  int64_t unplanned_step_ = -1;  // the last checkpoint's, where it is none that is planned; else -1
  int64_t saved_step_ = -1;      // where the run is on disk exactly as it is now; -1: nowhere
  bool resumed_ = false;
  bool improved_ = false;                                              // since the last save
  int64_t steps_before_ = 0, tokens_before_ = 0, samples_before_ = 0;  // of the sittings before
};

}  // namespace tapeformer::train
