// SPDX-License-Identifier: Apache-2.0
// What a run will write, told before its first update: the disk need not be full to find out that it is too small.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include "framework/io/checkpoint_file.h"
#include "framework/train/settings.h"

namespace tapeformer::train {

struct DiskNeed {
  uint64_t checkpoint_bytes = 0;  // of one
  int64_t checkpoints = 0;        // at the moment when most of them are there, less those that are there now
  uint64_t log_bytes = 0;
  uint64_t bytes() const { return checkpoint_bytes * static_cast<uint64_t>(checkpoints) + log_bytes; }
};

// `like`: a checkpoint as the run writes them. `updates`: still to do; nothing where only a time limits the run: then checkpoints that are
// all kept count as one.
DiskNeed disk_need(const TrainSettings&, const io::Checkpoint& like, std::optional<int64_t> updates, int64_t updates_per_epoch,
                   int64_t checkpoints_there);

// Bytes that the file system of a directory still takes from this user; nothing where it does not say.
std::optional<uint64_t> free_bytes(const std::filesystem::path& directory);

}  // namespace tapeformer::train
