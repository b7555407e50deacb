// SPDX-License-Identifier: Apache-2.0
// The one reading of numbers and truth values, for YAML, the command line and text data alike: decimal, without the locale.
//   integer  -?digits, no leading zero, no 0x10, 1_000 or 1e3
//   number   integer, or with a point and an exponent: 1e-4, .5, 1.e-3; finite
//   count    digits that may have a point and end in k or M: 50k, 2.5M
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tapeformer::config {

struct Outcome {
  enum class Kind { good, malformed, out_of_range };
  Kind kind = Kind::good;
  std::string hint = {};  // what to write instead, where that is known
  explicit operator bool() const { return kind == Kind::good; }
};

Outcome read_bool(std::string_view text, bool& value);
Outcome read_number(std::string_view text, int64_t& value);
Outcome read_number(std::string_view text, uint64_t& value);
Outcome read_number(std::string_view text, double& value);
Outcome read_count(std::string_view text, int64_t& value);

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
// True for what a person would call a number, whether one of the readers takes it or not.
bool looks_numeric(std::string_view text);

}  // namespace tapeformer::config
