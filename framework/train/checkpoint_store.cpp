// SPDX-License-Identifier: Apache-2.0
#include "framework/train/checkpoint_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "framework/core/finite.h"
#include "framework/io/durable_file.h"
#include "framework/train/checkpoint.h"

namespace tapeformer::train {
namespace fs = std::filesystem;
namespace {

constexpr const char* superseded = "superseded";

// The N of step-N.h5, or -1.
int64_t step_of_name(std::string_view name) {
  constexpr std::string_view prefix = "step-", suffix = ".h5";
  if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() <= prefix.size() + suffix.size()) return -1;
  const char* begin = name.data() + prefix.size();
  const char* end = name.data() + name.size() - suffix.size();
  int64_t step = -1;
  const auto [at, error] = std::from_chars(begin, end, step);
  return error == std::errc() && at == end && *begin != '-' ? step : -1;
}

bool is_plain_file(const fs::directory_entry& entry) {
  std::error_code ignored;
  return fs::is_regular_file(entry.symlink_status(ignored));
}

int64_t best_step_of(const io::Checkpoint& c) {
  const auto control = c.attributes.find("/control");
  if (control == c.attributes.end()) return -1;
  const auto at = control->second.find("best_step");
  const auto* step = at == control->second.end() ? nullptr : std::get_if<int64_t>(&at->second);
  return step ? *step : -1;
}

}  // namespace

void move(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail(ExitCode::resource, "{}: cannot be moved to {}: {}", printable(from.string()), printable(to.string()), error.message());
}

fs::path CheckpointStore::file_of(int64_t step) const { return directory_ / fmt::format("step-{:08}.h5", step); }

std::vector<int64_t> CheckpointStore::steps() const {
  std::set<int64_t> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory_, ignored)) {
    const int64_t step = step_of_name(entry.path().filename().string());
    if (step >= 0 && is_plain_file(entry) && entry.path() == file_of(step)) found.insert(step);
  }
  return {found.begin(), found.end()};
}

void CheckpointStore::note_strangers(Log& log) const {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory_, ignored)) {
    const std::string name = entry.path().filename().string();
    const int64_t step = step_of_name(name.substr(0, name.find(".tmp-")));
    const bool ours = step >= 0 && is_plain_file(entry) && name.starts_with(file_of(step).filename().string());
    if (!ours && !entry.is_symlink(ignored) && name != superseded) names.push_back(printable(name));
  }
  if (names.empty()) return;
  std::sort(names.begin(), names.end());
  const size_t shown = std::min<size_t>(names.size(), 10);
  log.info("{}: left alone, these are no checkpoints of this run: {}{}", printable(directory_.string()),
           fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "), shown < names.size() ? ", ..." : "");
}

// `why_not(file)` says what keeps a file from being used; empty: nothing.
template <class WhyNot>
fs::path CheckpointStore::newest(Log& log, const WhyNot& why_not) const {
  note_strangers(log);
  const std::vector<int64_t> all = steps();
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    const std::string reason = why_not(file_of(*step));
    if (reason.empty()) return file_of(*step);
    log.warn("{}{}", reason, std::next(step) == all.rend() ? "" : "; going back to the checkpoint before it");  // it names the file
  }
  fail(ExitCode::checkpoint, "{}: no whole checkpoint; start again with `tapeformer train CONFIG -o RUN --overwrite`",
       printable(directory_.string()));
}

fs::path CheckpointStore::last(Log& log) const { return newest(log, io::why_not_whole); }

std::optional<io::Checkpoint> CheckpointStore::last_finite_before(int64_t before, Log& log) const {
  const std::vector<int64_t> all = steps();
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    if (*step >= before) continue;
    const std::string name = printable(file_of(*step).string());
    try {
      io::Checkpoint checkpoint = io::read_checkpoint(file_of(*step));
      if (!is_planned(checkpoint)) continue;  // a run that was not stopped there has none
      const auto bad =
          std::find_if(checkpoint.tensors.begin(), checkpoint.tensors.end(), [](const auto& tensor) { return !all_finite(tensor.second); });
      if (bad == checkpoint.tensors.end()) return checkpoint;
      log.warn("{}: {} is not finite; going back to the checkpoint before it", name, printable(bad->first));
    } catch (const Error& e) {
      log.warn("{}; going back to the checkpoint before it", e.what());
    }
  }
  return std::nullopt;
}

bool CheckpointStore::has(int64_t step) const {
  const std::vector<int64_t> all = steps();
  return std::binary_search(all.begin(), all.end(), step);
}

fs::path CheckpointStore::best_or_last(Log& log) const {
  int64_t best = -1;
  const fs::path last = newest(log, [&](const fs::path& file) -> std::string {
    try {
      best = best_step_of(io::read_checkpoint(file));  // which finds whether it is whole as it reads
      return {};
    } catch (const Error& e) {
      if (e.code() != ExitCode::checkpoint) throw;
      return e.what();
    }
  });
  if (best < 0 || file_of(best) == last) return last;
  const std::string reason = io::why_not_whole(file_of(best));
  if (reason.empty()) return file_of(best);
  log.warn("the best checkpoint {} is not usable: {}; using {}", printable(file_of(best).string()), reason, printable(last.string()));
  return last;
}

void CheckpointStore::save(const io::Checkpoint& checkpoint, int64_t step, const Retention& keep) const {
  io::write_checkpoint(file_of(step), checkpoint);
  link("last.h5", step);
  if (keep.best_step >= 0 && has(keep.best_step)) link("best.h5", keep.best_step);
  if (keep.keep_last < 0) return;
  std::vector<int64_t> planned, old;
  for (const int64_t s : steps()) (s == step ? is_planned(checkpoint) : s != keep.unplanned) ? planned.push_back(s) : old.push_back(s);
  const int64_t removable = static_cast<int64_t>(planned.size()) - keep.keep_last;
  if (removable > 0) old.insert(old.end(), planned.begin(), planned.begin() + removable);
  for (const int64_t s : old) {
    std::error_code ignored;
    if (s != keep.best_step && s != step) fs::remove(file_of(s), ignored);
  }
}

void CheckpointStore::set_aside(int64_t step) const {
  std::error_code error;
  fs::create_directories(directory_ / superseded, error);  // a failure shows in the move
  const std::string name = file_of(step).filename().string();
  fs::path aside = directory_ / superseded / name;
  for (int i = 2; fs::exists(aside, error); ++i) aside = directory_ / superseded / fmt::format("{}.{}", name, i);
  move(file_of(step), aside);
}

void CheckpointStore::go_back_to(const fs::path& chosen, int64_t step) const {
  const fs::path file = fs::canonical(chosen);
  const bool was_aside = file.parent_path() == fs::canonical(directory_) / superseded;
  const std::vector<int64_t> all = steps();
  for (auto s = all.rbegin(); s != all.rend() && (*s > step || (was_aside && *s == step)); ++s) set_aside(*s);
  if (was_aside) move(file, file_of(step));
  // The links for people follow.
  if (const std::vector<int64_t> left = steps(); !left.empty()) link("last.h5", left.back());
}

void CheckpointStore::remove_temporaries() const {
  io::remove_temporaries(directory_, [this](std::string_view name) {
    const int64_t step = step_of_name(name);
    return step >= 0 && file_of(step).filename() == name;
  });
}

void CheckpointStore::link(const char* name, int64_t step) const {
  std::error_code ignored;
  const fs::path aside = directory_ / (std::string(name) + ".new");
  fs::remove(aside, ignored);
  fs::create_symlink(file_of(step).filename(), aside, ignored);
  if (!ignored) fs::rename(aside, directory_ / name, ignored);
}

}  // namespace tapeformer::train
