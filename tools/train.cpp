// SPDX-License-Identifier: Apache-2.0
// `tapeformer train`: a new run from a config, or an old one further.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <fstream>

#include "framework/core/version.h"
#include "framework/train/trainer.h"
#include "tools/command.h"
#include "tools/experiment.h"
#include "tools/run_files.h"

namespace tapeformer::tools {
namespace {

struct Options {
  std::vector<std::string> words;  // CONFIG and overrides
  std::string output, resume, from = "last", init_from, init_only, max_time;
  bool overwrite = false, dry_run = false;
};

std::optional<double> max_seconds(const std::string& text) {
  if (text.empty()) return std::nullopt;
  train::Duration d;
  const auto wrong = train::parse_duration(text, d);
  if (wrong || !d.seconds) fail(ExitCode::usage, "--max-time {}: {}; write 90s, 30m or 2h", text, wrong.value_or("is not a time"));
  return d.seconds;
}

train::ProgressStyle style_of(const std::string& word) {
  if (word == "bar") return train::ProgressStyle::bar;
  if (word == "lines") return train::ProgressStyle::lines;
  if (word == "none") return train::ProgressStyle::none;
  return train::ProgressStyle::automatic;
}

// Everything from the data on: the same for a new run and an old one.
ExitCode go(Command& command, const Options& options, config::Document& document, const Experiment& experiment, train::RunDirectory& run,
            const io::Checkpoint* checkpoint, const std::string& checkpoint_file, const data::Description* known) {
  log_to(command.log, run);
  train::SignalWatch signals;
  const auto dataset = datasets::open_dataset(experiment.data, {.known = known});
  for (const std::string& line : dataset->report()) command.log.info("{}", line);
  if (known && dataset->description().fingerprint != known->fingerprint)
    fail(ExitCode::data, "the data is not what the run was started with (fingerprint {} then, {} now); bring the old files back, or start a new run with --init-from",
         known->fingerprint, dataset->description().fingerprint);
  if (dataset->size(data::Part::train) == 0) fail(ExitCode::data, "the training part has no samples");
  const auto threads = make_threads(experiment.train);
  const auto model = make_model(experiment, dataset->description());
  train::ProgressWriter progress({.style = style_of(command.progress), .every = experiment.train.log_every});
  train::Trainer trainer({.settings = experiment.train,
                          .model = *model,
                          .dataset = *dataset,
                          .run = run,
                          .on = {experiment.train.device, threads.get()},
                          .log = command.log,
                          .progress = progress,
                          .signals = signals,
                          .resolved_config = document.resolved(),
                          .user_config = document.user_text(),
                          .overrides = fmt::format("{}", fmt::join(options.words.begin() + (options.words.empty() ? 0 : 1), options.words.end(), "\n")),
                          .max_seconds = max_seconds(options.max_time)});
  if (checkpoint) trainer.restore(*checkpoint, checkpoint_file);
  if (!options.init_from.empty()) {
    const auto file = checkpoint_of(options.init_from, command.log);
    const train::TakeCounts counts = train::initialise_from(io::read_checkpoint(file), file.string(), trainer.model_state(), options.init_only);
    command.log.info("{}: {} tensors taken, {} left in the file, {} stay as initialised", file.string(), counts.taken, counts.left_in_file,
                     counts.left_as_initialised);
  }
  if (trainer.complete()) {
    command.log.info("already complete at step {}; give a longer train.duration to go on", trainer.state().step);
    return ExitCode::done;
  }
  if (!checkpoint) write_start_files(run, document, options.words, dataset->description());
  RunStatus status(run, command.arguments, trainer);
  if (trainer.total_updates()) command.log.info("training to step {} from step {}, {} parameters", *trainer.total_updates(), trainer.state().step, parameters_of(trainer));
  const ExitCode code = trainer.run();
  status.finish(code);
  command.log.info("{} at step {}; {}", code == ExitCode::done ? "finished" : "stopped and saved", trainer.state().step,
                   code == ExitCode::done ? "evaluate: tapeformer eval " + run.path().string() : "go on: tapeformer train --resume " + run.path().string());
  return code;
}

ExitCode start(Command& command, Options& options) {
  if (options.words.empty()) fail(ExitCode::usage, "train needs a CONFIG, or --resume RUN");
  std::vector<std::string> overrides(options.words.begin() + 1, options.words.end());
  for (auto& o : command.flag_overrides()) overrides.push_back(std::move(o));
  config::Document document = config::Document::load(options.words[0], overrides);
  const Experiment experiment = read_experiment(document, command.log);
  max_seconds(options.max_time);
  if (options.output.empty()) fail(ExitCode::usage, "train needs -o RUN, the directory to write");
  train::RunDirectory run = train::RunDirectory::create(options.output, options.overwrite ? train::Existing::move_aside : train::Existing::refuse);
  try {
    return go(command, options, document, experiment, run, nullptr, "", nullptr);
  } catch (const Error&) {
    discard_if_unused(run);  // a refused input leaves nothing behind
    throw;
  }
}

ExitCode resume(Command& command, Options& options) {
  if (!options.output.empty() || !options.init_from.empty() || options.overwrite)
    fail(ExitCode::usage, "--resume goes on in its own directory: it takes neither -o nor --init-from nor --overwrite");
  train::RunDirectory run = train::RunDirectory::open(options.resume);
  const std::filesystem::path file = options.from == "last"   ? run.checkpoints().last(command.log)
                                     : options.from == "best" ? run.checkpoints().best_or_last(command.log)
                                                              : std::filesystem::path(options.from);
  const io::Checkpoint checkpoint = io::read_checkpoint(file);
  std::vector<std::string> overrides = options.words;
  for (auto& o : command.flag_overrides()) overrides.push_back(std::move(o));
  Resumption plan = plan_resumption(checkpoint, file, overrides, command.log);
  const data::Description known = train::description_of(checkpoint, file.string());
  options.words.insert(options.words.begin(), "");
  if (nothing_left_to_do(plan.experiment, checkpoint)) {
    command.log.info("already complete at step {}; give a longer train.duration to go on", train::step_of(checkpoint));
    return ExitCode::done;
  }
  run.cut_logs_after(train::step_of(checkpoint));
  run.checkpoints().supersede_after(train::step_of(checkpoint));
  for (const std::string& line : plan.messages) command.log.info("{}", line);
  return go(command, options, plan.document, plan.experiment, run, &checkpoint, file.string(), &known);
}

}  // namespace

void add_train(CLI::App& app, Command& command) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("train", "Train a model from a config, or go on with a run");
  sub->add_option("words", options->words, "CONFIG, then overrides key.path=value (with --resume: overrides only)");
  sub->add_option("-o,--output", options->output, "Directory of the new run");
  sub->add_option("--resume", options->resume, "Go on with the run in this directory; its config is in it");
  sub->add_option("--from", options->from, "With --resume: last, best or a checkpoint file");
  sub->add_option("--init-from", options->init_from, "Start from the parameters of this run or checkpoint");
  sub->add_option("--init-only", options->init_only, "With --init-from: take only names that match this pattern, such as 'encoder.*'");
  sub->add_option("--max-time", options->max_time, "Save and leave with exit 75 after this time: 90s, 30m, 2h");
  sub->add_flag("--overwrite", options->overwrite, "Move an existing run aside to RUN.old-<time>");
  sub->callback([&command, options] {
    command.action = [&command, options] { return options->resume.empty() ? start(command, *options) : resume(command, *options); };
  });
}

}  // namespace tapeformer::tools
