// SPDX-License-Identifier: Apache-2.0
// One pass over the bytes. The library's scanner keeps every open bracket in memory, so they are counted here first.
#include "framework/config/precheck.h"

#include <fmt/format.h>

#include <algorithm>

namespace tapeformer::config {
namespace {

constexpr int bracket_limit = 20'000;

// Length of the UTF-8 sequence at `at`, 0 where it is none (overlong forms, surrogates and C1 controls are none).
size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xC2 && first <= 0xDF ? 2 : first >= 0xE0 && first <= 0xEF ? 3 : first >= 0xF0 && first <= 0xF4 ? 4 : 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  const unsigned second = byte(at + 1);
  if ((first == 0xC2 && second < 0xA0) || (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
    return 0;
  return length;
}

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
    if (length == 0) return refuse(at, fmt::format("byte 0x{:02x} is not UTF-8 text", c), "a config is YAML text in UTF-8");
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
