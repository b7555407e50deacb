// SPDX-License-Identifier: Apache-2.0
#include "tools/run_files.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "framework/core/host.h"
#include "framework/core/version.h"
#include "framework/io/sha256.h"
#include "framework/train/build_commit.h"

namespace tapeformer::tools {

std::string shell_quoted(const std::string& word) {
  if (!word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,") == std::string::npos)
    return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

namespace {

// Keys that may change when a run goes on; the results of the updates already planned do not depend on them.
bool may_change(const std::string& key) {
  for (const char* allowed : {"train.duration", "log.", "eval.every", "checkpoint.every", "checkpoint.keep_last", "device."})
    if (key == allowed || (std::string_view(allowed).ends_with('.') && key.starts_with(allowed))) return true;
  return false;
}

}  // namespace

RunLogFile::RunLogFile(Log& log, const train::RunDirectory& run) : log_(log) {
  log_.set_file_sink([&run](LogLevel, std::string_view line) { run.append("log.txt", fmt::format("{} {}\n", utc_now(), line)); });
}

void write_start_files(const train::RunDirectory& run, const config::Document& document, const std::vector<std::string>& words,
                       const data::Description& description) {
  run.write("config.yaml", document.user_text());
  run.write("overrides.txt", words.size() > 1 ? fmt::format("{}\n", fmt::join(words.begin() + 1, words.end(), "\n")) : "");
  run.write("config.resolved.yaml", document.resolved());
  run.write("labels.json", nlohmann::json(description.labels).dump(2) + "\n");
  if (!description.tokenizer_json.empty()) run.write("tokenizer/tokenizer.json", description.tokenizer_json);
}

void write_resumed_files(const train::RunDirectory& run, const config::Document& document, const std::vector<std::string>& overrides) {
  if (overrides.empty()) return;
  run.write("config.resolved.yaml", document.resolved());
  run.append("overrides.txt", fmt::format("{}\n", fmt::join(overrides, "\n")));
}

std::string config_digest(const config::Document& document) {
  const std::string resolved = document.resolved();
  std::string text;
  for (size_t at = 0; at < resolved.size();) {
    const size_t end = std::min(resolved.find('\n', at), resolved.size());
    const std::string_view line(resolved.data() + at, end - at);
    text.append(line.substr(0, line.rfind("  # from: "))) += '\n';
    at = end + 1;
  }
  return io::sha256(text);
}

int64_t parameters_of(train::Trainer& trainer) {
  int64_t n = 0;
  for (const Parameter* p : trainer.model_state().parameters) n += p->value.count();
  return n;
}

RunStatus::RunStatus(const train::RunDirectory& run, const std::vector<std::string>& arguments, const train::Trainer& trainer,
                     std::string config_sha256)
    : run_(run), arguments_(arguments), trainer_(trainer), config_sha256_(std::move(config_sha256)), started_(utc_now()) {
  std::string line;
  for (const std::string& a : arguments_) line += shell_quoted(a) + " ";
  run_.append("command.txt", line + "\n# go on: tapeformer train --resume " + shell_quoted(run_.path().string()) + "\n");
  write("running", ExitCode::done, "");
}

void RunStatus::finish(ExitCode code) const { write(code == ExitCode::done ? "finished" : "interrupted", code, ""); }

void RunStatus::failed(ExitCode code, const std::string& message) const noexcept {
  try {
    write("failed", code, message);
  } catch (const std::exception&) {
    // The user sees what the run threw.
  }
}

void RunStatus::write(const std::string& status, ExitCode code, const std::string& message) const {
  const train::RunState& s = trainer_.state();
  nlohmann::ordered_json j{{"status", status},
                           {"exit_code", static_cast<int>(code)},
                           {"host", host_name()},
                           {"pid", getpid()},
                           {"version", TAPEFORMER_VERSION},
                           {"git_commit", train::build_commit()},
                           {"config_sha256", config_sha256_},
                           {"started", started_},
                           {"updated", utc_now()},
                           {"step", s.step},
                           {"epoch", s.position.epoch},
                           {"seconds", s.seconds}};
  if (s.best_step >= 0) j["best"] = {{"step", s.best_step}, {"value", s.best_value}};
  if (s.stopped_early) j["stopped_early"] = true;
  if (!message.empty()) j["error"] = message;
  run_.write("run.json", j.dump(2) + "\n");
}

std::vector<Difference> differences(const std::map<std::string, std::string>& before, const std::map<std::string, std::string>& now) {
  std::map<std::string, std::string> both = now;
  both.insert(before.begin(), before.end());
  const auto value_in = [](const std::map<std::string, std::string>& values, const std::string& key) {
    const auto at = values.find(key);
    return at == values.end() ? std::string("nothing") : at->second;
  };
  std::vector<Difference> out;
  for (const auto& [key, ignored] : both)
    if (Difference d{key, value_in(before, key), value_in(now, key)}; d.before != d.now) out.push_back(std::move(d));
  return out;
}

Resumption plan_resumption(const io::Checkpoint& checkpoint, const std::filesystem::path& file, const std::vector<std::string>& overrides,
                           Log& log) {
  Log silent(LogLevel::off);
  StoredConfig before = stored_config(checkpoint, file, {}, silent, Use::look), now = stored_config(checkpoint, file, overrides, log);
  const std::vector<Difference> changed = differences(before.document.given_values(), now.document.given_values());
  Resumption out{std::move(now.document), std::move(before.experiment), std::move(now.experiment), {}};
  std::vector<std::string> refused;
  for (const Difference& d : changed)
    if (may_change(d.key)) out.messages.push_back(fmt::format("{}: {} instead of {}", d.key, d.now, d.before));
    else refused.push_back(fmt::format("{}: {} in the run, {} now", d.key, d.before, d.now));
  if (!refused.empty())
    fail(ExitCode::checkpoint,
         "{}: a run goes on with its own config; what differs:\n  {}\n  start a new run from its weights with --init-from {}",
         printable(file.string()), fmt::join(refused, "\n  "), printable(file.string()));
  return out;
}

bool nothing_left_to_do(const Experiment& e, const io::Checkpoint& checkpoint) {
  const train::Duration& limit = e.train.duration;
  const train::RunState state = train::state_of(checkpoint, "the checkpoint");
  if (state.evaluated_step != state.step) return false;  // the final evaluation may be missing
  return state.stopped_early || (limit.updates && state.step >= *limit.updates) || (limit.seconds && state.seconds >= *limit.seconds) ||
         (limit.epochs && static_cast<double>(state.position.epoch) >= *limit.epochs);
}

}  // namespace tapeformer::tools
