// SPDX-License-Identifier: Apache-2.0
// One JSON object on one line: JsonLine{}.field("step", 3).field("train/loss", 0.5).text() is {"step":3,"train/loss":0.5}.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace tapeformer::io {

// The text in quotes, control characters escaped; bytes that are not UTF-8 become U+FFFD.
std::string json_text(std::string_view text);
// The fewest digits that read back as the same number; null for NaN and infinity, which JSON lacks.
std::string json_number(double value);

class JsonLine {
 public:
  // Fields stand in the order of the calls.
  JsonLine& field(std::string_view name, std::string_view value) { return raw(name, json_text(value)); }
  JsonLine& field(std::string_view name, const char* value) { return raw(name, json_text(value)); }
  JsonLine& field(std::string_view name, const std::string& value) { return raw(name, json_text(value)); }
  JsonLine& field(std::string_view name, double value) { return raw(name, json_number(value)); }
  template <std::integral T>
  JsonLine& field(std::string_view name, T value) {
    if constexpr (std::same_as<T, bool>) return raw(name, value ? "true" : "false");
    else return raw(name, std::to_string(value));
  }
  // A value that is JSON already: an array, another object.
  JsonLine& raw(std::string_view name, std::string_view json);
  // Without a line break.
  std::string text() const { return body_ + "}"; }

 private:
  std::string body_ = "{";
};

}  // namespace tapeformer::io
