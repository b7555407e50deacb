// SPDX-License-Identifier: Apache-2.0
#include "tools/standard_output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "framework/io/text.h"

namespace tapeformer::tools {

bool write_out(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EPIPE) {
      return false;
    } else if (errno == EAGAIN) {
      pollfd out{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&out, 1, -1);
    } else if (errno != EINTR) {
      fail(ExitCode::resource, "cannot write to standard output: {}", std::strerror(errno));
    }
  }
  return true;
}

ExitCode print_result(std::string_view text) {
  static_cast<void>(write_out(text));  // whether somebody reads it or not, the work is done
  return ExitCode::done;
}

std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  const auto width = [](const std::string& cell) { return io::first_invalid_utf8(cell) ? cell.size() : io::character_starts(cell).size(); };
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string pad(widths[c] - width(row[c]), ' ');
      text += c == 0 ? (row.size() == 1 ? row[c] : row[c] + pad) : "  " + pad + row[c];
    }
    text += '\n';
  }
  return text;
}

std::string aligned(const std::vector<std::vector<std::string>>& rows, const std::vector<std::string>& notes) {
  const std::string lines = aligned(rows);
  std::string text;
  size_t at = 0;
  for (const std::string& note : notes) {
    const size_t end = lines.find('\n', at);
    text += lines.substr(at, end - at) + (note.empty() ? "" : "  " + note) + '\n';
    at = end + 1;
  }
  return text;
}

std::string bytes_text(double bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

}  // namespace tapeformer::tools
