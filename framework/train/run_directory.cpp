// SPDX-License-Identifier: Apache-2.0
#include "framework/train/run_directory.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "framework/core/host.h"
#include "framework/io/durable_file.h"
#include "framework/io/file_system.h"
#include "framework/io/lock_file.h"

namespace tapeformer::train {
namespace fs = std::filesystem;
namespace {

// True when there is anything but what a start that never got further leaves: the lock and an empty checkpoints directory.
bool holds_files(const fs::path& path) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    if (name != "LOCK" && (name != "checkpoints" || !fs::is_empty(entry.path(), error))) return true;
  }
  return false;
}

fs::path free_name(const fs::path& path) {
  const std::string base = (path.has_filename() ? path : path.parent_path()).string() + ".old-" + utc_stamp();
  fs::path name = base;
  for (int i = 2; fs::exists(name); ++i) name = fmt::format("{}-{}", base, i);
  return name;
}

// The number after `"step":` in a line of metrics.jsonl, or the second column of epochs.csv; -1 when there is none.
int64_t step_of_line(std::string_view line, bool json) {
  constexpr std::string_view key = "\"step\":";
  const size_t at = json ? line.find(key) : line.find(',');
  if (at == std::string_view::npos) return -1;
  const char* begin = line.data() + at + (json ? key.size() : 1);
  int64_t step = -1;
  return std::from_chars(begin, line.data() + line.size(), step).ec == std::errc() ? step : -1;
}

bool is_evaluation(std::string_view line) { return line.find("\"split\":\"valid\"") != std::string_view::npos; }

// The last step of which a line is kept.
int64_t last_step_of(std::string_view line, bool json, const RunState& state) {
  if (json) return is_evaluation(line) ? std::min(state.step, state.evaluated_step) : state.step;
  const bool row_to_come = state.position.cursor == 0 && state.epoch.samples > 0;
  return row_to_come ? state.step - 1 : state.step;
}

}  // namespace

void make_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(ExitCode::resource, "{}: cannot make the directory: {}", printable(path.string()), error.message());
}

RunDirectory::RunDirectory(fs::path path, std::unique_ptr<io::LockFile> lock)
    : path_(std::move(path)), lock_(std::move(lock)), checkpoints_(path_ / "checkpoints") {}
RunDirectory::~RunDirectory() = default;
RunDirectory::RunDirectory(RunDirectory&&) noexcept = default;
bool RunDirectory::locked() const { return lock_->locked(); }

RunDirectory RunDirectory::create(const fs::path& path, Existing existing) {
  if (fs::exists(path) && !fs::is_directory(path))
    fail(ExitCode::resource, "{}: is a file; name a directory for the run", printable(path.string()));
  fs::path moved_aside;
  if (fs::exists(path) && holds_files(path)) {
    if (existing == Existing::refuse)
      fail(ExitCode::resource,
           "{}: is not empty; go on with `tapeformer train --resume {}`, name another directory, or add --overwrite (moves it aside)",
           printable(path.string()), printable(path.string()));
    const io::LockFile nobody_else(path / "LOCK", "tapeformer train --overwrite");  // a run that is going on is not moved
    moved_aside = free_name(path);
    move(path, moved_aside);
  }
  const bool made = !fs::exists(path);
  make_directory(path);
  auto lock = std::make_unique<io::LockFile>(path / "LOCK", "tapeformer train");
  // Two starts may both have found it empty: the second to get the lock finds the first one's files.
  if (holds_files(path))
    fail(ExitCode::resource, "{}: another run has just started here; name another directory", printable(path.string()));
  make_directory(path / "checkpoints");
  RunDirectory run(path, std::move(lock));
  run.moved_aside_ = moved_aside;
  run.made_directory_ = made;
  return run;
}

RunDirectory RunDirectory::open(const fs::path& path) {
  if (!fs::exists(path)) fail(ExitCode::checkpoint, "{}: no such run", printable(path.string()));
  if (!is_run_directory(path)) fail(ExitCode::checkpoint, "{}: is not a run directory (it has no checkpoints/)", printable(path.string()));
  auto lock = std::make_unique<io::LockFile>(path / "LOCK", "tapeformer train");
  RunDirectory run(path, std::move(lock));
  run.checkpoints_.remove_temporaries();
  // All that is replaced here: by write(), and by `tapeformer compare`.
  io::remove_temporaries(path, io::one_of({"config.yaml", "overrides.txt", "config.resolved.yaml", "labels.json", "run.json",
                                           "metrics.jsonl", "epochs.csv", "comparison.json"}));
  io::remove_temporaries(path / "tokenizer", io::one_of({"tokenizer.json"}));
  return run;
}

void RunDirectory::abandon() noexcept {
  std::error_code ignored;
  for (const char* ours : {"LOCK", "checkpoints", "log.txt"}) fs::remove(path_ / ours, ignored);  // a directory only when it is empty
  if (made_directory_) fs::remove(path_, ignored);
  if (!moved_aside_.empty() && !fs::exists(path_, ignored)) fs::rename(moved_aside_, path_, ignored);
}

void RunDirectory::write(const fs::path& name, std::string_view bytes) const {
  make_directory((path_ / name).parent_path());
  write_whole(path_ / name, bytes);
}

void RunDirectory::append(const fs::path& name, std::string_view text) const {
  io::OpenFile out(io::file_system(), path_ / name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666, ExitCode::resource);
  out.write(text);
  out.close();
}

void RunDirectory::cut_logs_after(const RunState& state) const {
  for (const char* name : {"metrics.jsonl", "epochs.csv"}) {
    if (!fs::exists(path_ / name)) continue;
    const bool json = std::string_view(name) == "metrics.jsonl";
    const std::string all = io::read_file(path_ / name, ExitCode::resource, std::numeric_limits<uint64_t>::max());
    std::string kept;
    for (size_t at = 0; at < all.size();) {
      const size_t end = all.find('\n', at);
      if (end == std::string::npos) break;  // torn by a kill
      const std::string_view line(all.data() + at, end - at);
      const bool header = !json && at == 0;
      const int64_t found = step_of_line(line, json);
      if (header || (found >= 0 && found <= last_step_of(line, json, state))) kept.append(line).push_back('\n');
      at = end + 1;
    }
    if (kept != all) write(name, kept);
  }
}

void write_whole(const fs::path& file, std::string_view bytes) { io::replace_file(file, {bytes}); }

bool is_run_directory(const fs::path& path) { return fs::is_directory(path / "checkpoints"); }

}  // namespace tapeformer::train
