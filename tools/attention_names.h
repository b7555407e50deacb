// SPDX-License-Identifier: Apache-2.0
// Attention variants by name, for options that take `all` or a list.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "models/attention/layers.h"

namespace tapeformer::tools {
// The names asked for, each once; all of the registry for "all". Error(usage) for a name it does not hold; `option` is for the message.
std::vector<std::string> attention_names(const char* option, const std::vector<std::string>& asked);
// The variants that the layers and their groups of heads have.
std::set<std::string> used_variants(const models::AttentionLayers&);
}  // namespace tapeformer::tools
