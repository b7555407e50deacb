// SPDX-License-Identifier: Apache-2.0
// Lines of a file, pipe or terminal as they arrive: what has come is never held back for what has not.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "framework/io/file_system.h"

namespace tapeformer::io {

class LineReader {
 public:
  // Error(data) when the file cannot be read.
  explicit LineReader(const std::filesystem::path& file);
  // Without its line end (LF or CRLF) and without a byte-order mark; false at the end. Error(data) for a line of more than 64 MiB.
  bool next(std::string& line);
  // False when next() would wait.
  bool ready();
  int64_t line() const { return line_; }       // of the last line, from 1
  uint64_t offset() const { return offset_; }  // of its first byte in the file, behind a byte-order mark

 private:
  bool has_line();
  void fill();

  OpenFile file_;
  std::string buffer_;
  size_t at_ = 0, searched_ = 0;  // in the buffer: the next line, and up to where it has no end
  bool at_end_ = false;
  int64_t line_ = 0;
  uint64_t offset_ = 0, next_offset_ = 0;
};

}  // namespace tapeformer::io
