// SPDX-License-Identifier: Apache-2.0
#include "framework/io/durable_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <string>
#include <system_error>

#include "framework/core/log.h"
#include "framework/io/content_hash.h"

namespace tapeformer::io {
namespace {

constexpr ExitCode code = ExitCode::resource;
constexpr std::string_view temporary_mark = ".tmp-";
constexpr size_t temporary_digits = 8;
constexpr size_t beginning = 512;  // bytes that are read again under the final name

std::filesystem::path folder_of(const std::filesystem::path& file) { return file.has_parent_path() ? file.parent_path() : "."; }

// The folder that a new file goes to, which must be there.
std::filesystem::path folder_for(const std::filesystem::path& file) {
  std::filesystem::path folder = folder_of(file);
  std::error_code none;
  if (std::filesystem::status(folder, none).type() == std::filesystem::file_type::not_found)
    fail(code, "{}: there is no directory {}; make it, or write elsewhere", printable(file.string()), printable(folder.string()));
  return folder;
}

// Where symbolic links lead, though nothing may be there yet.
std::filesystem::path through_links(std::filesystem::path file) {
  constexpr int most = 40;  // as Linux follows
  std::error_code none;
  for (int links = 0; std::filesystem::is_symlink(std::filesystem::symlink_status(file, none)); ++links) {
    if (links == most) fail(code, "{} leads to more than {} symbolic links, one to another", printable(file.string()), most);
    file = folder_of(file) / std::filesystem::read_symlink(file, none);
  }
  return file;
}

// The first bytes of a file, at most `limit`, and the hash of them.
std::string hash_of_file(const FileSystem& system, const std::filesystem::path& file, uint64_t limit) {
  OpenFile input(system, file, O_RDONLY, 0, code);
  std::string bytes(std::min<uint64_t>(limit, uint64_t{1} << 20), '\0');
  ContentHash hash;
  while (limit > 0) {
    const size_t got = input.read(bytes.data(), std::min<uint64_t>(bytes.size(), limit));
    if (got == 0) break;
    hash.add({bytes.data(), got});
    limit -= got;
  }
  return hash.text();
}

void check_contents(const FileSystem& system, const std::filesystem::path& file, uint64_t bytes, const std::string& hash) {
  if (hash_of_file(system, file, bytes) != hash)
    fail(code, "{} does not read back as it was written; check the disk", printable(file.string()));
}

}  // namespace

struct ReplacementFile::State {
  State(std::filesystem::path name, const FileSystem& calls)
      : system(calls),
        file(std::move(name)),
        directory(system, folder_for(file), O_RDONLY | O_DIRECTORY, 0, code),
        output(system, fmt::format("{}{}{:0{}x}", file.string(), temporary_mark, std::random_device{}(), temporary_digits),
               O_WRONLY | O_CREAT | O_EXCL, 0666, code) {}
  ~State() {
    if (!published) system.unlink(output.path().c_str());
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void rename() {
    if (system.rename(output.path().c_str(), file.c_str()) != 0) {
      const int reason = errno;
      fail(code, "rename of {} to {} failed: {}", printable(output.path().string()), printable(file.string()),
           std::generic_category().message(reason));
    }
    published = true;
  }

  const FileSystem& system;
  const std::filesystem::path file;
  OpenFile directory, output;
  ContentHash hash;
  std::string first;  // bytes of the beginning
  uint64_t written = 0;
  bool published = false;
};

ReplacementFile::ReplacementFile(std::filesystem::path file, const FileSystem& system)
    : state_(std::make_unique<State>(std::move(file), system)) {}
ReplacementFile::~ReplacementFile() = default;

const std::filesystem::path& ReplacementFile::temporary() const { return state_->output.path(); }

void ReplacementFile::write(std::string_view bytes) {
  state_->output.write(bytes);
  state_->hash.add(bytes);
  state_->written += bytes.size();
  if (state_->first.size() < beginning) state_->first += bytes.substr(0, beginning - state_->first.size());
}

void ReplacementFile::publish() {
  State& s = *state_;
  s.output.sync();
  s.output.close();
  check_contents(s.system, temporary(), s.written, s.hash.text());
  s.rename();
  try {
    s.directory.sync();
    ContentHash first;
    first.add(s.first);
    check_contents(s.system, s.file, s.first.size(), first.text());
  } catch (const Error& e) {
    fail(code, "{} is in place but {}", printable(s.file.string()), e.what());
  }
}

OwnName one_of(std::vector<std::string_view> names) {
  return [names = std::move(names)](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
}

// NAME.tmp-<8 hexadecimal digits>
bool is_temporary(std::string_view name, const OwnName& ours) {
  constexpr size_t added = temporary_mark.size() + temporary_digits;
  if (name.size() <= added) return false;
  const std::string_view end = name.substr(name.size() - added);
  return end.starts_with(temporary_mark) &&
         end.substr(temporary_mark.size()).find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         ours(name.substr(0, name.size() - added));
}

void remove_temporaries(const std::filesystem::path& directory, const OwnName& ours) {
  std::error_code ignored;
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored))
    if (is_temporary(entry.path().filename().string(), ours) && std::filesystem::is_regular_file(entry.symlink_status(ignored)))
      found.push_back(entry.path());
  for (const auto& file : found) std::filesystem::remove(file, ignored);
}

DirectoryUse::DirectoryUse(const std::filesystem::path& directory, const OwnName& ours, const FileSystem& system)
    : directory_(system, directory, O_RDONLY | O_DIRECTORY, 0, code) {
  if (::flock(directory_.descriptor(), LOCK_EX | LOCK_NB) == 0) remove_temporaries(directory, ours);
  // Between the two locks another may hold it alone and clear up: nothing of ours is there yet. It lets go at once.
  ::flock(directory_.descriptor(), LOCK_SH);
}

void write_output(const std::filesystem::path& file, std::string_view bytes, const FileSystem& system) {
  std::error_code none;
  const auto status = std::filesystem::status(file, none);
  // Standard output that is a file goes on where it is: another file under its name would take what is printed away.
  if (file != "/dev/stdout" && (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)))
    return replace_file(through_links(file), {bytes}, system);
  OpenFile output(system, file, O_WRONLY, 0, code);
  output.write(bytes);
  output.close();
}

void replace_file(const std::filesystem::path& file, const std::vector<std::string_view>& parts, const FileSystem& system) {
  ReplacementFile replacement(file, system);
  for (const std::string_view part : parts) replacement.write(part);
  replacement.publish();
}

}  // namespace tapeformer::io
