// SPDX-License-Identifier: Apache-2.0
#include "framework/io/file_stamp.h"

#include <sys/stat.h>

#include <utility>

namespace tapeformer::io {

FileStamp::FileStamp(std::filesystem::path file) : file_(std::move(file)), facts_(now()) {}

FileStamp::Facts FileStamp::now() const {
  struct stat status {};
  if (::stat(file_.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

bool FileStamp::changed() const {
  const Facts today = now();
  return today.device == facts_.device && today.number == facts_.number && today.size >= 0 && today != facts_;
}

}  // namespace tapeformer::io
