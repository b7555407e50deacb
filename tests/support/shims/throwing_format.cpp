// SPDX-License-Identifier: Apache-2.0
// Loaded before {fmt}: the SHIM_CALL-th formatted text throws an exception that is none of ours, as a fault of the program would.
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>

FMT_BEGIN_NAMESPACE
std::string vformat(string_view format, format_args args) {
  static std::atomic<long> left{[] {
    const char* number = std::getenv("SHIM_CALL");
    return number ? std::atol(number) : 0L;
  }()};
  if (left-- == 1) throw std::logic_error("injected");
  memory_buffer buffer;
  vformat_to(appender(buffer), format, args);
  return to_string(buffer);
}
FMT_END_NAMESPACE
