// SPDX-License-Identifier: Apache-2.0
// Loaded before the C library: flock and fcntl locks fail with the error number in SHIM_ERRNO, as some network file systems answer.
#include <sys/file.h>

#include <cerrno>
#include <cstdlib>

extern "C" int flock(int, int) noexcept {
  const char* number = std::getenv("SHIM_ERRNO");
  errno = number ? std::atoi(number) : ENOLCK;
  return -1;
}
