// SPDX-License-Identifier: Apache-2.0
#include "framework/core/host.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "framework/core/error.h"
#include "framework/core/log.h"

namespace tapeformer {
namespace {

std::string iso_text(std::time_t time) { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time)); }

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "localhost";
}

std::string utc_now() { return iso_text(std::time(nullptr)); }
std::string utc_stamp() { return fmt::format("{:%Y%m%d-%H%M%S}", fmt::gmtime(std::time(nullptr))); }

std::string creation_time() {
  const char* epoch = std::getenv("SOURCE_DATE_EPOCH");
  if (epoch == nullptr) return utc_now();
  const std::string_view text = epoch;
  std::time_t time = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), time);
  constexpr std::time_t year_10000 = 253402300800;  // beyond what a date of this form can say
  if (error != std::errc() || end != text.data() + text.size() || time < 0 || time >= year_10000)
    fail(ExitCode::usage, "SOURCE_DATE_EPOCH is '{}'; whole seconds since 1970 are expected", printable(text));
  return iso_text(time);
}

}  // namespace tapeformer
