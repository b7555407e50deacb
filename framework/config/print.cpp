// SPDX-License-Identifier: Apache-2.0
// Formatting without the locale: std::to_chars and tables of what YAML 1.1 and 1.2 readers take for something else than text.
#include "framework/config/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "framework/config/scalar.h"
#include "framework/core/log.h"
#include "framework/core/utf8.h"

namespace tapeformer::config {
namespace {

template <class T>
std::string digits(T value) {
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

// Words that some YAML reader takes for a truth value, a null or a number.
bool means_something(std::string_view text) {
  static constexpr std::array<std::string_view, 14> words = {"~",   "null", "true", "false", "yes",  "no",   "on",
                                                             "off", "y",    "n",    "nan",   ".nan", ".inf", "inf"};
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return c < 128 ? static_cast<char>(std::tolower(c)) : c; });
  return std::find(words.begin(), words.end(), lower) != words.end();
}

bool is_word_char(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80; }

// Numbers, dates, times and 1_000 in any reader: digits, and letters only where a number may have them.
bool like_a_number(std::string_view text) {
  if (text.substr(0, 2) == "0x" || text.substr(0, 2) == "0o" || text.substr(0, 2) == "0b") return true;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_digit(c) || std::string_view("+-._:eE").find(c) != std::string_view::npos; });
}

bool can_be_plain(std::string_view text) {
  if (text.empty() || text.back() == ' ' || means_something(text) || like_a_number(text)) return false;
  const char first = text.front();
  if (!is_word_char(first) && !is_digit(first) && first != '/' && first != '.') return false;
  for (size_t at = 0; at < text.size(); ++at)
    if (is_c1_control(text, at)) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_word_char(c) || is_digit(c) || std::string_view(" /.+-").find(c) != std::string_view::npos; });
}

}  // namespace

std::string yaml_text(bool value) { return value ? "true" : "false"; }
std::string yaml_text(int64_t value) { return digits(value); }
std::string yaml_text(uint64_t value) { return digits(value); }

std::string yaml_text(double value) {
  std::string text = digits(value);
  const size_t e = text.find('e');
  if (e != std::string::npos && text.find('.') == std::string::npos) text.insert(e, ".0");
  return text;
}

std::string yaml_text(std::string_view value) {
  if (can_be_plain(value)) return std::string(value);
  std::string text;
  for (const char c : value) {
    if (c == '"' || c == '\\') text.push_back('\\');
    text.push_back(c);
  }
  return fmt::format("\"{}\"", printable(text));
}

std::string shortened(std::string_view text) {
  constexpr size_t longest = 60;
  if (text.size() <= longest) return printable(text);
  size_t end = longest;
  while (end > 0 && continues_utf8(text[end])) --end;
  return printable(text.substr(0, end)) + "…";
}

std::string in_quotes(std::string_view text) { return fmt::format("\"{}\"", shortened(text)); }

std::string joined(const std::vector<std::string>& names, size_t most) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > most ? text + ", …" : text;
}

}  // namespace tapeformer::config
