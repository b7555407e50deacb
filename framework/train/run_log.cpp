// SPDX-License-Identifier: Apache-2.0
#include "framework/train/run_log.h"

#include <chrono>
#include <cmath>

#include "framework/core/buffer.h"
#include "framework/io/json_lines.h"

namespace tapeformer::train {
namespace {

double steady_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
double wall_seconds() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

io::JsonLine line_of(const RunState& s, data::Part part) {
  io::JsonLine line;
  line.field("time", wall_seconds()).field("step", s.step).field("epoch", s.position.epoch);
  line.field("samples", s.samples_seen).field("tokens", s.tokens_seen).field("split", name_of(part));
  return line;
}

std::string number(std::optional<double> x) { return x && std::isfinite(*x) ? io::json_number(*x) : ""; }

}  // namespace

RunLog::RunLog(const RunDirectory& run, bool tensorboard, const std::optional<RunState>& resumed)
    : run_(run), tensorboard_(tensorboard), window_{steady_seconds()}, epoch_(window_) {
  if (!resumed) return;
  purge_from_ = {{data::Part::train, resumed->step + 1}, {data::Part::valid, resumed->evaluated_step + 1}};
  window_ = {window_.seconds, resumed->window.samples, resumed->window.tokens};
  epoch_ = {epoch_.seconds, resumed->epoch.samples, resumed->epoch.tokens};
}

RunLog::Speeds RunLog::speeds(const RunState::Sums& sums, const Began& began) {
  const double seconds = std::max(1e-9, steady_seconds() - began.seconds);
  return {seconds, static_cast<double>(sums.samples - began.samples) / seconds, static_cast<double>(sums.tokens - began.tokens) / seconds};
}

void RunLog::events(data::Part part, int64_t step, const std::map<std::string, double>& values) {
  if (!tensorboard_) return;
  auto at = event_files_.find(part);
  if (at == event_files_.end()) {
    const auto purge = purge_from_.find(part);
    at = event_files_
             .emplace(part, io::EventFile(run_.path() / "tensorboard" / std::string(name_of(part)),
                                          purge == purge_from_.end() ? -1 : purge->second))
             .first;
  }
  for (const auto& [tag, value] : values) at->second.scalar(tag, step, value, wall_seconds());
  at->second.flush();
}

void RunLog::train_line(const RunState& s, const UpdateResult& last) {
  const RunState::Sums& w = s.window;
  const Speeds speed = speeds(w, window_);
  const double loss = w.count > 0 ? w.loss / w.count : std::nan("");
  io::JsonLine line = line_of(s, data::Part::train);
  line.field("train/loss", loss);
  std::map<std::string, double> values{{"train/loss", loss}, {"lr", last.rate}, {"gradient_norm", s.gradient_norm}};
  if (w.targets > 0) {
    line.field("train/accuracy", w.correct / w.targets);
    values["train/accuracy"] = w.correct / w.targets;
  }
  if (last.auxiliary) {
    values["train/auxiliary_loss"] = w.count > 0 ? w.auxiliary / w.count : std::nan("");
    line.field("train/auxiliary_loss", values["train/auxiliary_loss"]);
  }
  line.field("lr", last.rate).field("gradient_norm", s.gradient_norm);
  line.field("tokens_per_s", speed.tokens).field("samples_per_s", speed.samples);
  line.field("peak_bytes", static_cast<int64_t>(allocator_statistics().peak_bytes));
  run_.append("metrics.jsonl", line.text() + "\n");
  events(data::Part::train, s.step, values);
  window_ = {steady_seconds()};
}

void RunLog::evaluation_line(const RunState& s, data::Part part, const Evaluation& evaluation) {
  io::JsonLine line = line_of(s, part);
  std::map<std::string, double> values;
  for (const Metric& m : evaluation.values) {
    const std::string key = fmt::format("{}/{}", name_of(part), m.name);
    line.field(key, m.value.value_or(std::nan("")));  // undefined is null
    if (m.value) values[key] = *m.value;
  }
  run_.append("metrics.jsonl", line.text() + "\n");
  events(part, s.step, values);
}

void RunLog::epoch_row(const RunState& s, double rate, const Evaluation* valid) {
  const RunState::Sums& e = s.epoch;
  const Speeds speed = speeds(e, epoch_);
  std::error_code missing;
  const auto bytes = std::filesystem::file_size(run_.path() / "epochs.csv", missing);
  if (missing || bytes == 0)  // a kill may have come between the making of the file and its first line
    run_.append("epochs.csv",
                "epoch,step,train/loss,train/accuracy,valid/loss,valid/accuracy,lr,seconds,samples_per_s,tokens_per_s,peak_bytes\n");
  const auto of_valid = [&](std::string_view metric) { return valid ? valid->value(metric) : std::nullopt; };
  run_.append("epochs.csv", fmt::format("{},{},{},{},{},{},{},{:.3f},{:.1f},{:.1f},{}\n", s.position.epoch, s.step,
                                        number(e.count > 0 ? std::optional(e.loss / e.count) : std::nullopt),
                                        number(e.targets > 0 ? std::optional(e.correct / e.targets) : std::nullopt),
                                        number(of_valid("loss")), number(of_valid("accuracy")), number(rate), speed.seconds, speed.samples,
                                        speed.tokens, allocator_statistics().peak_bytes));
  epoch_ = {steady_seconds()};
}

}  // namespace tapeformer::train
