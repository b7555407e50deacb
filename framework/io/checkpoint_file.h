// SPDX-License-Identifier: Apache-2.0
// A checkpoint as named tensors, texts and attributes in one HDF5 file behind a 512-byte user block: the line `tapeformer-checkpoint 1`,
// the file's length and the XXH3-128 of everything after the block. It is written aside, synced, renamed into place and read back. Each
// tensor's data set has the attribute xxh64, of its bytes in the file's order, so that a changed one is named.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/io/file_system.h"
#include "framework/io/hdf5.h"

namespace tapeformer::io {

struct Checkpoint {
  std::map<std::string, Tensor> tensors;                  // "/model/encoder.layers.0.attention.query.weight": any dtype, contiguous
  std::map<std::string, std::string> texts;               // "/config/resolved_yaml": UTF-8 scalar data sets
  std::map<std::string, std::vector<std::string>> lists;  // "/labels": UTF-8 [K]
  std::map<std::string, std::map<std::string, Attribute>>
      attributes;  // path of a group or data set -> name -> value; "/" is the file itself
};

// Durable: FILE.tmp-<random> beside it, fsync, read back, rename, fsync of the directory. Error(resource) on any failure: up to the rename
// the temporary file is gone and whatever stood under the name is untouched; after it the new file is whole. Equal contents give equal
// bytes.
void write_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint, const FileSystem& system = file_system());
// Error(checkpoint) when the file is cut, flipped, of a newer format or no checkpoint; the hash is checked before HDF5 sees the file.
Checkpoint read_checkpoint(const std::filesystem::path& file, const FileSystem& system = file_system());
// Cheap refusal reason, empty when the file is whole (length and hash agree).
std::string why_not_whole(const std::filesystem::path& file);

}  // namespace tapeformer::io
