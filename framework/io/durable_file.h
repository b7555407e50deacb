// SPDX-License-Identifier: Apache-2.0
// Replacing a file so that a crash at any moment leaves the old contents or the new, never a mixture.
#pragma once
#include <filesystem>
#include <string_view>
#include <vector>

#include "framework/io/file_system.h"

namespace tapeformer::io {

// Writes the parts one behind the other to FILE.tmp-<random> in the same directory, syncs and reads it back, renames it to FILE, syncs the
// directory and reads the beginning of FILE. Error(resource) on any failure; up to the rename the old file is untouched and the temporary
// one is removed, after it (the message says "in place but") the new file is whole, but might not outlive a power cut.
void replace_file(const std::filesystem::path& file, const std::vector<std::string_view>& parts, const FileSystem& system = file_system());

}  // namespace tapeformer::io
