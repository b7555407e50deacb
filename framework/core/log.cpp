// SPDX-License-Identifier: Apache-2.0
#include "framework/core/log.h"

#include <cstdio>

#include "framework/core/utf8.h"

namespace tapeformer {

namespace {

// `kept`: control characters that stay.
std::string escaped(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto u = static_cast<unsigned char>(text[i]);
    if (kept.find(text[i]) != std::string_view::npos) out += text[i];
    else if (u == '\n') out += "\\n";
    else if (u == '\r') out += "\\r";
    else if (u == '\t') out += "\\t";
    else if (u < 0x20 || u == 0x7f) out += fmt::format("\\x{:02x}", u);
    else if (is_c1_control(text, i)) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
    else out += text[i];
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, {}); }
std::string printable_lines(std::string_view text) { return escaped(text, "\n\t"); }

Log::Log(LogLevel level)
    : level_(level), sink_([](LogLevel l, std::string_view line) {
        const char* mark = l == LogLevel::warn ? "warning: " : l == LogLevel::error ? "error: " : "";
        std::fprintf(stderr, "%s%.*s\n", mark, static_cast<int>(line.size()), line.data());
      }) {}

// Whatever a message quotes cannot drive a terminal, also where nobody thought of it.
void Log::write(LogLevel level, std::string_view text) {
  const std::string line = printable_lines(text);
  if (level >= level_ && sink_) sink_(level, line);
  if (level >= LogLevel::info && file_sink_) file_sink_(level, line);
}

}  // namespace tapeformer
