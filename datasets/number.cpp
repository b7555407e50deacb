// SPDX-License-Identifier: Apache-2.0
#include "datasets/number.h"

#include <fast_float/fast_float.h>

#include <algorithm>
#include <array>
#include <string>
#include <system_error>

namespace tapeformer::datasets {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n\v\f";
  const size_t first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? std::string_view() : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::optional<double> number_of(std::string_view text) {
  text = trimmed(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = fast_float::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (error != std::errc() && error != std::errc::result_out_of_range) return std::nullopt;
  return value;
}

bool is_missing(std::string_view text) {
  constexpr std::array<std::string_view, 5> words{"na", "n/a", "null", "none", "nan"};
  std::string lower(trimmed(text));
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower.empty() || std::find(words.begin(), words.end(), lower) != words.end();
}

}  // namespace tapeformer::datasets
