// SPDX-License-Identifier: Apache-2.0
// The grammar is checked by hand and the value taken by std::from_chars, which knows no locale.
#include "framework/config/scalar.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "framework/config/print.h"

namespace tapeformer::config {
namespace {

size_t digits_at(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - at;
}
size_t sign_length(std::string_view text) { return !text.empty() && (text[0] == '-' || text[0] == '+'); }

// from_chars takes no plus sign.
std::string_view without_plus(std::string_view text) { return text.substr(0, 1) == "+" ? text.substr(1) : text; }

struct Shape {
  bool valid = false, integer = false;
};
Shape shape_of(std::string_view text) {
  size_t at = sign_length(text);
  const size_t whole = digits_at(text, at);
  if (whole > 1 && text[at] == '0') return {};
  at += whole;
  if (at == text.size()) return {whole > 0, true};
  size_t fraction = 0;
  if (text[at] == '.') {
    fraction = digits_at(text, ++at);
    at += fraction;
  }
  if (whole + fraction == 0) return {};
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    at += sign_length(text.substr(at));
    const size_t exponent = digits_at(text, at);
    if (exponent == 0) return {};
    at += exponent;
  }
  return {at == text.size(), false};
}

// The plain spelling of what is almost a number; empty where there is none.
std::string respelled(std::string_view text) {
  std::string plain(text);
  plain.erase(std::remove(plain.begin(), plain.end(), '_'), plain.end());
  if (std::count(plain.begin(), plain.end(), ',') == 1 && plain.find('.') == std::string::npos) plain.replace(plain.find(','), 1, ".");
  size_t at = sign_length(plain);
  while (at + 1 < plain.size() && plain[at] == '0' && is_digit(plain[at + 1])) plain.erase(at, 1);
  return shape_of(plain).valid ? plain : std::string();
}

Outcome malformed(std::string_view text) {
  const std::string_view bare = text.substr(sign_length(text));
  if (bare.size() > 1 && bare[0] == '0' && std::string_view("xXoObB").find(bare[1]) != std::string_view::npos)
    return {Outcome::Kind::malformed, "numbers are decimal here"};
  const std::string plain = respelled(text);
  return {Outcome::Kind::malformed, plain.empty() || plain == text ? std::string() : "write " + plain};
}

template <class T>
Outcome read_integer(std::string_view text, T& value) {
  const Shape shape = shape_of(text);
  if (!shape.valid) return malformed(text);
  if (!shape.integer) {
    double real = 0;
    const bool whole = read_number(text, real) && real == std::floor(real) && std::abs(real) < 1e15;
    return {Outcome::Kind::malformed, whole ? "write " + yaml_text(static_cast<int64_t>(real)) : std::string()};
  }
  text = without_plus(text);
  if (std::is_unsigned_v<T> && text[0] == '-') return {Outcome::Kind::out_of_range};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return {code == std::errc() ? Outcome::Kind::good : Outcome::Kind::out_of_range};
}

}  // namespace

Outcome read_bool(std::string_view text, bool& value) {
  if (text == "true" || text == "false") {
    value = text == "true";
    return {};
  }
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* word : {"true", "yes", "on", "y", "t", "1"})
    if (lower == word) return {Outcome::Kind::malformed, "write true"};
  for (const char* word : {"false", "no", "off", "n", "f", "0"})
    if (lower == word) return {Outcome::Kind::malformed, "write false"};
  return {Outcome::Kind::malformed};
}

Outcome read_number(std::string_view text, int64_t& value) { return read_integer(text, value); }
Outcome read_number(std::string_view text, uint64_t& value) { return read_integer(text, value); }

Outcome read_number(std::string_view text, double& value) {
  if (!shape_of(text).valid) return malformed(text);
  text = without_plus(text);
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc() && std::isfinite(value)) return {};
  return {Outcome::Kind::out_of_range, "it does not fit a double"};
}

Outcome read_count(std::string_view text, int64_t& value) {
  const std::string_view number = text.substr(0, text.empty() ? 0 : text.size() - 1);
  const char suffix = text.empty() ? '\0' : text.back();
  if (suffix != 'k' && suffix != 'M') {
    if ((suffix == 'K' || suffix == 'm') && shape_of(number).valid)
      return {Outcome::Kind::malformed, "k stands for 1,000 and M for 1,000,000"};
    return read_number(text, value);
  }
  const size_t zeros = suffix == 'k' ? 3 : 6;
  if (!shape_of(number).valid || number.find_first_of("eE") != std::string_view::npos) return {Outcome::Kind::malformed};
  // Moves the point by hand, so that 2.3k is 2300 and not nearly so.
  const size_t point = std::min(number.find('.'), number.size());
  std::string whole(number.substr(0, point));
  std::string fraction(number.substr(std::min(point + 1, number.size())));
  while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
  if (fraction.size() > zeros) return {Outcome::Kind::malformed, "it is not a whole number"};
  whole += fraction + std::string(zeros - fraction.size(), '0');
  const std::string plain = respelled(whole);
  return read_number(plain.empty() ? whole : plain, value);
}

bool looks_numeric(std::string_view text) {
  const size_t at = sign_length(text) + (text.substr(sign_length(text), 1) == "." ? 1 : 0);
  return at < text.size() && is_digit(text[at]) && text.find_first_not_of("+-.,_eE0123456789xkM") == std::string_view::npos;
}

}  // namespace tapeformer::config
