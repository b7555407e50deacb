// SPDX-License-Identifier: Apache-2.0
// The checkpoints directory of a run: names by step, the newest whole one, the best one, what is pruned. The links last.h5 and best.h5 are
// for people and never read.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/log.h"
#include "framework/io/checkpoint_file.h"

namespace tapeformer::train {

// What stays when another one is saved, beside that one.
struct Retention {
  int64_t keep_last = -1;  // so many of the newest that are planned; -1: all
  int64_t best_step = -1;  // < 0: there is none
  int64_t unplanned = -1;  // not this one, the newest until now (see RunState::planned); < 0: it was a planned one
};

class CheckpointStore {
 public:
  explicit CheckpointStore(std::filesystem::path directory) : directory_(std::move(directory)) {}

  std::filesystem::path file_of(int64_t step) const;
  // Steps with a file, ascending; strangers are left alone.
  std::vector<int64_t> steps() const;
  // The newest file that is whole; says which newer ones are not. Error(checkpoint) when there is none.
  std::filesystem::path last(Log&) const;
  // The newest planned one before `step` that is whole and whose numbers are all finite; nothing where there is none.
  std::optional<io::Checkpoint> last_finite_before(int64_t step, Log&) const;
  bool has(int64_t step) const;
  // The best file according to the newest whole one, or that one itself where there is no best.
  std::filesystem::path best_or_last(Log&) const;
  // Writes, then removes what is not kept.
  void save(const io::Checkpoint&, int64_t step, const Retention&) const;
  // For a run that goes on from `chosen`, a checkpoint of `step` here or in superseded/: what is newer goes to superseded/, and what was
  // there comes back, in place of another one of its step. At each moment the newest file here is one to go on from.
  void go_back_to(const std::filesystem::path& chosen, int64_t step) const;
  // Removes temporary files of a save that was killed.
  void remove_temporaries() const;

 private:
  void note_strangers(Log& log) const;
  template <class WhyNot>
  std::filesystem::path newest(Log& log, const WhyNot& why_not) const;
  void set_aside(int64_t step) const;
  void link(const char* name, int64_t step) const;
  std::filesystem::path directory_;
};

// Renames; Error(resource) with both names.
void move(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace tapeformer::train
