// SPDX-License-Identifier: Apache-2.0
#include "framework/io/json_lines.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "framework/io/text.h"

namespace tapeformer::io {
namespace {

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      else out.push_back(c);
  }
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (;;) {
    const auto bad = first_invalid_utf8(text);
    for (const char c : text.substr(0, bad.value_or(text.size()))) append_escaped(out, c);
    if (!bad) return out + "\"";
    out += "\xef\xbf\xbd";
    text.remove_prefix(*bad + 1);
  }
}

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return std::string(digits.data(), end);
}

JsonLine& JsonLine::raw(std::string_view name, std::string_view json) {
  if (body_.size() > 1) body_ += ',';
  body_ += json_text(name);
  body_ += ':';
  body_ += json;
  return *this;
}

}  // namespace tapeformer::io
