// SPDX-License-Identifier: Apache-2.0
// What is in a file, as JSON and as text: checkpoints, HDF5 data files, tables.
#pragma once
#include <filesystem>
#include <string>

#include "framework/io/csv.h"

namespace tapeformer::tools {

enum class FileKind : uint8_t { checkpoint, hdf5, table };
// By the first bytes, and for tables by the ending of the name. What is none of them counts as a checkpoint, whose reader says what is
// wrong.
FileKind kind_of_file(const std::filesystem::path& file);

// A checkpoint that is not whole is Error(checkpoint).
std::string inspect_checkpoint(const std::filesystem::path& file, bool json);
std::string inspect_hdf5(const std::filesystem::path& file, bool json);
std::string inspect_table(const std::filesystem::path& file, bool json, io::Encoding encoding = io::Encoding::utf8);

}  // namespace tapeformer::tools
