// SPDX-License-Identifier: Apache-2.0
// What training leaves as it is, chosen by name: parameters get no gradient, buffers do not move.
#pragma once
#include <string>
#include <vector>

#include "framework/nn/visitor.h"

namespace tapeformer::nn {

// Patterns are names that may have *. With a buffer all of its owner's are frozen. Returns the patterns that no parameter's name matches.
std::vector<std::string> freeze(const ModelState&, const std::vector<std::string>& patterns);

}  // namespace tapeformer::nn
