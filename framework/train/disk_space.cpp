// SPDX-License-Identifier: Apache-2.0
#include "framework/train/disk_space.h"

#include <sys/statvfs.h>

#include <algorithm>

namespace tapeformer::train {
namespace {

constexpr uint64_t bytes_of_object = 512;            // the header of a data set with its attributes, and its entry in the group
constexpr uint64_t bytes_of_file = 16 << 10;         // the user block, groups, and the heap of texts
constexpr uint64_t bytes_of_log_line = 640;          // a line of metrics.jsonl and its records for TensorBoard
constexpr uint64_t bytes_of_small_files = 64 << 10;  // config, labels, run.json, log.txt

uint64_t size_of_file(const io::Checkpoint& c) {
  uint64_t bytes = bytes_of_file;
  for (const auto& [name, tensor] : c.tensors) bytes += tensor.bytes() + name.size() + bytes_of_object;
  for (const auto& [name, text] : c.texts) bytes += text.size() + bytes_of_object;
  for (const auto& [name, list] : c.lists) {
    bytes += bytes_of_object;
    for (const std::string& text : list) bytes += text.size() + 32;
  }
  return bytes;
}

// How often something is due in so many updates.
int64_t times(const Duration& every, int64_t updates, int64_t updates_per_epoch) {
  int64_t n = 0;
  if (every.updates) n = std::max(n, updates / *every.updates);
  if (every.epochs)
    n = std::max(n, static_cast<int64_t>(static_cast<double>(updates) / (*every.epochs * static_cast<double>(updates_per_epoch))));
  return n;
}

// Those that are kept and the one that is being written, but no more than the run saves in all.
int64_t most_at_once(const TrainSettings& s, std::optional<int64_t> updates, int64_t updates_per_epoch) {
  const int64_t best = s.best.empty() ? 0 : 1;
  if (!updates) return s.keep_last < 0 ? 1 : s.keep_last + best + 1;
  const int64_t planned = times(s.checkpoint_every, *updates, updates_per_epoch) + 1;
  if (s.keep_last < 0) return planned;
  return std::min(s.keep_last + best + 1, planned + best * times(s.eval_every, *updates, updates_per_epoch));
}

}  // namespace

DiskNeed disk_need(const TrainSettings& s, const io::Checkpoint& like, std::optional<int64_t> updates, int64_t updates_per_epoch,
                   int64_t checkpoints_there) {
  const int64_t most = most_at_once(s, updates, updates_per_epoch);
  const int64_t more = s.keep_last < 0 ? most : std::max<int64_t>(1, most - checkpoints_there);
  const int64_t lines = updates ? *updates / s.log_every + times(s.eval_every, *updates, updates_per_epoch) + 1 : 1;
  return {size_of_file(like), more, static_cast<uint64_t>(lines) * bytes_of_log_line + bytes_of_small_files};
}

std::optional<uint64_t> free_bytes(const std::filesystem::path& directory) {
  struct statvfs status {};
  if (::statvfs(directory.c_str(), &status) != 0 || status.f_blocks == 0) return std::nullopt;
  return uint64_t{status.f_bavail} * status.f_frsize;
}

}  // namespace tapeformer::train
