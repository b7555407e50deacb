// SPDX-License-Identifier: Apache-2.0
// Replacing a file so that a crash at any moment leaves the old contents or the new, never a mixture.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "framework/io/file_system.h"

namespace tapeformer::io {

// A new file that gets its name when it is complete. Every failure is Error(resource); up to the rename the old file is untouched and the
// temporary one is removed with this object, after it (the message says "in place but") the new file is whole, but might not outlive a
// power cut.
class ReplacementFile {
 public:
  // Makes FILE.tmp-<random> in the same directory.
  explicit ReplacementFile(std::filesystem::path file, const FileSystem& system = file_system());
  ~ReplacementFile();
  ReplacementFile(const ReplacementFile&) = delete;
  ReplacementFile& operator=(const ReplacementFile&) = delete;

  // For a library that writes it by its name, in place of write().
  const std::filesystem::path& temporary() const;
  void write(std::string_view bytes);
  // Syncs, reads back what write() was given, renames, syncs the directory and reads the beginning of the file.
  void publish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether a file of this name, without its directory, is one that we write.
using OwnName = std::function<bool(std::string_view)>;
OwnName one_of(std::vector<std::string_view> names);

// Whether `name` is that of the temporary file of a replacement of one of ours. Others' files may be called alike.
bool is_temporary(std::string_view name, const OwnName& ours);

// Removes the temporary files of replacements of ours in `directory` whose process was killed. Only for whoever owns the directory: those
// of a process that still writes look the same.
void remove_temporaries(const std::filesystem::path& directory, const OwnName& ours);

// Says that this process replaces files in `directory`, as long as the object lives. Whoever finds nobody else there first removes what
// killed processes left of `ours`. By flock on the directory: on a file system without it nothing is removed.
class DirectoryUse {
 public:
  DirectoryUse(const std::filesystem::path& directory, const OwnName& ours, const FileSystem& system = file_system());

 private:
  OpenFile directory_;
};

// To a place that a user named. A file is replaced where symbolic links to it lead; what is there and is no regular file, such as a FIFO
// or /dev/stdout, is written to as it is.
void write_output(const std::filesystem::path& file, std::string_view bytes, const FileSystem& system = file_system());

// Writes the parts one behind the other.
void replace_file(const std::filesystem::path& file, const std::vector<std::string_view>& parts, const FileSystem& system = file_system());

}  // namespace tapeformer::io
