// SPDX-License-Identifier: Apache-2.0
// The directory of a run: who owns it, its small files, its append-only logs, its checkpoints.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "framework/core/log.h"
#include "framework/train/checkpoint_store.h"
#include "framework/train/state.h"

namespace tapeformer::io {
class LockFile;
}

namespace tapeformer::train {

enum class Existing : uint8_t { refuse, move_aside };

class RunDirectory {
 public:
  // A new run. A non-empty directory is Error(resource) with the ways out, or is moved to PATH.old-<time>.
  static RunDirectory create(const std::filesystem::path& path, Existing);
  // A run that exists, to go on with it. Takes the lock, removes the temporary files that a kill left.
  static RunDirectory open(const std::filesystem::path& path);
  ~RunDirectory();
  RunDirectory(RunDirectory&&) noexcept;

  const std::filesystem::path& path() const { return path_; }
  // False where the file system knows no locks, so that another run in this directory would not be noticed.
  bool locked() const;
  CheckpointStore& checkpoints() { return checkpoints_; }
  // Written aside and renamed.
  void write(const std::filesystem::path& name, std::string_view bytes) const;
  // Appends whole lines to a log of the run (metrics.jsonl, epochs.csv, log.txt). Error(resource) when the disk refuses.
  void append(const std::filesystem::path& name, std::string_view text) const;
  // Undoes create(): removes what it made, and puts a run that it moved aside back. For a start that was refused before it began.
  void abandon() noexcept;
  // Cuts metrics.jsonl and epochs.csv to what a run had written when it was in this state: no later steps, no evaluation and no epoch that
  // it has yet to do, no torn last line.
  void cut_logs_after(const RunState&) const;

 private:
  RunDirectory(std::filesystem::path path, std::unique_ptr<io::LockFile> lock);
  std::filesystem::path path_, moved_aside_;
  bool made_directory_ = false;
  std::unique_ptr<io::LockFile> lock_;
  CheckpointStore checkpoints_;
};

// True when `path` has the checkpoints directory of a run.
bool is_run_directory(const std::filesystem::path& path);

// With its parents; Error(resource).
void make_directory(const std::filesystem::path& path);

// Replaces a small file: a crash leaves the old contents or the new.
void write_whole(const std::filesystem::path& file, std::string_view bytes);

}  // namespace tapeformer::train
