// SPDX-License-Identifier: Apache-2.0
#include "framework/train/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tapeformer::train {
namespace {

// What an evaluation of a task gives.
std::vector<std::string> metrics_of(data::Task task) {
  if (task == data::Task::regression) return {"valid/loss", "valid/rmse", "valid/mae", "valid/r2"};
  std::vector<std::string> metrics{"valid/loss", "valid/accuracy", "valid/f1_macro", "valid/mcc"};
  if (task == data::Task::classification) metrics.emplace_back("valid/auroc");  // of tags no scores are kept
  return metrics;
}

void read_metric(config::Section& s, std::string_view key, std::string& metric, std::string_view help) {
  s.field(key, metric, help);
  if (metric == "none") metric.clear();
}

void check_metric(config::Section& s, std::string_view key, const std::string& metric, data::Task task) {
  const std::vector<std::string> known = metrics_of(task);
  if (!metric.empty() && std::find(known.begin(), known.end(), metric) == known.end())
    s.fault(key, fmt::format("'{}' is '{}', which 'data.task: {}' does not have", s.path(key), metric, name_of(task)),
            fmt::format("it has {}", fmt::join(known, ", ")));
}

// How often something is done. Epochs are counted at their ends, so only a part of one, or whole ones, can be met.
void read_cadence(config::Section& s, std::string_view key, Duration& every, std::string_view help) {
  read_duration(s, key, every, help);
  if (every.epochs && *every.epochs > 1 && *every.epochs != std::floor(*every.epochs))
    s.fault(key, fmt::format("'{}' is {}ep; above one epoch only whole epochs can be counted", s.path(key), *every.epochs),
            "write a whole number of epochs, or the number of updates");
}

void read_device(config::Section s, TrainSettings& out) {
  enum class Choice { automatic, reference, cpu, cuda };
  Choice device = Choice::automatic;
  s.choice("type", device, {{"auto", Choice::automatic}, {"reference", Choice::reference}, {"cpu", Choice::cpu}, {"cuda", Choice::cuda}},
           "auto is cpu; reference is slow, plain and also computes in fp64");
  if (device == Choice::cuda)
    s.unavailable("type", "'device.type' is cuda, but this build has no CUDA device",
                  "use device.type=cpu, or a build configured with -DTAPEFORMER_CUDA=ON");
  out.device = device == Choice::reference ? Device::reference : Device::cpu;
  s.number_or_word("threads", out.threads, "auto", 0, config::between(0, 4096),
                   "threads of the cpu device; auto: as many as there are cores. Results do not depend on it");
}

void read_train(config::Section s, TrainSettings& out, data::Task task, bool has_valid_part) {
  read_duration(s, "duration", out.duration, "20ep, 50k updates, 2h; the first limit reached wins when a list");
  s.field("batch_size", out.batch_size, config::between(1, 1 << 30),
          "samples of an update; beside batch_tokens those of an evaluation alone");
  s.count("batch_tokens", out.batch_tokens, config::between(0, 1 << 30),
          "the most rows of an update, in place of batch_size; a longer sequence is one of its own; 0: off");
  s.number_or_word("micro_batch_size", out.micro_batch_size, "auto", 0, config::between(0, 1 << 30),
                   "samples computed at a time; auto: all of an update's. A BatchNorm that is not frozen has the statistics of these");
  enum class Precision { fp32, fp64, tf32, bf16, fp16 };
  Precision precision = Precision::fp32;
  s.choice("precision", precision,
           {{"fp32", Precision::fp32},
            {"fp64", Precision::fp64},
            {"tf32", Precision::tf32},
            {"bf16-mixed", Precision::bf16},
            {"fp16-mixed", Precision::fp16}},
           "fp64 needs device.type reference; the reduced precisions need a GPU");
  if (precision > Precision::fp64) s.unavailable("precision", "'train.precision' needs a GPU, which this build does not have", "use fp32");
  out.dtype = precision == Precision::fp64 ? Dtype::f64 : Dtype::f32;
  if (out.dtype == Dtype::f64 && out.device == Device::cpu)
    s.fault("precision", "'train.precision' is fp64, but 'device.type' is cpu, which computes in fp32", "set device.type to reference");
  s.choice("on_nonfinite", out.on_nonfinite,
           {{"stop", OnNonfinite::stop}, {"skip", OnNonfinite::skip}, {"rollback", OnNonfinite::rollback}},
           "when a loss or gradient is not finite: stop (exit 5); skip the update; or go back to the last checkpoint's weights");
  s.field("max_skips", out.max_skips, config::between(1, 1 << 30), "skips or rollbacks in a row before the run stops (exit 5)");
  if (out.on_nonfinite == OnNonfinite::stop) s.unused("max_skips", s.path("on_nonfinite"));
  s.field(
      "frozen", out.frozen,
      "names of parameters that stay as they are, with *: 'embedding.*'; so do the statistics of BatchNorms and other state of such names");
  config::Section early = s.section("early_stopping", "stop when a metric no longer improves");
  read_metric(early, "metric", out.early_stopping.metric, "what is watched");
  early.field("patience", out.early_stopping.patience, config::between(0, 1 << 30), "evaluations without improvement; 0: off");
  early.field("min_delta", out.early_stopping.min_delta, config::at_least(0), "the least change that counts as an improvement");
  if (out.early_stopping.patience > 0) check_metric(early, "metric", out.early_stopping.metric, task);
  else
    for (const char* key : {"metric", "min_delta"}) early.unused(key, early.path("patience"));
  if (out.early_stopping.patience > 0 && !has_valid_part)
    early.fault("patience",
                fmt::format("'{}' is {}, but there is no validation part to watch: neither 'data.valid.path' nor 'data.split.valid'",
                            early.path("patience"), out.early_stopping.patience),
                "name one, or set patience to 0");
  if (out.early_stopping.patience > 0 && out.early_stopping.metric.empty())
    early.fault("metric",
                fmt::format("'{}' is none, but '{}' is {}", early.path("metric"), early.path("patience"), out.early_stopping.patience),
                "name a metric, or set patience to 0");
}

}  // namespace

TrainSettings read_train_settings(config::Section root, data::Task task, bool has_valid_part) {
  TrainSettings out;
  config::Section run = root.section("run", "the run as a whole");
  run.field("name", out.name, "a name for people");
  run.field("seed", out.seed, "of initialisation, dropout, data order and every other draw");
  read_device(root.section("device", "where to compute"), out);
  out.duration.epochs = 10;
  out.early_stopping.metric = "valid/loss";
  read_train(root.section("train", "the training loop"), out, task, has_valid_part);
  out.optimizer = optim::read_optimizer_settings(root.section("optim", "the optimiser"));
  config::Section schedule = root.section("schedule", "the learning rate over time");
  out.schedule = optim::read_schedule_settings(schedule, out.optimizer.rate);
  if (optim::depends_on_total(out.schedule) && !out.duration.epochs && !out.duration.updates)
    schedule.fault("type", "'schedule.type' depends on how many updates there are, but 'train.duration' is only a time",
                   "add a limit in epochs or updates to train.duration, or use the schedule constant or inverse_sqrt");
  out.averaging = optim::read_averaging_settings(root.section("averaging", "averaged weights (EMA)"));
  config::Section eval = root.section("eval", "evaluation on the validation part");
  read_cadence(eval, "every", out.eval_every, "1ep, 500 updates, 10m");
  eval.field("batch_size", out.eval_batch_size, config::between(0, 1 << 30), "0: as train.batch_size; results do not depend on it");
  eval.choice("batchnorm", out.eval_batchnorm, {{"running", BatchNormSource::running}, {"batch", BatchNormSource::batch}},
              "the statistics that BatchNorm uses");
  config::Section checkpoint = root.section("checkpoint", "what is kept on disk");
  read_cadence(checkpoint, "every", out.checkpoint_every, "1ep, 500 updates, 10m");
  checkpoint.field("keep_last", out.keep_last, config::between(-1, 1 << 20), "newest checkpoints kept beside the best; -1: all");
  if (out.keep_last == 0)
    checkpoint.fault("keep_last", "'checkpoint.keep_last' must be at least 1, or -1 for all: a run needs one to resume from");
  out.best = task == data::Task::regression ? "valid/loss" : "valid/accuracy";
  read_metric(checkpoint, "best", out.best, "the metric whose best checkpoint is kept; none: no best");
  check_metric(checkpoint, "best", out.best, task);
  config::Section log = root.section("log", "what is written while training");
  log.count("every", out.log_every, config::at_least(1), "updates between two lines");
  log.field("tensorboard", out.tensorboard, "write event files");
  return out;
}

}  // namespace tapeformer::train
