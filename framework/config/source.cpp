// SPDX-License-Identifier: Apache-2.0
// Files to text. stdio rather than streams: its errors carry errno.
#include "framework/config/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "framework/config/print.h"
#include "framework/core/log.h"

namespace tapeformer::config {

bool read_bytes(const std::filesystem::path& file, std::string& bytes, std::string& why) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    why = "it is a directory";
    return false;
  }
  std::FILE* in = std::fopen(file.c_str(), "rb");
  if (in == nullptr) {
    why = std::generic_category().message(errno);
    return false;
  }
  bytes.resize(size_limit + 1);
  bytes.resize(std::fread(bytes.data(), 1, bytes.size(), in));
  const bool failed = std::ferror(in) != 0;
  if (failed) why = std::generic_category().message(errno);
  std::fclose(in);
  return !failed;
}

std::string normalised(std::string_view bytes) {
  if (bytes.substr(0, 3) == "\xEF\xBB\xBF") bytes.remove_prefix(3);
  std::string text;
  text.reserve(bytes.size() + 1);
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != '\r' || i + 1 == bytes.size() || bytes[i + 1] != '\n') text += bytes[i];
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

std::string origin(const Place& place) {
  if (!place.source) return "default";
  if (place.source->command_line) return "command line";
  if (place.line == 0) return printable(place.source->name);
  return fmt::format("{}:{}", printable(place.source->name), place.line);
}

std::string_view line_of(const Source& source, int line) {
  const std::string_view text = source.text;
  size_t begin = 0;
  for (int i = 1; i < line; ++i) {
    const size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) return {};
    begin = end + 1;
  }
  return text.substr(begin, text.find('\n', begin) - begin);
}

Place place_at(const SourcePtr& source, size_t offset, size_t length) {
  const std::string_view text = source->text;
  offset = std::min(offset, text.size());
  const size_t newline = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
  const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  const int line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(begin), '\n'));
  return {source, line, static_cast<int>(offset - begin) + 1, static_cast<int>(std::max<size_t>(length, 1))};
}

}  // namespace tapeformer::config
