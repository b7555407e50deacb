// SPDX-License-Identifier: Apache-2.0
#include "framework/train/trainer.h"

#include <chrono>
#include <cmath>
#include <csignal>

#include "framework/core/buffer.h"

namespace tapeformer::train {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void add(RunState::Sums& sums, const UpdateResult& r) {
  sums.loss += r.loss;
  sums.count += r.count;
  sums.auxiliary += r.auxiliary.value_or(0);
  sums.correct += static_cast<double>(r.correct);
  sums.targets += static_cast<double>(r.targets);
  sums.samples += r.samples;
  sums.tokens += r.tokens;
}

// Epochs of token batches differ.
bool ends_by_position(const TrainSettings& s) { return s.batch_tokens > 0 && s.duration.epochs && !optim::depends_on_total(s.schedule); }

// Updates of a part of this epoch.
int64_t updates_of(double part, const data::Sampler& sampler, int64_t epoch) {
  return static_cast<int64_t>(std::ceil(part * static_cast<double>(sampler.batches_per_epoch(epoch))));
}

// A schedule that depends on the total has to know it beforehand, which walks through all epochs of token batches.
std::optional<int64_t> updates_in(const TrainSettings& s, const data::Sampler& sampler) {
  if (ends_by_position(s)) return s.duration.updates;
  if (s.batch_tokens == 0 || !s.duration.epochs) return s.duration.total_updates(sampler.batches_per_epoch(0));
  int64_t total = 0;
  double left = *s.duration.epochs;
  for (int64_t epoch = 0; left > 0 && !(s.duration.updates && total >= *s.duration.updates); ++epoch, left -= 1)
    total += updates_of(std::min(1.0, left), sampler, epoch);
  return s.duration.updates ? std::min(total, *s.duration.updates) : total;
}

// Where the data stand when the epochs are done; nothing where the updates were counted.
std::optional<data::SamplerPosition> end_of(const TrainSettings& s, data::Sampler sampler) {
  if (!ends_by_position(s)) return std::nullopt;
  const auto whole = static_cast<int64_t>(*s.duration.epochs);
  const int64_t more = updates_of(*s.duration.epochs - static_cast<double>(whole), sampler, whole);
  sampler.seek({whole, 0});
  for (int64_t update = 0; update < more; ++update) sampler.next();
  return sampler.position();
}

}  // namespace

data::Sampler make_sampler(const TrainSettings& s, const data::Dataset& dataset) {
  return data::Sampler({.seed = s.seed, .shuffle = s.shuffle, .batch_size = s.batch_size, .batch_tokens = s.batch_tokens},
                       dataset.size(data::Part::train), [&dataset](int64_t i) { return dataset.length(data::Part::train, i); });
}

std::optional<int64_t> total_updates(const TrainSettings& s, const data::Dataset& dataset) {
  return updates_in(s, make_sampler(s, dataset));
}

Trainer::Trainer(TrainerParts parts)
    : parts_(std::move(parts)),
      updater_(parts_.settings, parts_.model, parts_.dataset, parts_.on),
      sampler_(make_sampler(parts_.settings, parts_.dataset)),
      updates_per_epoch_(sampler_.batches_per_epoch(0)),
      total_(updates_in(parts_.settings, sampler_)),
      end_(end_of(parts_.settings, sampler_)),
      began_(now()),
      last_eval_time_(began_),
      last_save_time_(began_) {}

void Trainer::restore(const io::Checkpoint& checkpoint, const std::string& file) {
  RunParts run{.model = &updater_.model_state(), .optimizer = &updater_.optimizer(), .averaging = &updater_.averaging(), .state = &state_};
  restore_run(checkpoint, file, run);
  sampler_.seek(state_.position);
  seconds_before_ = state_.seconds;
  steps_before_ = state_.step;
  tokens_before_ = state_.tokens_seen;
  samples_before_ = state_.samples_seen;
  saved_step_ = state_.step;
  if (!state_.planned) unplanned_step_ = state_.step;
  resumed_ = true;
  // Where this one is the best, it is the file itself, which may lie in superseded/ until the run begins.
  if (state_.best_step >= 0 && state_.best_step != state_.step && !parts_.run.checkpoints().has(state_.best_step)) {
    parts_.log.warn("the best checkpoint until then, of step {}, is no longer there: the best is looked for anew", state_.best_step);
    state_.best_step = -1;
    state_.best_value = std::numeric_limits<double>::quiet_NaN();
  }
  rate_ = optim::rate(parts_.settings.schedule, parts_.settings.optimizer.rate, std::max<int64_t>(1, state_.step), total_.value_or(1));
}

double Trainer::seconds() const { return seconds_before_ + now() - began_; }

bool Trainer::updates_done() const {
  const auto& limit = parts_.settings.duration.seconds;
  const auto reached = [this] { return std::pair(state_.position.epoch, state_.position.cursor) >= std::pair(end_->epoch, end_->cursor); };
  return state_.stopped_early || (total_ && state_.step >= *total_) || (end_ && reached()) || (limit && seconds() >= *limit);
}

std::optional<int64_t> Trainer::expected_updates() const {
  return end_ ? parts_.settings.duration.total_updates(updates_per_epoch_) : total_;
}

bool Trainer::evaluation_pending() const { return state_.evaluated_step != state_.step && parts_.dataset.size(data::Part::valid) > 0; }
bool Trainer::complete() const { return updates_done() && !evaluation_pending(); }

std::optional<ExitCode> Trainer::stop() const {
  if (const int signal = parts_.signals.stop_signal()) return signal == SIGINT ? ExitCode::interrupted : ExitCode::terminated;
  if (parts_.deadline && std::chrono::steady_clock::now() >= *parts_.deadline) return ExitCode::time_limit;
  return std::nullopt;
}

ExitCode Trainer::run() {
  if (complete()) return ExitCode::done;
  parts_.signals.begin_training();
  log_.emplace(parts_.run, parts_.settings.tensorboard, resumed_ ? std::optional(state_) : std::nullopt);
  evaluate_if_due();  // one that was cut short in the sitting before
  if (resumed_ && saved_step_ != state_.step) save();
  while (!updates_done() && !stop()) {
    if (parts_.signals.take_save_request()) {
      save();
      parts_.progress.clear();
      parts_.log.info("saved {}, as SIGUSR1 asks", printable(parts_.run.checkpoints().file_of(state_.step).string()));
    }
    if (parts_.signals.take_status_request()) parts_.log.info("step {} epoch {}", state_.step, state_.position.epoch);
    one_update();
  }
  if (updates_done() && evaluation_pending()) evaluate_now();
  if (saved_step_ != state_.step) save();
  parts_.progress.end();
  return complete() ? ExitCode::done : stop().value_or(ExitCode::done);
}

void Trainer::one_update() {
  const std::vector<int64_t> samples = sampler_.next();
  const UpdateResult result = updater_.update(state_.step + 1, total_.value_or(1), samples);
  if (!result.not_finite.empty()) handle_nonfinite(result);
  ++state_.step;
  state_.position = sampler_.position();
  state_.samples_seen += result.samples;
  state_.tokens_seen += result.tokens;
  if (result.not_finite.empty()) {
    state_.skips_in_a_row = 0;
    state_.gradient_norm = result.gradient_norm;
    add(state_.window, result);
    add(state_.epoch, result);
  }
  after_update(result);
}

void Trainer::after_update(const UpdateResult& result) {
  rate_ = result.rate;
  show_progress(result);
  if (state_.step % parts_.settings.log_every == 0) {
    log_->train_line(state_, result);
    state_.window = {};
  }
  evaluate_if_due();
  state_.planned = improved_ || due(parts_.settings.checkpoint_every, last_save_time_);
  if (state_.planned) save();
}

// Epochs are counted at their ends; part of an epoch is a fixed number of updates.
bool Trainer::due(const Duration& every, double& last_time) const {
  if (state_.step == 0) return false;
  if (every.updates && state_.step % *every.updates == 0) return true;
  if (every.epochs) {
    const double n = *every.epochs;
    if (n >= 1 && end_of_epoch() && state_.position.epoch % static_cast<int64_t>(n) == 0) return true;
    if (n < 1 && state_.step % std::max<int64_t>(1, static_cast<int64_t>(std::ceil(n * static_cast<double>(updates_per_epoch_)))) == 0)
      return true;
  }
  if (every.seconds && now() - last_time >= *every.seconds) {
    last_time = now();
    return true;
  }
  return false;
}

void Trainer::evaluate_if_due() {
  if (state_.step == 0) return;
  if (evaluation_pending() && due(parts_.settings.eval_every, last_eval_time_) && !evaluate_now()) return;  // the next sitting does it
  if (end_of_epoch() && state_.epoch.samples > 0) {
    log_->epoch_row(state_, rate_, last_evaluation_ && state_.evaluated_step == state_.step ? &*last_evaluation_ : nullptr);
    state_.epoch = {};
    saved_step_ = -1;
  }
}

bool Trainer::evaluate_now() {
  const TrainSettings& s = parts_.settings;
  std::optional<Evaluation> evaluation;
  {
    std::optional<optim::AveragedWeights> averaged;
    if (updater_.averaging().started()) averaged.emplace(updater_.averaging(), updater_.model_state().parameters);
    evaluation = evaluate(parts_.model, parts_.dataset, data::Part::valid,
                          {.on = parts_.on,
                           .dtype = s.dtype,
                           .batch_size = s.eval_batch_size > 0 ? s.eval_batch_size : s.batch_size,
                           .step = state_.step,
                           .batchnorm = s.eval_batchnorm,
                           .cancelled = [this] { return stop().has_value(); }});
  }
  if (evaluation) judge(*evaluation);
  return evaluation.has_value();
}

// Keeps the best and counts the patience; the first of equals stays, and an undefined value is never better.
void Trainer::judge(const Evaluation& evaluation) {
  const TrainSettings& s = parts_.settings;
  const auto value_of = [&](const std::string& metric) { return evaluation.value(std::string_view(metric).substr(metric.find('/') + 1)); };
  const auto better = [](const std::string& metric, double value, double than, double by) {
    return std::isnan(than) || (higher_is_better(metric.substr(metric.find('/') + 1)) ? value > than + by : value < than - by);
  };
  state_.evaluated_step = state_.step;
  saved_step_ = -1;  // a checkpoint of this step that is there already does not know of it
  last_evaluation_ = evaluation;
  log_->evaluation_line(state_, data::Part::valid, evaluation);
  if (!s.best.empty())
    if (const auto value = value_of(s.best); value && std::isfinite(*value) && better(s.best, *value, state_.best_value, 0)) {
      state_.best_value = *value;
      state_.best_step = state_.step;
      improved_ = true;
    }
  if (s.early_stopping.patience > 0) {
    const auto value = value_of(s.early_stopping.metric);
    if (value && std::isfinite(*value) && better(s.early_stopping.metric, *value, state_.stopping_best, s.early_stopping.min_delta)) {
      state_.stopping_best = *value;
      state_.stopping_wait = 0;
    } else if (++state_.stopping_wait >= s.early_stopping.patience) {
      state_.stopped_early = true;
    }
  }
  std::string text;
  for (const Metric& m : evaluation.values) text += fmt::format("  {} {}", m.name, m.value ? fmt::format("{:.4f}", *m.value) : "undefined");
  parts_.progress.clear();
  parts_.log.info("step {} epoch {} valid:{}{}", state_.step, state_.position.epoch, text,
                  state_.best_step == state_.step ? "  (best)" : "");
  if (state_.stopped_early)
    parts_.log.info("no improvement of {} in {} evaluations: stopping early", s.early_stopping.metric, s.early_stopping.patience);
}

io::Checkpoint Trainer::checkpoint() {
  const RunParts run{.model = &updater_.model_state(),
                     .optimizer = &updater_.optimizer(),
                     .averaging = &updater_.averaging(),
                     .state = &state_,
                     .description = &parts_.dataset.description(),
                     .resolved_config = parts_.resolved_config,
                     .user_config = parts_.user_config,
                     .overrides = parts_.overrides,
                     .config_sha256 = parts_.config_sha256,
                     .precision = parts_.settings.dtype == Dtype::f64 ? "fp64" : "fp32",
                     .seed = parts_.settings.seed};
  return to_checkpoint(run);
}

DiskNeed Trainer::disk_need() {
  io::Checkpoint like = checkpoint();
  if (updater_.averaging().on())  // there are none yet when averaging begins later
    for (const Parameter* p : updater_.model_state().parameters)
      if (p->trainable) like.tensors["/ema/" + p->name] = p->value;
  std::optional<int64_t> left = expected_updates();
  if (left) *left = std::max<int64_t>(0, *left - state_.step);
  return train::disk_need(parts_.settings, like, left, updates_per_epoch_, static_cast<int64_t>(parts_.run.checkpoints().steps().size()));
}

void Trainer::save() {
  state_.seconds = seconds();
  state_.planned = state_.planned || improved_;  // the best may be found when an evaluation is made up for
  parts_.run.checkpoints().save(checkpoint(), state_.step,
                                {.keep_last = parts_.settings.keep_last, .best_step = state_.best_step, .unplanned = unplanned_step_});
  saved_step_ = state_.step;
  unplanned_step_ = state_.planned ? -1 : state_.step;
  improved_ = false;
  last_save_time_ = now();
}

void Trainer::handle_nonfinite(const UpdateResult& result) {
  const TrainSettings& s = parts_.settings;
  ++state_.skips;
  ++state_.skips_in_a_row;
  parts_.progress.clear();
  if (s.on_nonfinite == OnNonfinite::stop || state_.skips_in_a_row > s.max_skips)
    fail(ExitCode::nonfinite, "loss or gradient not finite at {}; {}lower optim.lr, set optim.clip_norm, or look at these rows{}",
         result.not_finite, state_.skips_in_a_row > 1 ? fmt::format("{} in a row; ", state_.skips_in_a_row) : "",
         s.on_nonfinite == OnNonfinite::stop ? "; train.on_nonfinite: skip goes on without such an update" : "");
  if (s.on_nonfinite == OnNonfinite::rollback && roll_back(result)) return;
  parts_.log.warn("not finite at {}: the update is skipped", result.not_finite);
}

// To the newest planned checkpoint of before the fault; when that one was no help, to the one before it, and so on. Weights, moments and
// averages go back; the position in the data does not. False when there is nothing to go back to.
bool Trainer::roll_back(const UpdateResult& result) {
  const int64_t before = state_.skips_in_a_row > 1 && state_.rolled_back_to >= 0 ? state_.rolled_back_to : state_.step + 1;
  const auto checkpoint = parts_.run.checkpoints().last_finite_before(before, parts_.log);
  if (!checkpoint) return false;
  RunState of_the_file;
  RunParts run{
      .model = &updater_.model_state(), .optimizer = &updater_.optimizer(), .averaging = &updater_.averaging(), .state = &of_the_file};
  const std::string file = parts_.run.checkpoints().file_of(step_of(*checkpoint)).string();
  restore_run(*checkpoint, file, run);
  state_.rolled_back_to = of_the_file.step;
  parts_.log.warn("not finite at {}: back to the weights of {}", result.not_finite, printable(file));
  return true;
}

void Trainer::show_progress(const UpdateResult& r) {
  ProgressState p;
  p.update = state_.step;
  const auto all = expected_updates();
  if (all) p.fraction = std::min(1.0, static_cast<double>(state_.step) / static_cast<double>(*all));
  if (r.count > 0) p.loss = r.loss / r.count;
  if (r.targets > 0) p.metric = static_cast<double>(r.correct) / static_cast<double>(r.targets);
  const double sitting = std::max(1e-9, now() - began_);
  const double done_here = static_cast<double>(state_.step - steps_before_);
  p.tokens_per_second = static_cast<double>(state_.tokens_seen - tokens_before_) / sitting;
  p.samples_per_second = static_cast<double>(state_.samples_seen - samples_before_) / sitting;
  if (all && done_here > 0) p.seconds_left = static_cast<double>(std::max<int64_t>(0, *all - state_.step)) * sitting / done_here;
  p.rate = r.rate;
  p.gradient_norm = r.gradient_norm;
  p.peak_bytes = allocator_statistics().peak_bytes;
  parts_.progress.show(p);
}

}  // namespace tapeformer::train
