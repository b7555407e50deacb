// SPDX-License-Identifier: Apache-2.0
// Messages for the person at the terminal and the run's log file: one sink with a level, never stdout.
#pragma once
#include <fmt/core.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace tapeformer {

enum class LogLevel { trace, debug, info, warn, error, off };

// Escapes control characters, so that text from data cannot drive a terminal or break a log line.
std::string printable(std::string_view text);
// The same for a message, whose line breaks and tabs stay.
std::string printable_lines(std::string_view text);

class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view line)>;
  explicit Log(LogLevel level = LogLevel::info);
  LogLevel level() const { return level_; }
  void set_level(LogLevel level) { level_ = level; }
  // Where lines go; standard error by default. A second sink (the run's log file) gets every line from `info` up, whatever the level.
  void set_sink(Sink sink) { sink_ = std::move(sink); }
  void set_file_sink(Sink sink) { file_sink_ = std::move(sink); }

  template <class... Args>
  void info(fmt::format_string<Args...> f, Args&&... args) {
    write(LogLevel::info, fmt::format(f, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> f, Args&&... args) {
    write(LogLevel::warn, fmt::format(f, std::forward<Args>(args)...));
  }
  template <class... Args>
  void debug(fmt::format_string<Args...> f, Args&&... args) {
    write(LogLevel::debug, fmt::format(f, std::forward<Args>(args)...));
  }
  void write(LogLevel level, std::string_view line);

 private:
  LogLevel level_;
  Sink sink_, file_sink_;
};

}  // namespace tapeformer
