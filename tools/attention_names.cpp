// SPDX-License-Identifier: Apache-2.0
#include "tools/attention_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/core/suggest.h"

namespace tapeformer::tools {

std::vector<std::string> attention_names(const char* option, const std::vector<std::string>& asked) {
  std::vector<std::string> known, out;
  for (const auto& v : models::attention_variants()) known.emplace_back(v.name);
  if (asked == std::vector<std::string>{"all"}) return known;
  for (const std::string& name : asked) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string near = nearest(name, known);
      fail(ExitCode::usage, "{}: unknown variant '{}'{}; known: {}", option, printable(name),
           near.empty() ? "" : fmt::format("; did you mean '{}'?", near), fmt::join(known, ", "));
    }
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  }
  return out;
}

std::set<std::string> used_variants(const models::AttentionLayers& attention) {
  std::set<std::string> names;
  for (const auto& layer : attention.layers)
    for (const models::HeadGroup& group : layer) names.emplace(group.variant->name);
  return names;
}

}  // namespace tapeformer::tools
