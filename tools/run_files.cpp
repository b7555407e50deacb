// SPDX-License-Identifier: Apache-2.0
#include "tools/run_files.h"

#include <fmt/format.h>

#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "framework/core/version.h"
#include "framework/optim/schedule.h"

namespace tapeformer::tools {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string quoted(const std::string& word) {
  if (!word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,") == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Keys that may change when a run goes on; the results of the updates already planned do not depend on them.
bool may_change(const std::string& key) {
  for (const char* allowed : {"train.duration", "log.", "eval.every", "eval.batch_size", "checkpoint.every", "checkpoint.keep_last", "device."})
    if (key == allowed || (std::string_view(allowed).ends_with('.') && key.starts_with(allowed))) return true;
  return false;
}

}  // namespace

void log_to(Log& log, const train::RunDirectory& run) {
  log.set_file_sink([&run](LogLevel, std::string_view line) { run.append("log.txt", fmt::format("{} {}\n", utc_now(), line)); });
}

void write_start_files(const train::RunDirectory& run, const config::Document& document, const std::vector<std::string>& words,
                       const data::Description& description) {
  run.write("config.yaml", document.user_text());
  run.write("overrides.txt", words.size() > 1 ? fmt::format("{}\n", fmt::join(words.begin() + 1, words.end(), "\n")) : "");
  run.write("config.resolved.yaml", document.resolved());
  run.write("labels.json", nlohmann::json(description.labels).dump(2) + "\n");
  if (!description.tokenizer_json.empty()) run.write("tokenizer/tokenizer.json", description.tokenizer_json);
}

void discard_if_unused(train::RunDirectory& run) {
  if (std::filesystem::exists(run.path() / "run.json")) return;
  std::error_code ignored;
  std::filesystem::remove_all(run.path(), ignored);
}

int64_t parameters_of(train::Trainer& trainer) {
  int64_t n = 0;
  for (const Parameter* p : trainer.model_state().parameters) n += p->value.count();
  return n;
}

RunStatus::RunStatus(const train::RunDirectory& run, const std::vector<std::string>& arguments, const train::Trainer& trainer)
    : run_(run), arguments_(arguments), trainer_(trainer), started_(utc_now()) {
  std::string line;
  for (const std::string& a : arguments_) line += quoted(a) + " ";
  run_.append("command.txt", line + "\n# go on: tapeformer train --resume " + quoted(run_.path().string()) + "\n");
  write("running", 0);
}

RunStatus::~RunStatus() {
  if (finished_) return;
  try {
    write("failed", 1);
  } catch (const Error&) {
    // The disk that made the run fail may refuse this too; what the run threw is what the user sees.
  }
}

void RunStatus::finish(ExitCode code) {
  finished_ = true;
  write(code == ExitCode::done ? "finished" : "interrupted", static_cast<int>(code));
}

void RunStatus::write(const std::string& status, int exit_code) const {
  const train::RunState& s = trainer_.state();
  nlohmann::ordered_json j{{"status", status}, {"exit_code", exit_code}, {"host", host_name()}, {"pid", getpid()}, {"version", TAPEFORMER_VERSION},
                           {"started", started_}, {"updated", utc_now()}, {"step", s.step}, {"epoch", s.position.epoch}, {"seconds", s.seconds}};
  if (s.best_step >= 0) j["best"] = {{"step", s.best_step}, {"value", s.best_value}};
  if (s.stopped_early) j["stopped_early"] = true;
  run_.write("run.json", j.dump(2) + "\n");
}

Resumption plan_resumption(const io::Checkpoint& checkpoint, const std::filesystem::path& file, const std::vector<std::string>& overrides, Log& log) {
  const auto config = checkpoint.texts.find("/config/resolved_yaml");
  if (config == checkpoint.texts.end()) fail(ExitCode::checkpoint, "{}: holds no config; the file was written by something else", file.string());
  const std::string name = file.string() + ":/config/resolved_yaml";
  config::Document before = config::Document::from_text(config->second, name, {});
  Log silent(LogLevel::off);
  const Experiment old = read_experiment(before, silent);
  Resumption out{config::Document::from_text(config->second, name, overrides), {}, {}};
  out.experiment = read_experiment(out.document, log);
  const auto was = before.values(), is = out.document.values();
  std::vector<std::string> refused;
  for (const auto& [key, value] : is) {
    const auto at = was.find(key);
    const std::string old_value = at == was.end() ? "nothing" : at->second;
    if (old_value == value) continue;
    if (may_change(key)) out.messages.push_back(fmt::format("{}: {} instead of {}", key, value, old_value));
    else refused.push_back(fmt::format("{}: {} in the run, {} now", key, old_value, value));
  }
  if (!refused.empty())
    fail(ExitCode::checkpoint, "{}: a run goes on with its own config; what differs:\n  {}\n  start a new run from its weights with --init-from {}", file.string(),
         fmt::join(refused, "\n  "), file.string());
  const auto& schedule = out.experiment.train.schedule;
  if (optim::depends_on_total(schedule) && !(old.train.duration == out.experiment.train.duration)) {
    const auto total = [](const Experiment& e) { return e.train.duration.updates; };
    if (total(old) && total(out.experiment)) {
      const int64_t next = train::step_of(checkpoint) + 1;
      out.messages.push_back(fmt::format("the learning rate follows the new duration from here on: {} instead of {} at step {}",
                                         optim::rate(schedule, out.experiment.train.optimizer.rate, next, *total(out.experiment)),
                                         optim::rate(old.train.schedule, old.train.optimizer.rate, next, *total(old)), next));
    } else {
      out.messages.push_back("the learning rate follows the new duration from here on");
    }
  }
  return out;
}

bool nothing_left_to_do(const Experiment& e, const io::Checkpoint& checkpoint) {
  const train::Duration& limit = e.train.duration;
  const train::RunState state = train::state_of(checkpoint, "the checkpoint");
  return state.stopped_early || (limit.updates && state.step >= *limit.updates) || (limit.seconds && state.seconds >= *limit.seconds) ||
         (limit.epochs && static_cast<double>(state.position.epoch) >= *limit.epochs);
}

}  // namespace tapeformer::tools
