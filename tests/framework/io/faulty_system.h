// SPDX-License-Identifier: Apache-2.0
// System calls of which the n-th misbehaves once, for tests of durable writing.
#pragma once
#include <cerrno>
#include <string>

#include "framework/io/file_system.h"

namespace tapeformer::io {

class FaultySystem : public FileSystem {
 public:
  // Call number `n` (from 1) fails with `error`; with error 0 it is a read or write that moves one byte.
  FaultySystem(int n, int error) : n_(n), error_(error) {}

  int calls() const { return calls_; }
  // The name of the call that failed; empty when none was reached.
  const std::string& failed() const { return failed_; }
  bool renamed() const { return renamed_; }

  int open(const char* path, int flags, mode_t mode) const override { return fails("open") ? -1 : FileSystem::open(path, flags, mode); }
  ssize_t read(int descriptor, void* data, size_t bytes) const override {
    if (fails("read")) return -1;
    return FileSystem::read(descriptor, data, shortened(bytes));
  }
  ssize_t write(int descriptor, const void* data, size_t bytes) const override {
    if (fails("write")) return -1;
    return FileSystem::write(descriptor, data, shortened(bytes));
  }
  int fsync(int descriptor) const override { return fails("fsync") ? -1 : FileSystem::fsync(descriptor); }
  int close(int descriptor) const override {
    FileSystem::close(descriptor);  // as Linux does: the descriptor is gone whatever the answer
    return fails("close") ? -1 : 0;
  }
  int rename(const char* from, const char* to) const override {
    if (fails("rename")) return -1;
    renamed_ = true;
    return FileSystem::rename(from, to);
  }
  int unlink(const char* path) const override { return fails("unlink") ? -1 : FileSystem::unlink(path); }

 private:
  bool fails(const char* call) const {
    if (++calls_ != n_) return false;
    failed_ = call;
    errno = error_;
    return error_ != 0;
  }
  size_t shortened(size_t bytes) const { return calls_ == n_ && error_ == 0 && bytes > 1 ? 1 : bytes; }

  int n_, error_;
  mutable int calls_ = 0;
  mutable std::string failed_;
  mutable bool renamed_ = false;
};

}  // namespace tapeformer::io
