// SPDX-License-Identifier: Apache-2.0
#include "tools/overrides.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/core/suggest.h"

namespace tapeformer::tools {

Words sorted_words(const std::vector<std::string>& words) {
  Words out;
  for (const std::string& word : words) {
    const bool override_ = (word.find('=') != std::string::npos || word.starts_with("~")) && !std::filesystem::exists(word);
    if (override_) out.overrides.push_back(word);
    else if (out.file.empty()) out.file = word;
    else fail(ExitCode::usage, "'{}': one file is enough, and '{}' is given", printable(word), printable(out.file));
  }
  return out;
}

void check_overrides(const std::vector<std::string>& overrides, std::string_view verb, std::span<const std::string_view> allowed) {
  for (const std::string& o : overrides) {
    const std::string key = o.substr(o.starts_with("~"), o.find('=') - o.starts_with("~"));
    const bool known = std::any_of(allowed.begin(), allowed.end(),
                                   [&](std::string_view a) { return key == a || (a.ends_with('.') && key.starts_with(a)); });
    if (known) continue;
    const std::string near = nearest(key, {allowed.begin(), allowed.end()});
    const bool parts = std::find(allowed.begin(), allowed.end(), "data.test.") != allowed.end() && key.starts_with("data.");
    fail(ExitCode::usage, "'{}' is no file, and no key that {} can change in a model that is trained{}; it takes {}", printable(o), verb,
         !near.empty() ? fmt::format("; did you mean '{}'?", near)
         : parts       ? fmt::format(" (what stands in another file is said by part: data.test.path)")
                       : "",
         fmt::join(allowed, ", "));
  }
}

}  // namespace tapeformer::tools
