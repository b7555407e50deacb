// SPDX-License-Identifier: Apache-2.0
// The one exception type: what went wrong, where, what to do, and the exit code it ends the program with.
#pragma once
#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tapeformer {

enum class ExitCode : int {
  done = 0,
  internal = 1,
  usage = 2,        // command line or config; nothing was started
  data = 3,         // a data file: format, row, column
  checkpoint = 4,   // incompatible or corrupt checkpoint or model
  nonfinite = 5,    // loss or gradients not finite
  resource = 6,     // memory, disk, permissions, directory in use
  unavailable = 7,  // device or precision not available
  time_limit = 75,
  interrupted = 130,
  terminated = 143,
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Throws Error with a formatted message: "what, where; what was expected, what to do".
template <class... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// For misuse by the calling code (a wrong shape, a wrong dtype): fails with ExitCode::internal unless `holds`.
template <class... Args>
void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) [[unlikely]] throw Error(ExitCode::internal, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tapeformer
