// SPDX-License-Identifier: Apache-2.0
// One pass over the bytes. The library's scanner keeps every open bracket in memory, so they are counted here first.
#include "framework/config/precheck.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/utf8.h"

namespace tapeformer::config {
namespace {

constexpr int bracket_limit = 20'000;

bool check_characters(const SourcePtr& source, Report& report) {
  const std::string_view text = source->text;
  const auto refuse = [&](size_t at, std::string message, std::string hint) {
    report.error(place_at(source, at), std::move(message), std::move(hint));
    return false;
  };
  if (text.substr(0, 2) == "\xFF\xFE" || text.substr(0, 2) == "\xFE\xFF") return refuse(0, "the file is UTF-16", "save it as UTF-8");
  for (size_t at = 0; at < text.size();) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c == '\r') return refuse(at, "a carriage return that ends no line", "end lines with LF or CRLF");
    if ((c < 0x20 && c != '\t' && c != '\n') || c == 0x7F)
      return refuse(at, fmt::format("control character 0x{:02x}: this is not a text file", c), "a config is YAML text in UTF-8");
    const size_t length = utf8_length(text, at);
    if (length == 0 || is_c1_control(text, at))
      return refuse(at, fmt::format("byte 0x{:02x} is not UTF-8 text", c), "a config is YAML text in UTF-8");
    at += length;
  }
  return true;
}

bool check_brackets(const SourcePtr& source, Report& report) {
  int depth = 0, opened = 0;
  for (size_t at = 0; at < source->text.size(); ++at) {
    const char c = source->text[at];
    if (c == ']' || c == '}') depth = std::max(0, depth - 1);
    if (c != '[' && c != '{') continue;
    if (++depth > depth_limit) {
      report.error(place_at(source, at), fmt::format("more than {} levels of nesting", depth_limit));
      return false;
    }
    if (++opened > bracket_limit) {
      report.error(place_at(source, at), fmt::format("more than {} brackets", bracket_limit));
      return false;
    }
  }
  return true;
}

}  // namespace

bool precheck(const SourcePtr& source, Report& report) {
  if (source->text.size() > size_limit) {
    report.error({source}, fmt::format("larger than {} bytes; a config is a small text file", size_limit));
    return false;
  }
  return check_characters(source, report) && check_brackets(source, report);
}

}  // namespace tapeformer::config
