// SPDX-License-Identifier: Apache-2.0
#include "framework/core/log.h"

#include <cstdio>

namespace tapeformer {

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (u == '\n') out += "\\n";
    else if (u == '\r') out += "\\r";
    else if (u == '\t') out += "\\t";
    else if (u < 0x20 || u == 0x7f) out += fmt::format("\\x{:02x}", u);
    else out += c;
  }
  return out;
}

Log::Log(LogLevel level)
    : level_(level), sink_([](LogLevel l, std::string_view line) {
        const char* mark = l == LogLevel::warn ? "warning: " : l == LogLevel::error ? "error: " : "";
        std::fprintf(stderr, "%s%.*s\n", mark, static_cast<int>(line.size()), line.data());
      }) {}

void Log::write(LogLevel level, std::string_view line) {
  if (level >= level_ && sink_) sink_(level, line);
  if (level >= LogLevel::info && file_sink_) file_sink_(level, line);
}

}  // namespace tapeformer
