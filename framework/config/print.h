// SPDX-License-Identifier: Apache-2.0
// Values as text: YAML that reads back to the same value here and in other readers, and text that is safe on a terminal.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapeformer::config {

std::string yaml_text(bool value);
std::string yaml_text(int64_t value);
std::string yaml_text(uint64_t value);
// The shortest digits that read back to the same double; "1.0e-05", since YAML 1.1 readers take "1e-05" for a string.
std::string yaml_text(double value);
// Plain where every YAML reader takes it for the same text, else in double quotes.
std::string yaml_text(std::string_view value);
inline std::string yaml_text(const std::string& value) { return yaml_text(std::string_view(value)); }
inline std::string yaml_text(const char* value) { return yaml_text(std::string_view(value)); }
inline std::string yaml_text(int value) { return yaml_text(static_cast<int64_t>(value)); }

template <class T>
std::string yaml_list(const std::vector<T>& values) {
  std::string text;
  for (const T& v : values) text += (text.empty() ? "" : ", ") + yaml_text(v);
  return "[" + text + "]";
}

// Control characters escaped, cut to what fits a message.
std::string shortened(std::string_view text);
std::string in_quotes(std::string_view text);
// "a, b, c, …" with at most `most` names.
std::string joined(const std::vector<std::string>& names, size_t most);

}  // namespace tapeformer::config
