// SPDX-License-Identifier: Apache-2.0
#include "framework/io/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/host.h"
#include "framework/core/log.h"

namespace tapeformer::io {
namespace {

constexpr size_t longest_text = 4096;

std::string text_of(int descriptor) {
  std::string text(longest_text, '\0');
  const ssize_t n = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  while (text.ends_with('\n')) text.pop_back();
  return printable(text);
}

std::string own_text(std::string_view command) {
  return fmt::format("host {}, process {}, {}\n", host_name(), ::getpid(), printable(command)).substr(0, longest_text);
}

// True when taken, false when the file system has no locks.
bool take(int descriptor, const std::filesystem::path& file) {
  for (;;) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return false;
    const std::string owner = text_of(descriptor);
    fail(ExitCode::resource, "{} is locked by another run ({}); wait for it or stop it, or choose another directory",
         printable(file.string()), owner.empty() ? "it has not said its name yet" : owner);
  }
}

// False when the file was moved away between its opening and its locking: the lock is then on what has another name by now.
bool still_there(int descriptor, const std::filesystem::path& file) {
  struct stat opened {
  }, named{};
  return ::fstat(descriptor, &opened) == 0 && ::stat(file.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

}  // namespace

LockFile::LockFile(const std::filesystem::path& file, std::string_view command) {
  for (;;) {
    descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      const int reason = errno;
      fail(ExitCode::resource, "open of {} failed: {}", printable(file.string()), std::generic_category().message(reason));
    }
    try {
      locked_ = take(descriptor_, file);
    } catch (...) {
      ::close(descriptor_);
      throw;
    }
    if (still_there(descriptor_, file)) break;
    ::close(descriptor_);
  }
  const std::string text = own_text(command);
  const bool written =
      ::ftruncate(descriptor_, 0) == 0 && ::pwrite(descriptor_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  static_cast<void>(written);  // the lock holds without its text
}

LockFile::~LockFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

LockFile::LockFile(LockFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), locked_(std::exchange(other.locked_, false)) {}

LockFile& LockFile::operator=(LockFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(locked_, other.locked_);
  return *this;
}

}  // namespace tapeformer::io
