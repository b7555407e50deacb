// SPDX-License-Identifier: Apache-2.0
// Attention variants by name, for options that take `all` or a list.
#pragma once
#include <string>
#include <vector>

namespace tapeformer::tools {
// The names asked for, each once; all of the registry for "all". Error(usage) for a name it does not hold; `option` is for the message.
std::vector<std::string> attention_names(const char* option, const std::vector<std::string>& asked);
}  // namespace tapeformer::tools
