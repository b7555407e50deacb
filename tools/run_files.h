// SPDX-License-Identifier: Apache-2.0
// The small files of a run directory, and the rules for going on with a run under another config.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "framework/train/run_directory.h"
#include "framework/train/trainer.h"
#include "tools/experiment.h"

namespace tapeformer::tools {

// While it lives, log.txt gets every line from info up.
class RunLogFile {
 public:
  RunLogFile(Log&, const train::RunDirectory&);
  ~RunLogFile() { log_.set_file_sink({}); }
  RunLogFile(const RunLogFile&) = delete;
  RunLogFile& operator=(const RunLogFile&) = delete;

 private:
  Log& log_;
};
// config.yaml, overrides.txt, config.resolved.yaml, labels.json, tokenizer/tokenizer.json.
void write_start_files(const train::RunDirectory&, const config::Document&, const std::vector<std::string>& words,
                       const data::Description&);
// SHA-256 of config.resolved.yaml without its "  # from:" remarks: the same for the same settings, wherever each comes from.
std::string config_digest(const config::Document&);
int64_t parameters_of(train::Trainer&);

// config.resolved.yaml and overrides.txt of a run that goes on under new overrides.
void write_resumed_files(const train::RunDirectory&, const config::Document&, const std::vector<std::string>& overrides);

// run.json and command.txt: running, then finished, interrupted or failed.
class RunStatus {
 public:
  RunStatus(const train::RunDirectory&, const std::vector<std::string>& arguments, const train::Trainer&, std::string config_sha256);
  void finish(ExitCode) const;
  // Never throws: what made the run fail may refuse this file too.
  void failed(ExitCode, const std::string& message) const noexcept;

 private:
  void write(const std::string& status, ExitCode, const std::string& message) const;
  const train::RunDirectory& run_;
  std::vector<std::string> arguments_;
  const train::Trainer& trainer_;
  std::string config_sha256_, started_;
};

// What two configs (Document::values() of both, or given_values()) do not have alike; "nothing" where one of them lacks the key, as when a
// list became shorter.
struct Difference {
  std::string key, before, now;
};
std::vector<Difference> differences(const std::map<std::string, std::string>& before, const std::map<std::string, std::string>& now);

// A word as a shell takes it.
std::string shell_quoted(const std::string& word);

struct Resumption {
  config::Document document;
  Experiment before, experiment;  // as the checkpoint has it, and with the overrides
  std::vector<std::string> messages;
};
// The config inside the checkpoint with the overrides on top. Durations, logging, cadences, threads and device may differ; anything else is
// Error(checkpoint) with the list of differences.
Resumption plan_resumption(const io::Checkpoint&, const std::filesystem::path& file, const std::vector<std::string>& overrides, Log&);
// True when the duration asked for is over already; found without reading data.
bool nothing_left_to_do(const Experiment&, const io::Checkpoint&);

}  // namespace tapeformer::tools
