// SPDX-License-Identifier: Apache-2.0
// The small files of a run directory, and the rules for going on with a run under another config.
#pragma once
#include <string>
#include <vector>

#include "framework/train/run_directory.h"
#include "framework/train/trainer.h"
#include "tools/experiment.h"

namespace tapeformer::tools {

// log.txt gets every line from info up.
void log_to(Log&, const train::RunDirectory&);
// config.yaml, overrides.txt, config.resolved.yaml, labels.json, tokenizer/tokenizer.json.
void write_start_files(const train::RunDirectory&, const config::Document&, const std::vector<std::string>& words, const data::Description&);
// Removes the directory of a run that never began.
void discard_if_unused(train::RunDirectory&);
int64_t parameters_of(train::Trainer&);

// run.json and command.txt: running while it lives, then finished, interrupted or failed.
class RunStatus {
 public:
  RunStatus(const train::RunDirectory&, const std::vector<std::string>& arguments, const train::Trainer&);
  ~RunStatus();  // failed unless finish() was called
  void finish(ExitCode);

 private:
  void write(const std::string& status, int exit_code) const;
  const train::RunDirectory& run_;
  std::vector<std::string> arguments_;
  const train::Trainer& trainer_;
  std::string started_;
  bool finished_ = false;
};

struct Resumption {
  config::Document document;
  Experiment experiment;
  std::vector<std::string> messages;
};
// The config inside the checkpoint with the overrides on top. Durations, logging, cadences, threads and device may differ; anything else is
// Error(checkpoint) with the list of differences.
Resumption plan_resumption(const io::Checkpoint&, const std::filesystem::path& file, const std::vector<std::string>& overrides, Log&);
// True when the duration asked for is over already; found without reading data.
bool nothing_left_to_do(const Experiment&, const io::Checkpoint&);

}  // namespace tapeformer::tools
