// SPDX-License-Identifier: Apache-2.0
// Parsing of durations: a plain decimal number directly followed by a unit, or by none for updates.
#include "framework/train/duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tapeformer::train {
namespace {

constexpr std::string_view forms = "20ep (epochs), 50000, 50k or 2.5M (updates), 2h, 30m or 90s (time)";

std::string expected(std::string_view word, std::string_view why) {
  return fmt::format("'{}' is not a duration: {}; expected one of {}", word, why, forms);
}

// Digits with at most one point between or after them; no sign, no exponent, no "inf".
bool is_decimal(std::string_view s) {
  return !s.empty() && s.front() != '.' && s.back() != '.' && std::count(s.begin(), s.end(), '.') <= 1 &&
         s.find_first_not_of("0123456789.") == std::string_view::npos;
}

std::string seconds_text(double s) { return fmt::format("{}s", s); }

}  // namespace

std::optional<std::string> parse_duration(std::string_view word, Duration& d) {
  const size_t digits = std::min(word.find_first_not_of("0123456789."), word.size());
  const std::string_view number = word.substr(0, digits), unit = word.substr(digits);
  if (!is_decimal(number)) return expected(word, "it must start with a number above 0, such as 20 or 1.5");
  double value = 0;
  std::from_chars(number.data(), number.data() + number.size(), value);
  if (!(value > 0) || !std::isfinite(value)) return expected(word, "the number must be above 0");
  const auto set = [&](std::optional<double>& limit, double amount, std::string_view what) -> std::optional<std::string> {
    if (amount > 1e12) return expected(word, "that is too long");
    if (limit) return fmt::format("'{}' is a second limit in {}; give one at most", word, what);
    limit = amount;
    return std::nullopt;
  };
  if (unit == "ep") return set(d.epochs, value, "epochs");
  if (unit == "h") return set(d.seconds, value * 3600, "time");
  if (unit == "m") return set(d.seconds, value * 60, "time");
  if (unit == "s") return set(d.seconds, value, "time");
  if (unit != "" && unit != "k" && unit != "M") return expected(word, fmt::format("the unit '{}' is not known", unit));
  const double updates = value * (unit == "k" ? 1e3 : unit == "M" ? 1e6 : 1);
  // 2.3k is 2300 though 2.3 * 1000 in double is a hair off.
  const double whole = std::round(updates);
  if (whole < 1 || std::abs(updates - whole) > 1e-9 * whole) return expected(word, "updates must be a whole number");
  if (d.updates) return fmt::format("'{}' is a second limit in updates; give one at most", word);
  if (whole > 1e12) return expected(word, "that is too long");
  d.updates = static_cast<int64_t>(whole);
  return std::nullopt;
}

void read_duration(config::Section& section, std::string_view key, Duration& duration, std::string_view help) {
  std::vector<std::string> words;
  if (duration.epochs) words.push_back(fmt::format("{}ep", *duration.epochs));
  if (duration.updates) words.push_back(fmt::format("{}", *duration.updates));
  if (duration.seconds) words.push_back(seconds_text(*duration.seconds));
  section.field(key, words, help);
  if (words.empty() && section.given(key)) {
    section.fault(key, fmt::format("'{}' is an empty list", section.path(key)),
                  "give a limit, such as 20ep, or remove the line for the default");
    return;
  }
  Duration read;
  for (const std::string& word : words)
    if (const auto wrong = parse_duration(word, read)) {
      section.fault(key, fmt::format("'{}': {}", section.path(key), *wrong));
      return;
    }
  duration = read;
}

std::optional<int64_t> Duration::total_updates(int64_t updates_per_epoch) const {
  std::optional<int64_t> total = updates;
  if (epochs) {
    const double exact = *epochs * static_cast<double>(updates_per_epoch);
    const auto by_epochs = static_cast<int64_t>(std::min(std::ceil(exact - 1e-9 * exact), 1e18));
    total = std::min(total.value_or(by_epochs), by_epochs);
  }
  if (total) total = std::max<int64_t>(*total, 1);
  return total;
}

}  // namespace tapeformer::train
