// SPDX-License-Identifier: Apache-2.0
#include "framework/io/file_system.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "framework/core/log.h"

namespace tapeformer::io {
namespace {

// One call moves at most this much: some kernels refuse or shorten more than 2 GiB.
constexpr size_t largest_transfer = size_t{1} << 30;

// What we were given as standard input or output may be of the kind that does not wait by itself.
void wait_for(int descriptor, short event) {
  pollfd one{descriptor, event, 0};
  ::poll(&one, 1, -1);
}

}  // namespace

int FileSystem::open(const char* path, int flags, mode_t mode) const {
  if (std::string_view(path) == "/dev/stdin") return ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);    // a socket cannot be opened by this name
  if (std::string_view(path) == "/dev/stdout") return ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);  // and a file would be begun anew
  return ::open(path, flags, mode);
}
ssize_t FileSystem::read(int descriptor, void* data, size_t bytes) const { return ::read(descriptor, data, bytes); }
ssize_t FileSystem::write(int descriptor, const void* data, size_t bytes) const { return ::write(descriptor, data, bytes); }
int FileSystem::fsync(int descriptor) const { return ::fsync(descriptor); }
int FileSystem::close(int descriptor) const { return ::close(descriptor); }
int FileSystem::rename(const char* from, const char* to) const { return std::rename(from, to); }
int FileSystem::unlink(const char* path) const { return ::unlink(path); }

const FileSystem& file_system() {
  static const FileSystem system;
  return system;
}

OpenFile::OpenFile(const FileSystem& system, std::filesystem::path path, int flags, mode_t mode, ExitCode code)
    : system_(system), path_(std::move(path)), code_(code) {
  do {
    descriptor_ = system_.open(path_.c_str(), flags | O_CLOEXEC, mode);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) failed("open");
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) system_.close(descriptor_);
}

void OpenFile::failed(const char* call) const {
  const int reason = errno;
  fail(code_, "{} of {} failed: {}", call, printable(path_.string()), std::generic_category().message(reason));
}

size_t OpenFile::read_some(void* data, size_t bytes) {
  for (;;) {
    const ssize_t n = system_.read(descriptor_, data, std::min(bytes, largest_transfer));
    if (n >= 0) return static_cast<size_t>(n);
    if (errno == EAGAIN) wait_for(descriptor_, POLLIN);
    else if (errno != EINTR) failed("read");
  }
}

size_t OpenFile::read(void* data, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const size_t n = read_some(static_cast<char*>(data) + done, bytes - done);
    if (n == 0) break;
    done += n;
  }
  return done;
}

bool OpenFile::ready() const {
  pollfd in{descriptor_, POLLIN, 0};
  return ::poll(&in, 1, 0) != 0;
}

void OpenFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = system_.write(descriptor_, bytes.data(), std::min(bytes.size(), largest_transfer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      wait_for(descriptor_, POLLOUT);
      continue;
    }
    if (n == 0) errno = EIO;  // a regular file that takes nothing would be asked for ever
    if (n <= 0) failed("write");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void OpenFile::sync() {
  while (system_.fsync(descriptor_) != 0)
    if (errno != EINTR) failed("fsync");
}

void OpenFile::close() {
  // After EINTR Linux has released the descriptor already: a second close could hit another file.
  const bool closed = system_.close(std::exchange(descriptor_, -1)) == 0 || errno == EINTR;
  if (!closed) failed("close");
}

std::string read_file(const std::filesystem::path& path, ExitCode code, uint64_t limit, const FileSystem& system) {
  OpenFile file(system, path, O_RDONLY, 0, code);
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0 || !S_ISREG(status.st_mode))
    fail(code, "{} is not a regular file", printable(path.string()));
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size > limit) fail(code, "{} has {} bytes; at most {} are read", printable(path.string()), size, limit);
  std::string bytes(size, '\0');
  bytes.resize(file.read(bytes.data(), bytes.size()));
  return bytes;
}

}  // namespace tapeformer::io
