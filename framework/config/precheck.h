// SPDX-License-Identifier: Apache-2.0
// Checks of the raw text before the YAML library sees it: size, encoding, control characters, brackets.
#pragma once
#include "framework/config/fault.h"

namespace tapeformer::config {

// False, with the fault in the report, when the text can't be a config.
bool precheck(const SourcePtr& source, Report& report);

}  // namespace tapeformer::config
