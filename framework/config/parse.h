// SPDX-License-Identifier: Apache-2.0
// YAML text to the node tree, strictly: what the YAML library lets pass (duplicate keys, open quotes, a second document) is a fault here.
#pragma once
#include <optional>

#include "framework/config/fault.h"
#include "framework/config/node.h"

namespace tapeformer::config {

// Checks the text (size, UTF-8, control characters, nesting), then parses it. Nothing, and a fault in the report, when it can't be read;
// duplicate keys and merge keys are reported and the first or no value kept, so that reading can go on.
std::optional<Node> parse(const SourcePtr& source, Report& report);

}  // namespace tapeformer::config
