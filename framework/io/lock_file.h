// SPDX-License-Identifier: Apache-2.0
// An exclusive lock on a path, held while an object lives. The kernel drops it with its owner, so a killed run leaves nothing to clean.
#pragma once
#include <filesystem>
#include <string_view>

namespace tapeformer::io {

class LockFile {
 public:
  // Makes the file if it is missing and writes host, process and `command` into it, for messages only. Error(resource) with the owner's
  // text when somebody holds it. What is locked is the file of that name, also when another was moved away under it meanwhile.
  LockFile(const std::filesystem::path& file, std::string_view command);
  ~LockFile();
  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&& other) noexcept;
  // False where the file system knows no locks (some network ones): then nobody is kept out, and the caller should say so.
  bool locked() const { return locked_; }

 private:
  int descriptor_ = -1;
  bool locked_ = false;
};

}  // namespace tapeformer::io
