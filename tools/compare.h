// SPDX-License-Identifier: Apache-2.0
// The pieces of `tapeformer compare`: what is to be trained, one run of it, and the table.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/core/log.h"
#include "framework/train/metrics.h"
#include "tools/child_process.h"
#include "tools/experiment.h"

namespace tapeformer::tools {

// One variant with one seed, trained and evaluated.
struct RunResult {
  uint64_t seed = 0;
  std::filesystem::path directory;
  bool done = false;
  std::string failure;                 // why it is not done although it was tried
  int exit_code = 0;                   // of what failed
  std::vector<train::Metric> metrics;  // of the evaluated part, loss first
  int64_t step = -1;                   // of the evaluated checkpoint
  std::optional<double> tokens_per_s;  // the median over the log lines of training
  std::optional<double> peak_bytes;    // the most that the tensors of training took at a time
};
// The metric of this name, where there is one and it has a value.
std::optional<double> value_in(const std::vector<train::Metric>& metrics, const std::string& name);

struct VariantResult {
  std::string variant;
  std::string config;                           // the file: CONFIG, or the variant's own beside it that builds upon CONFIG
  std::vector<std::string> overrides;           // that make a run of this variant, its seed left out
  std::string refusal;                          // why it cannot run with this config
  std::map<std::string, std::string> settings;  // dotted key -> value, without the seed
  std::set<std::string> used;                   // the variants of its layers and groups of heads
  int64_t parameters = 0;
  double pairs = 0;             // looked at, as a share of all n x n with extra rows, mean over the samples evaluated and the layers
  std::vector<RunResult> runs;  // one for each seed
};

struct Baseline {
  std::string answer;  // always given
  std::vector<train::Metric> metrics;
};

struct Comparison {
  std::string config, split, metric, fingerprint;
  std::vector<std::string> overrides;
  std::vector<uint64_t> seeds;
  Baseline baseline;
  std::vector<VariantResult> variants;
  std::filesystem::path directory;  // of the runs and of the table
};

// Reads a config for each variant: NAME.yaml beside CONFIG where its base is CONFIG, else CONFIG with the variant's name as type. What it
// cannot do with this variant is its refusal. Error(usage) where an own file trains in another way than CONFIG.
std::vector<VariantResult> plan_variants(const std::string& config, const std::vector<std::string>& overrides,
                                         const std::vector<std::string>& names, Log&);
// Builds each variant's model on this data: parameters and pairs, or the refusal.
void measure_variants(const data::Dataset&, data::Part, std::vector<VariantResult>&);
// Always answering the commonest class or tag of the training part, or the mean of its targets.
Baseline baseline_of(const data::Dataset&, data::Part);
// Error(checkpoint) with what differs between the runs that exist already and what they would be now.
void refuse_changed_runs(const Comparison&);

// Trains and evaluates, or goes on where an earlier call was cut, or finds it done. `max_seconds`: of this sitting.
void do_run(ChildRunner&, const Comparison&, const std::vector<std::string>& global_flags, const VariantResult&, RunResult&,
            std::optional<double> max_seconds);
// What an earlier call found, if it finished this run.
bool read_result(const Comparison&, RunResult&);

std::string table_text(const Comparison&);
std::string table_csv(const Comparison&);
std::string table_json(const Comparison&);

}  // namespace tapeformer::tools
