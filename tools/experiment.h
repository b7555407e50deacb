// SPDX-License-Identifier: Apache-2.0
// A config read as a whole: every component's settings. The only place that knows all sections.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "datasets/registry.h"
#include "framework/config/document.h"
#include "framework/core/log.h"
#include "framework/core/parallel.h"
#include "framework/io/checkpoint_file.h"
#include "framework/nn/model.h"
#include "framework/train/checkpoint.h"
#include "framework/train/settings.h"
#include "models/settings.h"

namespace tapeformer::tools {

struct Experiment {
  datasets::DataSettings data;
  models::ModelSettings model;
  train::TrainSettings train;
};

// Reads every section; throws the whole report when there is a fault; warnings go to the log.
Experiment read_experiment(config::Document&, Log&);

// The config that a checkpoint holds with `overrides` over it, and what it says. Error(checkpoint) where the file holds none, or none that
// this version reads; faults of the overrides are a config's. To look at it, this machine need not have what it takes to run it.
enum class Use : uint8_t { run, look };
struct StoredConfig {
  config::Document document;
  Experiment experiment;
};
StoredConfig stored_config(const io::Checkpoint&, const std::filesystem::path& file, const std::vector<std::string>& overrides, Log&,
                           Use use = Use::run);

// The first fault of a config's report without its place, or the whole of another message's first line: what a table has room for.
std::string first_fault(const std::string& report);

// Threads as the settings say.
std::unique_ptr<ThreadPool> make_threads(const train::TrainSettings&);
// With what train.frozen names frozen. Error(usage) where it names nothing of the model or all of it, unless the model is only looked at.
std::unique_ptr<nn::Model> make_model(const Experiment&, const data::Description&, Use use = Use::run);

// What the data would say, from the config where it does, else from these numbers or their defaults; nothing is read. A number that the
// config has no use for is Error(usage).
struct Assumed {
  int64_t length = 0, vocab = 0, classes = 0, features = 0;
};
data::Description assumed_description(const Experiment&, const Assumed&);

// A trained model from a run (its best checkpoint, or the last) or a checkpoint file.
struct Trained {
  std::filesystem::path file;
  io::Checkpoint checkpoint;
  Experiment experiment;
  data::Description description;
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<nn::Model> model;
  Execution on;
  std::string weights;  // "averaged" or "raw"
};
// weights: "", "ema" or "raw".
Trained load_trained(const std::string& run_or_file, const std::string& weights, const std::vector<std::string>& overrides, Log&);
std::filesystem::path checkpoint_of(const std::string& run_or_file, Log&);

}  // namespace tapeformer::tools
