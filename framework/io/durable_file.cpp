// SPDX-License-Identifier: Apache-2.0
#include "framework/io/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <system_error>

#include "framework/core/log.h"

namespace tapeformer::io {
namespace {

constexpr ExitCode code = ExitCode::resource;

// Removes the temporary file unless it has got its final name.
class Temporary {
 public:
  Temporary(const FileSystem& system, std::filesystem::path path) : system_(system), path_(std::move(path)) {}
  ~Temporary() {
    if (!published_) system_.unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  void publish(const std::filesystem::path& file) {
    if (system_.rename(path_.c_str(), file.c_str()) != 0) {
      const int reason = errno;
      fail(code, "rename of {} to {} failed: {}", printable(path_.string()), printable(file.string()),
           std::generic_category().message(reason));
    }
    published_ = true;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  const FileSystem& system_;
  std::filesystem::path path_;
  bool published_ = false;
};

// At most `limit` bytes of the file against the parts.
void check_contents(const FileSystem& system, const std::filesystem::path& file, const std::vector<std::string_view>& parts, size_t limit) {
  OpenFile input(system, file, O_RDONLY, 0, code);
  std::vector<char> bytes(std::min(limit, size_t{1} << 20));
  for (std::string_view part : parts)
    while (limit > 0 && !part.empty()) {
      const size_t wanted = std::min({bytes.size(), part.size(), limit});
      if (input.read(bytes.data(), wanted) != wanted || std::memcmp(bytes.data(), part.data(), wanted) != 0)
        fail(code, "{} does not read back as it was written; check the disk", printable(file.string()));
      limit -= wanted;
      part.remove_prefix(wanted);
    }
}

}  // namespace

void replace_file(const std::filesystem::path& file, const std::vector<std::string_view>& parts, const FileSystem& system) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  OpenFile directory(system, folder, O_RDONLY | O_DIRECTORY, 0, code);
  OpenFile output(system, file.string() + fmt::format(".tmp-{:08x}", std::random_device{}()), O_WRONLY | O_CREAT | O_EXCL, 0666, code);
  Temporary temporary(system, output.path());
  for (const std::string_view part : parts) output.write(part);
  output.sync();
  output.close();
  check_contents(system, temporary.path(), parts, SIZE_MAX);
  temporary.publish(file);
  try {
    directory.sync();
    check_contents(system, file, parts, 512);
  } catch (const Error& e) {
    fail(code, "{} is in place but {}", printable(file.string()), e.what());
  }
}

}  // namespace tapeformer::io
