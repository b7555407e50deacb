// SPDX-License-Identifier: Apache-2.0
// `tapeformer train`: a new run from a config, or an old one further.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include "framework/core/version.h"
#include "framework/train/trainer.h"
#include "tools/command.h"
#include "tools/deadline.h"
#include "tools/experiment.h"
#include "tools/one_row.h"
#include "tools/run_files.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

struct Options {
  std::vector<std::string> words;  // CONFIG and overrides
  std::string output, resume, from = "last", init_from, init_only, max_time;
  bool overwrite = false;
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

train::ProgressStyle style_of(const std::string& word) {
  if (word == "bar") return train::ProgressStyle::bar;
  if (word == "lines") return train::ProgressStyle::lines;
  if (word == "none") return train::ProgressStyle::none;
  return train::ProgressStyle::automatic;
}

// What a run goes on from.
struct Continued {
  const io::Checkpoint& checkpoint;
  std::string file;
  data::Description description;
  const train::TrainSettings& before;  // as the run was planned until now
  std::vector<std::string> messages;
};

void say(Log& log, std::string_view line) {
  constexpr std::string_view mark = "warning: ";
  if (line.starts_with(mark)) log.write(LogLevel::warn, line.substr(mark.size()));
  else log.write(LogLevel::info, line);
}

void say_complete(Log& log, const train::RunState& state) {
  if (state.stopped_early)
    log.info(
        "already complete: it stopped early at step {}; --from best goes on from its best, --init-from starts a new run with its weights",
        state.step);
  else log.info("already complete at step {}; give a longer train.duration to go on", state.step);
}

// A schedule that depends on the duration follows the new one from here on.
void say_new_rate(Log& log, const Continued& from, const train::TrainSettings& now, const train::Trainer& trainer,
                  const data::Dataset& dataset) {
  if (!optim::depends_on_total(now.schedule)) return;
  const auto old_total = train::total_updates(from.before, dataset);
  if (old_total == trainer.total_updates()) return;
  const int64_t next = trainer.state().step + 1;
  log.info("the learning rate follows the new duration from here on: {:.6g} instead of {:.6g} at step {}",
           optim::rate(now.schedule, now.optimizer.rate, next, trainer.total_updates().value_or(1)),
           optim::rate(from.before.schedule, from.before.optimizer.rate, next, old_total.value_or(1)), next);
}

// A config with HDF5, or with small shares, cannot say that there is nothing to watch.
void refuse_patience_for_nothing(const train::TrainSettings& s, const data::Dataset& dataset) {
  if (s.early_stopping.patience > 0 && dataset.size(data::Part::valid) == 0)
    fail(ExitCode::data,
         "train.early_stopping.patience is {}, but the data has no validation part to watch; name one with data.valid.path, or set it to 0",
         s.early_stopping.patience);
}

// What a config can ask for and the data cannot give; the run goes on.
void warn_of_empty_wishes(Log& log, const Experiment& e, const data::Dataset& dataset, std::optional<int64_t> updates) {
  const datasets::Split& split = e.data.split;
  for (const auto& [part, share] : {std::pair(data::Part::valid, split.valid), std::pair(data::Part::test, split.test)})
    if (share > 0 && dataset.size(part) == 0)
      log.warn("data.split.{} is {}, which leaves no sample for that part; training has {}", name_of(part), share,
               dataset.size(data::Part::train));
  const auto& labels = dataset.description().labels;
  if (labels.size() == 1) log.warn("the training part has one label, '{}': there is nothing to tell apart", printable(labels[0]));
  if (!updates) return;
  const auto warn = [&](bool never, const char* key, int64_t at, const char* what) {
    if (never) log.warn("{} is {}, but the run has {} updates: {}", key, at, *updates, what);
  };
  const int64_t warmup = e.train.schedule.warmup, from = e.train.averaging.from, freeze_from = e.model.batch_norm.freeze_from;
  warn(warmup > *updates, "schedule.warmup", warmup, "the rate never reaches optim.lr");
  warn(e.train.averaging.decay > 0 && from >= *updates, "averaging.from", from, "nothing is averaged");
  warn(e.model.has_batch_norm() && freeze_from > *updates, "model.norm.freeze_from", freeze_from, "nothing is frozen");
}

void refuse_small_disk(const train::DiskNeed& need, const std::filesystem::path& run) {
  const auto free = train::free_bytes(run);
  if (!free || *free >= need.bytes()) return;
  const auto text = [](uint64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  fail(
      ExitCode::resource,
      "{}: the disk is too small for the run: about {} needed ({} checkpoint{} of {} and {} of logs), {} free; make room, name a directory "
      "on another disk, or lower checkpoint.keep_last",
      printable(run.string()), text(need.bytes()), need.checkpoints, need.checkpoints == 1 ? "" : "s", text(need.checkpoint_bytes),
      text(need.log_bytes), text(*free));
}

// ", of which 5000 are frozen", or nothing.
std::string frozen_of(train::Trainer& trainer) {
  int64_t n = 0;
  for (const Parameter* p : trainer.model_state().parameters) n += p->trainable ? 0 : p->value.count();
  return n > 0 ? fmt::format(", of which {} are frozen", n) : "";
}

// What is only counted is drawn again from this run's seed: frozen, it would be something else than in the other run.
std::optional<std::string> other_draws(const nn::ModelState& model, const train::TakeCounts& counts, const io::Checkpoint& other,
                                       uint64_t seed_here) {
  const auto seed_there = train::seed_of(other);
  for (const nn::Buffer* b : model.buffers) {
    const std::string owner = b->name.substr(0, b->name.rfind('.'));
    const bool counted = b->name == owner + ".redraws" && !counts.names.contains(owner + ".features");
    if (counted && b->frozen && counts.names.contains(b->name) && seed_there && *seed_there != seed_here)
      return fmt::format(
          "warning: 'train.frozen' keeps {}, but what it counts was drawn from 'run.seed' {} and is drawn from {} here; give "
          "both runs one seed",
          b->name, *seed_there, seed_here);
  }
  return std::nullopt;
}

// The vocabulary and the labels of another run must be those of this data, or its embeddings and outputs mean something else. Returns what
// to say of it.
std::vector<std::string> take_parameters(Log& log, const Options& options, uint64_t seed, const data::Description& here,
                                         train::Trainer& trainer) {
  const auto file = checkpoint_of(options.init_from, log);
  const io::Checkpoint other = io::read_checkpoint(file);
  const data::Description there = train::description_of(other, file.string());
  if (options.init_only.empty() && (there.tokenizer_json != here.tokenizer_json || there.labels != here.labels))
    fail(ExitCode::checkpoint, "{}: was trained with another {}; take the layers that do not depend on it with --init-only 'encoder.*'",
         printable(file.string()), there.labels != here.labels ? "set of labels" : "vocabulary");
  const train::TakeCounts counts = train::initialise_from(other, file.string(), trainer.model_state(), options.init_only);
  const std::string copied = counts.copied > 0 ? fmt::format("{} that it lacks are copies of these, ", counts.copied) : "";
  std::vector<std::string> lines{fmt::format("{}: {} tensors taken, {}{} left in the file, {} stay as initialised",
                                             printable(file.string()), counts.names.size(), copied, counts.left_in_file,
                                             counts.left_as_initialised)};
  if (auto warning = other_draws(trainer.model_state(), counts, other, seed)) lines.push_back(std::move(*warning));
  return lines;
}

void begin_files(Command& command, const Options& options, const config::Document& document, const Experiment& experiment,
                 train::RunDirectory& run, const Continued* continued, const train::Trainer& trainer, const data::Dataset& dataset) {
  if (!continued) return write_start_files(run, document, options.words, dataset.description());
  // In this order: a kill in between leaves logs that are too long, which the next start cuts.
  run.checkpoints().go_back_to(continued->file, trainer.state().step);
  run.cut_logs_after(trainer.state());
  write_resumed_files(run, document, options.words);
  for (const std::string& line : continued->messages) command.log.info("{}", line);
  say_new_rate(command.log, *continued, experiment.train, trainer, dataset);
}

// One a line: those of the sittings before, then those of this one.
std::string all_overrides(const Continued* continued, const std::vector<std::string>& now) {
  std::string text = continued ? train::text_of(continued->checkpoint, continued->file, "/config/overrides") : "";
  for (const std::string& line : now) text += (text.empty() ? "" : "\n") + line;
  return text;
}

// Everything from the data on: the same for a new run and an old one.
ExitCode go(Command& command, const Options& options, const config::Document& document, const Experiment& experiment,
            train::RunDirectory& run, const Continued* continued) {
  train::SignalWatch signals;
  const data::Description* known = continued ? &continued->description : nullptr;
  const auto dataset = datasets::open_dataset(experiment.data, {.known = known});
  if (known && dataset->description().fingerprint != known->fingerprint)
    fail(ExitCode::data,
         "the data is not what the run was started with (fingerprint {} then, {} now); bring the old files back, or start a new run with "
         "--init-from",
         known->fingerprint, dataset->description().fingerprint);
  if (dataset->size(data::Part::train) == 0) fail(ExitCode::data, "the training part has no samples");
  refuse_patience_for_nothing(experiment.train, *dataset);
  const auto threads = make_threads(experiment.train);
  const auto model = make_model(experiment, dataset->description());
  refuse_training_on_one_row(experiment, *model, *dataset);
  train::ProgressWriter progress({.style = style_of(command.progress), .every = experiment.train.log_every});
  const std::vector<std::string> overrides(options.words.begin() + (continued ? 0 : 1), options.words.end());
  train::Trainer trainer(
      {.settings = experiment.train,
       .model = *model,
       .dataset = *dataset,
       .run = run,
       .on = {experiment.train.device, threads.get()},
       .log = command.log,
       .progress = progress,
       .signals = signals,
       .resolved_config = document.resolved(),
       .user_config = continued ? train::text_of(continued->checkpoint, continued->file, "/config/user_yaml") : document.user_text(),
       .overrides = all_overrides(continued, overrides),
       .config_sha256 = config_digest(document),
       .deadline = options.deadline});
  if (continued) trainer.restore(continued->checkpoint, continued->file);
  std::vector<std::string> taken;
  if (!options.init_from.empty()) taken = take_parameters(command.log, options, experiment.train.seed, dataset->description(), trainer);
  if (trainer.complete()) {
    say_complete(command.log, trainer.state());
    return ExitCode::done;
  }
  refuse_small_disk(trainer.disk_need(), run.path());
  const RunLogFile log_file(command.log, run);
  if (!run.locked())
    command.log.warn("{}: the file system has no locks: see to it that no other run writes to this directory",
                     printable(run.path().string()));
  for (const std::string& line : dataset->report()) say(command.log, line);
  for (const std::string& line : taken) say(command.log, line);
  warn_of_empty_wishes(command.log, experiment, *dataset, trainer.expected_updates());
  begin_files(command, options, document, experiment, run, continued, trainer, *dataset);
  const RunStatus status(run, command.arguments, trainer, config_digest(document));
  if (const auto updates = trainer.expected_updates())
    command.log.info("training to {}step {} from step {}, {} parameters{}", updates == trainer.total_updates() ? "" : "about ", *updates,
                     trainer.state().step, parameters_of(trainer), frozen_of(trainer));
  try {
    const ExitCode code = trainer.run();
    status.finish(code);
    command.log.info("{} at step {}; {}", code == ExitCode::done ? "finished" : "stopped and saved", trainer.state().step,
                     code == ExitCode::done ? "evaluate: tapeformer eval " + shell_quoted(run.path().string())
                                            : "go on: tapeformer train --resume " + shell_quoted(run.path().string()));
    return code;
  } catch (const std::exception& e) {
    const Error error = as_error(e);
    status.failed(error.code(), error.what());
    throw;
  }
}

ExitCode start(Command& command, Options& options) {
  if (options.words.empty()) fail(ExitCode::usage, "train needs a CONFIG, or --resume RUN");
  std::vector<std::string> overrides(options.words.begin() + 1, options.words.end());
  for (auto& o : command.flag_overrides()) overrides.push_back(std::move(o));
  config::Document document = config::Document::load(options.words[0], overrides);
  const Experiment experiment = read_experiment(document, command.log);
  if (options.output.empty()) fail(ExitCode::usage, "train needs -o RUN, the directory to write");
  train::RunDirectory run =
      train::RunDirectory::create(options.output, options.overwrite ? train::Existing::move_aside : train::Existing::refuse);
  try {
    return go(command, options, document, experiment, run, nullptr);
  } catch (...) {
    if (!std::filesystem::exists(run.path() / "run.json")) run.abandon();  // a refused input leaves nothing behind
    throw;
  }
}

// last, best, or a file that must be one of this run's.
std::filesystem::path chosen_checkpoint(train::RunDirectory& run, const std::string& from, Log& log) {
  if (from == "last") return run.checkpoints().last(log);
  if (from == "best") return run.checkpoints().best_or_last(log);
  const std::filesystem::path file = from;
  if (!std::filesystem::exists(file)) fail(ExitCode::checkpoint, "{}: no such checkpoint", printable(from));
  const auto folder = std::filesystem::canonical(file).parent_path(), own = std::filesystem::canonical(run.path()) / "checkpoints";
  if (folder != own && folder != own / "superseded")
    fail(ExitCode::checkpoint, "{}: is no checkpoint of {}; a new run can start from it with --init-from", printable(from),
         printable(run.path().string()));
  return file;
}

ExitCode resume(Command& command, Options& options) {
  if (!options.output.empty() || !options.init_from.empty() || options.overwrite)
    fail(ExitCode::usage, "--resume goes on in its own directory: it takes neither -o nor --init-from nor --overwrite");
  train::RunDirectory run = train::RunDirectory::open(options.resume);
  const std::filesystem::path file = chosen_checkpoint(run, options.from, command.log);
  const io::Checkpoint checkpoint = io::read_checkpoint(file);
  std::vector<std::string> overrides = options.words;
  for (auto& o : command.flag_overrides()) overrides.push_back(std::move(o));
  const Resumption plan = plan_resumption(checkpoint, file, overrides, command.log);
  if (nothing_left_to_do(plan.experiment, checkpoint)) {
    say_complete(command.log, train::state_of(checkpoint, file.string()));
    return ExitCode::done;
  }
  const Continued continued{checkpoint, file.string(), train::description_of(checkpoint, file.string()), plan.before.train, plan.messages};
  return go(command, options, plan.document, plan.experiment, run, &continued);
}

}  // namespace

void add_train(const Verb& program, Command& command) {
  auto options = std::make_shared<Options>();
  const Verb sub = program.verb("train", "Train a model from a config, or go on with a run");
  sub.option("CONFIG", options->words, "A config file, then overrides key.path=value; with --resume the overrides alone");
  sub.option("-o,--output", options->output, "Directory of the new run");
  sub.option("--resume", options->resume, "Go on with the run in this directory; its config is in it");
  sub.option("--from", options->from, "With --resume: last, best or a checkpoint file").needs("--resume");
  sub.option("--init-from", options->init_from, "Start from the parameters of this run or checkpoint");
  sub.option("--init-only", options->init_only, "With --init-from: take only names that match this pattern, such as 'encoder.*'")
      .needs("--init-from");
  sub.option("--max-time", options->max_time, "Save and leave with exit 75 after this time: 90s, 30m, 2h");
  sub.flag("--overwrite", options->overwrite, "Move an existing run aside to RUN.old-<time>");
  sub.runs([&command, options] {
    options->deadline = deadline_of(options->max_time);  // the clock starts here, so that loading the data counts
    return options->resume.empty() ? start(command, *options) : resume(command, *options);
  });
}

}  // namespace tapeformer::tools
