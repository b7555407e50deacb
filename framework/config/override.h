// SPDX-License-Identifier: Apache-2.0
// Settings from the command line: `key.path=value` sets, `~key.path` removes.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "framework/config/fault.h"
#include "framework/config/node.h"

namespace tapeformer::config {

// What `~key.path` took away, by dotted key.
using Removed = std::map<std::string, std::vector<Overridden>>;

// Applies the overrides in their order; faults go to the report with the override as their place.
void apply_overrides(Node& root, const std::vector<std::string>& overrides, Report& report, Removed& removed);

}  // namespace tapeformer::config
