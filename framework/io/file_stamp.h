// SPDX-License-Identifier: Apache-2.0
// Whether a file that is kept open was written to meanwhile.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <filesystem>

namespace tapeformer::io {

class FileStamp {
 public:
  // Of the file as it is now.
  explicit FileStamp(std::filesystem::path file);
  // True when it has another size or time of change. A file that was removed or replaced under its name is still the old one for who has it
  // open, so that is no change.
  bool changed() const;

 private:
  struct Facts {
    dev_t device = 0;
    ino_t number = 0;
    int64_t size = -1, seconds = 0, nanoseconds = 0;
    bool operator==(const Facts&) const = default;
  };
  Facts now() const;

  std::filesystem::path file_;
  Facts facts_;
};

}  // namespace tapeformer::io
