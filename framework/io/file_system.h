// SPDX-License-Identifier: Apache-2.0
// The system calls behind our files as an object, so that a test can make any one of them fail, and a file descriptor that retries
// interrupted and short calls and closes itself.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "framework/core/error.h"

namespace tapeformer::io {

// Each function answers as the call of its name does: negative and errno on failure.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int open(const char* path, int flags, mode_t mode) const;
  virtual ssize_t read(int descriptor, void* data, size_t bytes) const;
  virtual ssize_t write(int descriptor, const void* data, size_t bytes) const;
  virtual int fsync(int descriptor) const;
  virtual int close(int descriptor) const;
  virtual int rename(const char* from, const char* to) const;
  virtual int unlink(const char* path) const;
};

const FileSystem& file_system();

// A file descriptor and what its errors say: every failed call is Error(code) naming the call, the file and the reason.
class OpenFile {
 public:
  OpenFile(const FileSystem& system, std::filesystem::path path, int flags, mode_t mode, ExitCode code);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  // Bytes read, fewer than asked only at the end of the file.
  size_t read(void* data, size_t bytes);
  // What is there now, at most `bytes`; waits only while there is nothing. 0 at the end of the file.
  size_t read_some(void* data, size_t bytes);
  // True unless read_some() would wait.
  bool ready() const;
  void write(std::string_view bytes);
  void sync();
  // Checked, unlike the close of the destructor.
  void close();

 private:
  [[noreturn]] void failed(const char* call) const;

  const FileSystem& system_;
  std::filesystem::path path_;
  ExitCode code_;
  int descriptor_ = -1;
};

// All bytes of a regular file; Error(code) when it is missing, a directory or larger than `limit`.
std::string read_file(const std::filesystem::path& path, ExitCode code, uint64_t limit, const FileSystem& system = file_system());

}  // namespace tapeformer::io
