// SPDX-License-Identifier: Apache-2.0
#include "tools/experiment.h"

#include <algorithm>
#include <thread>

#include "framework/config/fault.h"
#include "framework/nn/freeze.h"
#include "framework/nn/init.h"
#include "framework/train/run_directory.h"
#include "models/registry.h"

namespace tapeformer::tools {

Experiment read_experiment(config::Document& document, Log& log) {
  Experiment e;
  const config::Section root = document.root();
  config::Section top = root;
  int version = 1;
  top.field("version", version, config::between(1, 1), "of the config format");
  e.data = datasets::DataSettings::read(root);
  e.model = models::read_model_settings(root, e.data.max_length, e.data.task);
  // Only the file says whether HDF5 has one.
  const bool has_valid_part = e.data.valid.given() || e.data.split.valid > 0 || e.data.format_of(e.data.train) == datasets::Format::hdf5;
  e.train = train::read_train_settings(root, e.data.task, has_valid_part);
  if (!e.model.has_batch_norm()) config::Section(root).section("eval", "").unused("batchnorm", "model.norm.type");
  e.train.shuffle = e.data.shuffle;
  for (const std::string& warning : document.finish()) log.write(LogLevel::warn, warning);
  if (document.meaningless()) {  // a run is what its stored config says, where such keys have their defaults
    config::Document stored = config::Document::from_checkpoint(document.resolved(), "the resolved config", {});
    stored.allow_unavailable();  // of the document itself it is a fault
    Log silent(LogLevel::off);
    return read_experiment(stored, silent);
  }
  return e;
}

std::string first_fault(const std::string& report) {
  constexpr std::string_view mark = "error: ";
  const size_t at = report.find(mark);
  const size_t begin = at == std::string::npos ? 0 : at + mark.size();
  return report.substr(begin, report.find('\n', begin) - begin);
}

std::unique_ptr<ThreadPool> make_threads(const train::TrainSettings& s) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::make_unique<ThreadPool>(s.device == Device::reference ? 1 : s.threads > 0 ? s.threads : cores);
}

namespace {

void freeze(nn::Model& model, const std::vector<std::string>& patterns, Use use) {
  nn::ModelState state;
  model.visit(state);
  const std::vector<std::string> unmatched = nn::freeze(state, patterns);
  if (use == Use::look) return;
  if (!unmatched.empty())
    fail(ExitCode::usage,
         "'train.frozen' names '{}', but no parameter of the model is called so; the first is '{}', and `tapeformer inspect` "
         "lists those of a run",
         printable(unmatched.front()), state.parameters.front()->name);
  if (std::none_of(state.parameters.begin(), state.parameters.end(), [](const Parameter* p) { return p->trainable; }))
    fail(ExitCode::usage, "'train.frozen' matches every parameter of the model and leaves none to train");
}

}  // namespace

std::unique_ptr<nn::Model> make_model(const Experiment& e, const data::Description& description, Use use) {
  auto model = models::make_model({.seed = e.train.seed, .dtype = e.train.dtype}, e.model, description);
  if (!e.train.frozen.empty()) freeze(*model, e.train.frozen, use);
  return model;
}

data::Description assumed_description(const Experiment& e, const Assumed& o) {
  // Only the file says whether HDF5 has tokens or numbers: tokens are assumed, unless the numbers of a row are given.
  const bool hdf5 = e.data.format_of(e.data.train) == datasets::Format::hdf5;
  const bool numeric = e.data.numeric() || (hdf5 && o.features > 0);
  if (o.features > 0 && !numeric)
    fail(ExitCode::usage, "--features {}: the config's sequences are text ('data.{}'); give --vocab instead", o.features,
         e.data.task == data::Task::tagging ? "tokens" : "text");
  if (o.vocab > 0 && numeric)
    fail(ExitCode::usage, "--vocab {}: the sequences are of numbers ({}), which have no vocabulary; leave one of the two out", o.vocab,
         e.data.numeric() ? fmt::format("'{}'", e.data.numeric_key) : fmt::format("--features {}", o.features));
  if (o.classes > 0 && e.data.task == data::Task::regression)
    fail(ExitCode::usage, "--classes {}: 'data.task: regression' has no classes; leave one of the two out", o.classes);
  data::Description d;
  d.task = e.data.task;
  d.max_length = e.data.max_length;
  for (const int64_t rows : {e.data.window.length, o.length, int64_t{128}})
    if (d.max_length == 0) d.max_length = rows;
  if (numeric) {
    const auto& names = e.data.train.features;
    const auto count = o.features > 0 ? o.features : std::max<int64_t>(1, static_cast<int64_t>(names.size()));
    const int64_t columns = e.data.missing == data::Missing::zero_with_flag ? 2 * count : count;
    for (int64_t f = 0; f < columns; ++f) d.feature_names.push_back(fmt::format("feature {}", f));
  } else {
    const bool bytes = e.data.tokenizer.kind == data::TokenizerKind::byte;
    d.vocab_size = o.vocab > 0 ? o.vocab : bytes ? 256 : e.data.tokenizer.vocab_size > 0 ? e.data.tokenizer.vocab_size : 32;
  }
  if (d.task == data::Task::regression) d.target_names = e.data.train.target;
  else
    for (int64_t c = 0, n = o.classes > 0 ? o.classes : e.data.classes > 0 ? e.data.classes : 10; c < n; ++c)
      d.labels.push_back(std::to_string(c));
  return d;
}

std::filesystem::path checkpoint_of(const std::string& run_or_file, Log& log) {
  if (train::is_run_directory(run_or_file))
    return train::CheckpointStore(std::filesystem::path(run_or_file) / "checkpoints").best_or_last(log);
  if (!std::filesystem::exists(run_or_file)) fail(ExitCode::checkpoint, "{}: no such run or checkpoint", printable(run_or_file));
  if (std::filesystem::is_directory(run_or_file))
    fail(ExitCode::checkpoint, "{}: is not a run directory (it has no checkpoints/)", printable(run_or_file));
  return run_or_file;
}

StoredConfig stored_config(const io::Checkpoint& checkpoint, const std::filesystem::path& file, const std::vector<std::string>& overrides,
                           Log& log, Use use) {
  const std::string name = file.string(), path = "/config/resolved_yaml";
  const std::string& text = train::text_of(checkpoint, name, path);
  try {
    StoredConfig out{config::Document::from_checkpoint(text, file.string() + ":" + path, overrides), {}};
    if (use == Use::look) out.document.allow_unavailable();
    out.experiment = read_experiment(out.document, log);
    return out;
  } catch (const config::ReportError& e) {
    if (e.code() == ExitCode::unavailable) throw;
    if (overrides.empty())
      fail(ExitCode::checkpoint, "{}: its config is none that this version reads:\n{}", printable(file.string()), e.what());
    Log silent(LogLevel::off);
    stored_config(checkpoint, file, {}, silent, Use::look);
    throw;  // without the overrides it can be read
  }
}

Trained load_trained(const std::string& run_or_file, const std::string& weights, const std::vector<std::string>& overrides, Log& log) {
  Trained t;
  t.file = checkpoint_of(run_or_file, log);
  t.checkpoint = io::read_checkpoint(t.file);
  t.experiment = stored_config(t.checkpoint, t.file, overrides, log).experiment;
  t.description = train::description_of(t.checkpoint, t.file.string());
  // What becomes of new samples that are too long or empty may change.
  t.description.truncate = t.experiment.data.truncate;
  t.description.empty = t.experiment.data.empty;
  t.threads = make_threads(t.experiment.train);
  t.on = {t.experiment.train.device, t.threads.get()};
  t.model = make_model(t.experiment, t.description, Use::look);
  const bool averaged = weights == "ema" || (weights.empty() && train::has_averages(t.checkpoint));
  t.weights = averaged ? "averaged" : "raw";
  nn::ModelState state;
  t.model->visit(state);
  train::restore_model(t.checkpoint, t.file.string(), state, averaged ? train::Weights::averaged : train::Weights::raw);
  return t;
}

}  // namespace tapeformer::tools
